"""Models of tables with columns of texts: trained, scored, explained, stored."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.pipeline import make_union
from sklearn.svm import LinearSVC

from benchmarks.generated_texts import generated_texts
from svm.data.columns import Column
from svm.data.matrices import Array, Vector, is_sparse
from svm.data.stored_rows import StoredArray
from svm.data.texts import StoredTexts, TextList, stacked, texts_of, with_texts
from svm.encoding import fitting_texts
from svm.encoding.encoder import Encoding
from svm.encoding.fitting import fit_encoder
from svm.encoding.tokens import canonical
from svm.errors import InvalidData
from svm.kernel.kernels import GaussianKernel
from svm.model.explanations import contributions, strongest_tokens, text_contributions
from svm.model.pipeline import Pipeline
from svm.model.serialization import from_arrays, to_arrays
from svm.solvers import SMO, AnyChoice, Auto, DualCoordinateDescent, Newton, Pegasos
from svm.training.training import Training
from svm.transforms.features import Interactions
from tests.svm.cases.stored import stored
from tests.svm.cases.trainings import bits, train, written_and_read

COLUMNS = (
    Column("message", "text"),
    Column("size"),
    Column("shop", "category", ("a", "b", "c")),
    Column("subject", "text"),
)
WORDS = np.array(["free", "entry", "winner", "meet", "tomorrow", "lunch", "größe", "ok", "a", "42"])


def messages(n: int = 240) -> tuple[Vector, Array]:
    """Rows with two texts, some missing, a number and a category; three classes."""
    random = np.random.default_rng(3)
    labels = np.arange(n) % 3
    texts: list[str] = []
    cells = np.empty((n, 2))
    for i, label in enumerate(labels.tolist()):
        for j in range(2):
            cells[i, j] = len(texts)
            words = random.choice(WORDS, size=random.integers(1, 9)).tolist()
            own = [f"only{label}"] * (random.random() < 0.7)
            texts.append(" ".join([*words, *own]))
    X = np.column_stack(
        [cells[:, 0], random.normal(size=n), random.integers(3, size=n), cells[:, 1]]
    )
    X[5:9, 0] = X[8:20, 3] = np.nan
    return with_texts(X, TextList(texts)), np.array(["x", "y", "z"])[labels]


def pipeline(solver: AnyChoice, **encoding: Any) -> Pipeline:
    return Pipeline(solver=solver, scaling="standardize", encoding=Encoding(**encoding))


SQUARED: Any = {"C": 1.0, "loss": "squared-hinge"}


@pytest.mark.parametrize(
    "solver",
    [
        *(Auto(C=1.0), DualCoordinateDescent(**SQUARED), Newton(**SQUARED), Pegasos(C=1.0)),
        SMO(C=1.0, kernel=GaussianKernel(gamma=0.1)),
    ],
    ids=lambda solver: solver.name,
)
def test_a_row_has_the_scores_of_its_outputs_in_any_batch(solver: AnyChoice) -> None:
    X, labels = messages()
    fitted = train(pipeline(solver), X, labels, columns=COLUMNS).result().fitted
    scores = fitted.problem_scores(X)
    encoded: Any = fitted.encoder.transform(X, fitted.scaling)
    assert is_sparse(encoded)
    if fitted.kernel is None:
        expected = encoded @ fitted.coefficients.T + fitted.intercepts
        np.testing.assert_allclose(scores, expected, rtol=0.0, atol=1e-12)
    assert (fitted.predict(X) == labels).mean() > 0.8
    one_by_one = np.concatenate([fitted.problem_scores(X[i : i + 1]) for i in range(60)])
    np.testing.assert_array_equal(one_by_one, scores[:60])
    joined = stacked([X[40:50], X[:3].copy(), X[100:]], [0, 3])
    rows = [*range(40, 50), *range(3), *range(100, len(X))]
    np.testing.assert_array_equal(fitted.problem_scores(joined), scores[rows])
    again = from_arrays(to_arrays(fitted))
    np.testing.assert_array_equal(again.problem_scores(X), scores)


def test_outputs_are_those_of_tfidf_beside_scaled_numbers() -> None:
    X, _ = messages()
    encoder, scaling = fit_encoder(Encoding(text_weights={"subject": 2.0}), "max-abs", X, COLUMNS)
    encoded: Any = encoder.transform(X, scaling)
    twins = []
    for j, weight in ((0, 1.0), (3, 2.0)):
        there = ~np.isnan(X[:, j])
        texts = texts_of(X).take(X[there, j].astype(int).tolist())
        for settings in ({"ngram_range": (1, 2)}, {"analyzer": "char_wb", "ngram_range": (2, 4)}):
            twin = TfidfVectorizer(preprocessor=canonical, **settings).fit(texts)
            made = np.zeros((len(X), len(twin.vocabulary_)))
            made[there] = weight * twin.transform(texts).toarray()
            twins.append((twin.get_feature_names_out(), made))
    column = encoder.text_start
    for part, (names, made) in zip(
        [part for text in encoder.texts for part in text.parts], twins, strict=True
    ):
        order = [{name: k for k, name in enumerate(names)}[token] for token in part.tokens]
        assert len(order) == len(names)
        own = encoded[:, column : column + len(order)].toarray()
        np.testing.assert_allclose(own, made[:, order], rtol=0.0, atol=1e-12)
        column += len(order)
    assert column == encoder.n_outputs == len(encoder.output_names)
    assert "message: free entry" in encoder.output_names
    assert 'subject: " fre"' in encoder.output_names
    assert {"message: missing", "subject: missing"} < set(encoder.output_names)
    size = np.abs(X[:, 1]).max()
    np.testing.assert_allclose(encoded[:, [0]].toarray()[:, 0], X[:, 1] / size)


@pytest.mark.parametrize(
    ("texts", "parts"),
    [
        (["short one"] * 9, ["words", "characters"]),
        (["many words " * 30] * 5 + ["short"] * 4, ["words"]),
        (["今天天气很好", "我们去公园散步吧", "อากาศดีมาก"], ["characters"]),
        (["今天 is only one word of english here"] * 3, ["words", "characters"]),
    ],
)
def test_tokens_fit_the_texts(texts: list[str], parts: list[str]) -> None:
    X = with_texts(np.arange(float(len(texts)))[:, None], TextList(texts))
    encoder, _ = fit_encoder(Encoding(), "none", X, COLUMNS[:1])
    assert [part.name for part in encoder.texts[0].parts] == parts


def test_an_encoder_of_few_texts_knows_what_it_did_not_see() -> None:
    X = with_texts(np.array([[0.0], [np.nan], [1.0]]), TextList(["free entry", "free lunch"]))
    encoder, _ = fit_encoder(Encoding(min_count=2), "none", X, COLUMNS[:1])
    assert encoder.texts[0].parts[0].tokens == ("free",)
    rows = with_texts(np.array([[0.0], [1.0], [np.nan]]), TextList(["Free  FREE entry", "x y zz"]))
    assert encoder.unknown_words(rows).tolist() == [1, 1, 0]
    encoded: Any = encoder.transform(rows)
    assert encoded[[1]].nnz == 1  # only the indicator of a missing text
    whole, _ = fit_encoder(Encoding(), "none", X[1:2], COLUMNS[:1])
    assert whole.n_outputs == 1
    assert not whole.texts[0].parts[0].keys.size


def test_words_behind_the_last_known_one_are_unknown() -> None:
    """Many words, of which some have larger keys than all tokens of the model."""
    known = with_texts(np.zeros((1, 1)), TextList(["free entry"]))
    encoder, _ = fit_encoder(Encoding(tokens="words"), "none", known, COLUMNS[:1])
    others = TextList([" ".join(f"word{k}" for k in range(4000)), "entry free"])
    rows = with_texts(np.array([[0.0], [1.0]]), others)
    assert encoder.unknown_words(rows).tolist() == [4000, 0]


def test_of_very_many_tokens_those_of_one_text_are_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The limit is that of a part; lowered, as texts with as many words take long."""
    monkeypatch.setattr(fitting_texts, "MOST_TOKENS", 3)
    X = with_texts(np.arange(2.0)[:, None], TextList(["aa bb cc", "aa dd"]))
    encoder, _ = fit_encoder(Encoding(tokens="words"), "none", X, COLUMNS[:1])
    assert encoder.texts[0].parts[0].tokens == ("aa",)


