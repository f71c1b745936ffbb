from svm.encoding.encoder import Encoder
from svm.encoding.fitting import fit_encoder
from svm.encoding.hyperparameters import Encoding
from svm.encoding.notes import notes
from svm.encoding.recoding import recode, recoding

__all__ = ["Encoder", "Encoding", "fit_encoder", "notes", "recode", "recoding"]
