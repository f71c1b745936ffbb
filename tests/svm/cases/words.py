"""Whether what a certificate says in words is true, by arithmetic."""

from __future__ import annotations

import re

from svm.problem.certificate import Certificate


def said_excess(sentence: str) -> tuple[str, float] | None:
    """What a sentence says that the cost is above the lowest possible one at most: ("share", of
    it), ("difference", in cost); None if it says that there is no bound."""
    if found := re.search(r"(?:at most|up to) (\S+) times the lowest possible", sentence):
        return "share", float(found[1]) - 1.0
    if found := re.search(r"(?:at most|up to) (\S+) % above the lowest possible", sentence):
        return "share", float(found[1]) / 100.0
    if found := re.search(r"(?:at most|up to) (\S+) above the lowest possible", sentence):
        return "difference", float(found[1])
    assert "there is no lower bound of its cost yet" in sentence, sentence
    return None


def is_true(certificate: Certificate, sentence: str, primal: float, lowest: float) -> bool:
    """Whether the sentence fits a model of cost `primal`, if another one has the cost `lowest`, and
    begins with its level."""
    begin = {"certified": "Certified: ", "rough": "Rough: ", "open": "Not converged: "}
    if not sentence.startswith(begin[certificate.status]):
        return False
    said = said_excess(sentence)
    if said is None:
        return certificate.status == "open"
    kind, value = said
    slack = 1e-9 * primal + 1e-12 * certificate.worst.zero_cost  # rounding of the losses
    return primal - lowest <= value * (lowest if kind == "share" else 1.0) + slack