def test_single_tokens_of_very_many_texts_are_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The encoder is the same; limits are lowered, as such texts take minutes."""
    random = np.random.default_rng(0)
    words = random.zipf(1.2, size=(300, 20)) % 5000
    texts = TextList([" ".join(f"w{k}" for k in row) for row in words.tolist()])
    X = with_texts(np.arange(300.0)[:, None], texts)
    monkeypatch.setattr(fitting_texts, "MOST_TOKENS", 1000)
    few, _ = fit_encoder(Encoding(tokens="both"), "none", X, COLUMNS[:1])
    monkeypatch.setattr(fitting_texts, "MANY_CHARACTERS", 1000)
    many, _ = fit_encoder(Encoding(tokens="both"), "none", X, COLUMNS[:1])
    for part, other in zip(few.texts[0].parts, many.texts[0].parts, strict=True):
        assert other.tokens == part.tokens
        assert other.counts.tolist() == part.counts.tolist()
        assert min(part.counts) == 2


def test_tokens_of_a_row_sum_to_its_score() -> None:
    X, labels = messages()
    fitted = train(pipeline(Auto(C=1.0)), X, labels, columns=COLUMNS).result().fitted
    for i in range(30):
        row = X[i : i + 1]
        (terms,), tokens = contributions(fitted, row), text_contributions(fitted, row)
        total = terms.sum(axis=1) + fitted.intercepts
        np.testing.assert_allclose(total, fitted.problem_scores(row)[0], rtol=0.0, atol=1e-12)
        for j in (0, 3):
            values = [one.values for one in tokens if one.column == j]
            if not np.isnan(row[0, j]):
                np.testing.assert_allclose(np.sum(values, axis=0), terms[:, j], atol=1e-12)


@pytest.mark.parametrize("scheme", ["one-vs-one", "one-vs-rest"])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_strongest_tokens_speak_for_their_class(scheme: Any, n_classes: int) -> None:
    X, labels = messages()
    rows = np.isin(labels, ["x", "y", "z"][:n_classes])
    one = replace(pipeline(Auto(C=1.0), text_weights={"subject": 2.0}), multiclass=scheme)
    fitted = train(one, X[rows], labels[rows], columns=COLUMNS).result().fitted
    strongest = strongest_tokens(fitted, 5)
    assert list(strongest) == [0, 3]
    names = fitted.encoder.output_names
    for column, of_classes in strongest.items():
        assert len(of_classes) == n_classes
        for k, tokens in enumerate(of_classes):
            weights = [token.weight for token in tokens]
            assert weights == sorted(weights, reverse=True)
            assert f"only{k}" in tokens[0].token
            own = fitted.coefficients[:, names.index(f"{COLUMNS[column].name}: only{k}")]
            if n_classes == 2:
                expected = (-own[0], own[0])[k]
            elif scheme == "one-vs-rest":
                expected = own[k]
            else:
                expected = (-own[0] - own[1], own[0] - own[2], own[1] + own[2])[k] / 2
            given = {token.token: token.weight for token in tokens}[f"only{k}"]
            assert given == pytest.approx(expected * (2.0 if column == 3 else 1.0))


@pytest.mark.parametrize("solver", [Newton(**SQUARED), DualCoordinateDescent(order="blocks")])
def test_texts_in_files_give_the_bits_of_memory(tmp_path: Path, solver: AnyChoice) -> None:
    X, labels = messages()
    texts = [text.encode() for text in texts_of(X).take(range(len(texts_of(X))))]
    (tmp_path / "texts").write_bytes(b"".join(texts))
    with (tmp_path / "texts").open("rb") as file:
        data = StoredArray(file, np.dtype(np.uint8))
    in_files = replace(
        stored(np.asarray(X), tmp_path), texts=StoredTexts(data, np.cumsum(list(map(len, texts))))
    )
    memory, files = (train(pipeline(solver), Z, labels, columns=COLUMNS) for Z in (X, in_files))
    assert bits(memory.result()) == bits(files.result())
    some = np.arange(3, len(X), 2)
    chosen = [
        train(pipeline(solver), Z[some], labels[some], columns=COLUMNS) for Z in (X, in_files)
    ]
    assert bits(chosen[0].result()) == bits(chosen[1].result())


def test_a_training_on_texts_resumes() -> None:
    X, labels = messages()
    whole = train(pipeline(DualCoordinateDescent(**SQUARED)), X, labels, columns=COLUMNS)
    given = pipeline(DualCoordinateDescent(**SQUARED)), X, labels
    first = Training(*given, seed=0, columns=COLUMNS)
    next(iter(first))
    checkpoint = written_and_read(first.checkpoint())
    resumed = Training(*given, seed=0, columns=COLUMNS, checkpoint=checkpoint)
    for _ in resumed:
        pass
    assert bits(resumed.result()) == bits(whole.result())


def test_products_of_tokens_are_refused() -> None:
    X, labels = messages()
    with pytest.raises(InvalidData) as refused:
        train(replace(pipeline(Newton()), features=Interactions()), X, labels, columns=COLUMNS)
    assert refused.value.code == "features-unsupported"


@pytest.mark.parametrize("damage", ["texts_counts", "texts_tokens", "texts"])
def test_damaged_tokens_are_found(damage: str) -> None:
    X, labels = messages()
    content = to_arrays(train(pipeline(Newton()), X, labels, columns=COLUMNS).result().fitted)
    content[damage] = content[damage][: len(content[damage]) // 2]
    with pytest.raises(InvalidData) as refused:
        from_arrays(content)
    assert refused.value.code == "model-unreadable"


def test_stored_texts_are_read_in_any_order() -> None:
    parts = ["ä", "", "long text", "\N{GRINNING FACE}", "x"]
    octets = np.frombuffer("".join(parts).encode(), np.uint8)
    texts = StoredTexts(octets, np.cumsum([len(part.encode()) for part in parts]))
    for places in ([], [0, 1, 2, 3, 4], [4, 2, 2, 0], [1]):
        assert texts.take(places) == [parts[place] for place in places]
    with pytest.raises(IndexError):
        texts.take([5])


def test_tokens_that_no_training_text_has_are_not_found() -> None:
    """Of many short ones some have keys behind the last one."""
    X = with_texts(np.array([[0.0]]), TextList(["ab ba"]))
    encoder, _ = fit_encoder(Encoding(), "none", X, COLUMNS[:1])
    others = [f"{chr(i)}{chr(j)}" for i in range(0x3B1, 0x3C9) for j in range(0x3B1, 0x3C9)]
    rows = with_texts(np.arange(float(len(others)))[:, None], TextList(others))
    encoded: Any = encoder.transform(rows)
    assert encoded.nnz == 0
    assert encoder.unknown_words(rows).tolist() == [1] * len(others)


def test_a_certified_model_of_texts_is_as_good_as_that_of_the_twin() -> None:
    """On the twin's own outputs its cost is what the certificate says, and no cost is lower than
    the certified bound."""
    texts, classes = generated_texts(2400, 4, length=60)
    X = with_texts(np.arange(2400.0)[:, None], TextList(texts))
    rows, new = slice(1600), slice(1600, None)
    solver = DualCoordinateDescent(**SQUARED, intercept="augmented")
    how = replace(pipeline(solver), multiclass="one-vs-rest")
    result = train(how, X[rows], classes[rows], columns=COLUMNS[:1]).result()
    fitted = result.fitted
    parts = ({"ngram_range": (1, 2)}, {"analyzer": "char_wb", "ngram_range": (2, 4)})
    twin = make_union(*(TfidfVectorizer(preprocessor=canonical, **one) for one in parts))
    Z = twin.fit_transform(texts[rows])
    theirs = LinearSVC(C=1.0, dual=True).fit(Z, classes[rows])
    ours = (fitted.predict(X[new]) == classes[new]).mean()
    assert abs(ours - (theirs.predict(twin.transform(texts[new])) == classes[new]).mean()) < 3e-3
    names = [name.split("__", 1)[1] for name in twin.get_feature_names_out()]
    sizes = [len(one.vocabulary_) for _, one in twin.transformer_list]
    keyed = {(name, k >= sizes[0]): k for k, name in enumerate(names)}
    [text] = fitted.encoder.texts
    order = [keyed[token, part is text.parts[1]] for part in text.parts for token in part.tokens]
    assert len(order) == len(names)
    weights = np.empty_like(fitted.coefficients)
    weights[:, order] = fitted.coefficients
    for k, certificate in enumerate(result.certificate.pairs):
        y = np.where(classes[rows] == k, 1.0, -1.0)
        bounds = certificate.dual, certificate.primal
        own = _cost(Z, y, weights[k], fitted.intercepts[k])
        assert own == pytest.approx(certificate.primal, rel=1e-9)
        assert bounds[0] <= _cost(Z, y, theirs.coef_[k], theirs.intercept_[k]) * (1.0 + 1e-9)
        assert bounds[1] - bounds[0] <= 1e-3 * bounds[1]


def _cost(Z: Any, y: Vector, w: Vector, b: float) -> float:
    """½ (‖w‖² + b²) / n + the mean squared shortfall."""
    shortfalls = np.maximum(0.0, 1.0 - y * (Z @ w + b))
    return float(0.5 * (w @ w + b * b) / len(y) + np.square(shortfalls).mean())
