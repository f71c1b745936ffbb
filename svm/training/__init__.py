from svm.training.training import Training

__all__ = ["Training"]
