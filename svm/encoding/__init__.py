from svm.encoding.encoder import Encoder
from svm.encoding.fitting import fit_encoder
from svm.encoding.hyperparameters import Encoding

__all__ = ["Encoder", "Encoding", "fit_encoder"]
