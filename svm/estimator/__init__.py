"""`SVMClassifier`: the solvers behind scikit-learn's estimator protocol. Needs scikit-learn."""

from svm.estimator.classifier import SVMClassifier

__all__ = ["SVMClassifier"]
