"""What `svm` raises.

SVMError
├── InvalidHyperparameter   a value outside its range (also a ValueError)
├── InvalidData             the data cannot be trained on or predicted (also a ValueError)
├── CheckpointMismatch      the checkpoint belongs to another training (also a ValueError)
├── Diverged                a value became infinite or undefined during training
└── Interrupted             the caller asked the training to stop
"""

from __future__ import annotations


class SVMError(Exception):
    """Base of all errors that `svm` raises."""


class InvalidHyperparameter(SVMError, ValueError):
    """A hyperparameter is outside its range."""

    def __init__(self, name: str, value: object, expected: str, meant: str = "") -> None:
        """`meant`: a question with what was probably meant."""
        super().__init__(name, value, expected, meant)
        self.name = name
        self.value = value
        self.expected = expected
        self.meant = meant

    def __str__(self) -> str:
        text = f"{self.name}: expected {self.expected}, got {self.value!r}"
        return f"{text}; {self.meant}" if self.meant else text


class InvalidData(SVMError, ValueError):
    """The data cannot be used; `code` is the reason, for programs."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message

    def __str__(self) -> str:
        return self.message


class CheckpointMismatch(SVMError, ValueError):
    """The checkpoint was taken from other data, hyperparameters or another seed."""


class Diverged(SVMError):
    """The iterates left the range of floating-point numbers; `suggestion` is what may help."""

    def __init__(self, message: str, suggestion: str) -> None:
        super().__init__(message, suggestion)
        self.message = message
        self.suggestion = suggestion

    def __str__(self) -> str:
        return f"{self.message}; {self.suggestion}"


class Interrupted(SVMError):
    """Raised by the `interrupted` callback of a training to stop it between blocks of work."""
