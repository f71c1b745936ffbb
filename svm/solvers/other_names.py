"""What other libraries call solvers, kernels, features and hyperparameters."""

from __future__ import annotations

import re
from collections.abc import Collection
from difflib import get_close_matches

CLOSE = 0.65
"""Least similarity of a mistyped name: `star` is not a mistyped `square`."""
_ROOT = "which is 1 / (2 {0}²)"
_MEANT: dict[str, dict[str, str]] = {
    "rbf": {"gaussian": "", "smo": 'with the kernel {"name": "gaussian"}'},
    "poly": {"polynomial": "", "smo": 'with the kernel {"name": "polynomial"}'},
    "linear": {"newton": "for a linear model"},
    "svc": {"smo": "for a model with a kernel"},
    "svm": {"smo": "for a model with a kernel"},
    "svr": {"smo": "whose loss `epsilon-insensitive` is for a numeric target"},
    "linearsvr": {"newton": "whose loss `epsilon-insensitive` is for a numeric target"},
    "libsvm": {"smo": "for a model with a kernel"},
    "linearsvc": {"newton": "for a linear model"},
    "liblinear": {"dual-coordinate-descent": "which is LIBLINEAR's method"},
    "dcd": {"dual-coordinate-descent": ""},
    "sgd": {"pegasos": "which takes stochastic sub-gradient steps"},
    "sgdclassifier": {"pegasos": "which takes stochastic sub-gradient steps"},
    "rbfsampler": {"random-fourier": ""},
    "rff": {"random-fourier": ""},
    "nystrom": {"nystroem": ""},
    "ovo": {"one-vs-one": ""},
    "ovr": {"one-vs-rest": ""},
    "ova": {"one-vs-rest": ""},
    "squaredhinge": {"squared-hinge": ""},
    "l2": {"squared-hinge": "which LIBLINEAR calls L2-loss"},
    "l1": {"hinge": "which LIBLINEAR calls L1-loss"},
    "sigma": {"gamma": _ROOT},
    "lengthscale": {"gamma": _ROOT},
    "bandwidth": {"gamma": _ROOT},
    "alpha": {"lambda": ""},
    "regularization": {"lambda": ""},
    "fitintercept": {"intercept": "as `free`, `augmented` or `none`"},
    "learningrate": {"learning_rate": ""},
    "eta0": {"learning_rate": ""},
    "lr": {"learning_rate": ""},
    "maxiter": {"max_epochs": ""},
    "epochs": {"max_epochs": ""},
    "iterations": {"max_updates": "for a count of updates"},
    "steps": {"max_updates": "for a count of updates"},
    "tol": {"duality_gap": "which is relative"},
}
"""By the name in small letters without `-` and `_`: what it may mean, and what to know of that."""

_NOT_OFFERED = {
    "sigmoid": "a sigmoid kernel is not positive semi-definite, so that there is no certificate",
}


def did_you_mean(name: str, known: Collection[str]) -> str:
    """A question with the known name that is probably meant, and how to convert a value of it; or
    why there is none; empty if neither is known."""
    plain = re.sub(r"[-_ ]", "", name.lower())
    for meant, note in _MEANT.get(plain, {}).items():
        if meant in known:
            return _question(meant, note.format(name) if note == _ROOT else note)
    if plain in _NOT_OFFERED:
        return _NOT_OFFERED[plain]
    near = get_close_matches(name.lower(), known, n=1, cutoff=CLOSE) or [
        k for k in known if k.lower() == plain
    ]
    return _question(near[0], "") if near else ""


def _question(meant: str, note: str) -> str:
    separator = "" if not note else ", " if note.startswith(("which", "whose")) else " "
    return f"did you mean `{meant}`{separator}{note}?"
