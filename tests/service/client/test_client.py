"""The client with the real service: requests, results and errors."""

from __future__ import annotations

import asyncio
import bz2
import inspect
import io
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas
import pytest
from scipy.sparse import csr_array
from sklearn.datasets import load_diabetes, load_iris
from sklearn.metrics import r2_score

from service.client import (
    AsyncClient,
    Client,
    Conflict,
    Dataset,
    InvalidContent,
    InvalidRequest,
    Job,
    JobCanceled,
    JobFailed,
    Model,
    ModelVersion,
    NotFound,
    Problem,
)
from service.client.rows import score
from svm.solvers import Newton
from svm.stopping import Stopping
from tests.service.rows.workbooks import workbook

IRIS = load_iris()
X: npt.NDArray[np.float64] = IRIS.data
SPECIES: npt.NDArray[np.str_] = IRIS.target_names[IRIS.target]
NAMES = ["sepal_length", "sepal_width", "petal_length", "petal_width"]
ENDLESS: dict[str, Any] = {
    "solver": {"name": "pegasos", "lambda": 1e-3},
    "stopping": {"max_epochs": 100_000_000},
}


@pytest.fixture(scope="module")
def iris(server: Any) -> str:
    """A calibrated model trained on iris, with feature names."""
    with Client(server.url) as client:
        dataset = client.upload(X, SPECIES, columns=NAMES, name="iris")
        client.train(
            dataset,
            "iris",
            Newton(C=1.0),
            scaling="standardize",
            validation={"fraction": 0.3},
            calibration="sigmoid",
            seed=1,
        ).wait()
    return "iris"


def test_upload_train_predict(client: Client) -> None:
    """From arrays to a model with a certificate and an array of labels."""
    dataset = client.upload(X, SPECIES, name="flowers")
    assert (dataset.n_samples, dataset.n_features) == (150, 4)
    assert dataset.classes == ["setosa", "versicolor", "virginica"]
    job = client.train(dataset, "flowers", {"name": "newton", "C": 10.0}).wait(60)
    assert job.ended
    assert job.certificate is not None
    assert 0 <= job.certificate["relative_gap"] <= 1e-3
    version = job.model_version()
    labels = version.predict(X)
    assert labels.dtype.kind == "U"
    assert np.mean(labels == SPECIES) > 0.95
    assert (client.predict("flowers", X) == labels).all()
    assert len(job.trace()["epoch"]) > 0


def test_plan_of_a_training(client: Client) -> None:
    """It has what `validate_only` of the API has, and no job is queued."""
    dataset = client.upload(X, SPECIES, name="flowers")
    two = ["setosa", "virginica"]
    plan = client.plan(dataset, "planned", "newton", classes=two)
    assert (plan["n_samples"], plan["spread"]["bytes_once"]) == (100, 100 + 19)
    assert client.plan(dataset, "planned", "smo", classes=two)["spread"] is None
    assert list(client.jobs(model_name="planned", dataset=dataset)) == []
    with pytest.raises(InvalidContent):
        client.plan(dataset, "planned", "no")


def test_many_trainings_are_queued_at_once(client: Client) -> None:
    """A job or a problem for each, in order."""
    dataset = client.upload(X, SPECIES, name="flowers")
    good, bad = ({"dataset": dataset, "model_name": "many", "solver": s} for s in ("newton", "no"))
    first, refused, last = client.train_all([good, bad, {**good, "solver": Newton(C=2.0)}])
    assert isinstance(refused, InvalidContent)
    assert refused.errors[0].pointer == "/solver/name"
    for job in (first, last):
        assert not isinstance(job, Problem)
        assert job.wait(60).state == "succeeded"


@pytest.mark.parametrize(
    "form", ["array", "float32", "lists", "frame", "reordered", "dicts", "file"]
)
def test_same_rows_in_any_format(client: Client, iris: str, form: str, tmp_path: Path) -> None:
    """The predictions are the same; a frame's columns can be in any order."""
    frame = pandas.DataFrame(X, columns=NAMES)
    rows: Any = {
        "array": X,
        "float32": X.astype(np.float32),
        "lists": X.tolist(),
        "frame": frame,
        "reordered": frame[NAMES[::-1]],
        "dicts": frame.to_dict("records"),
        "file": str(tmp_path / "rows.csv"),
    }[form]
    frame.to_csv(tmp_path / "rows.csv", index=False)
    expected = client.predict(iris, X.astype(np.float32) if form == "float32" else X, "decision")
    assert np.array_equal(client.predict(iris, rows, "decision"), expected)


def test_outputs(client: Client, iris: str) -> None:
    """One output is an array, several are a dict."""
    probability = client.predict(iris, X, "probability")
    assert probability.shape == (150, 3)
    np.testing.assert_allclose(probability.sum(axis=1), 1)
    both = client.predict(iris, X[:2], ("label", "probability"))
    assert both["model"]["name"] == iris
    assert np.array_equal(both["probability"], probability[:2])
    assert both["label"].tolist() == SPECIES[:2].tolist()
    version = client.model(iris).version(1)
    assert version.classes_.tolist() == sorted(set(SPECIES.tolist()))
    assert (version.classes_[probability.argmax(axis=1)] == SPECIES).mean() > 0.9
    explanation = client.predict(iris, X[:1], "explanation")
    assert set(explanation["explanation"][0][0]["terms"]) == set(NAMES)


def test_order_of_arguments(client: Client) -> None:
    """One order for all methods: a model, data, then options by keyword; a reversed call is refused
    before anything is sent."""
    resources = {"self", "model", "model_name", "name", "dataset", "id", "version", "alias"}
    data = {"data", "rows", "y", "labels", "path", "trainings", "kind", "fraction", "timeout_s"}
    rest = {"solver", "solvers", "outputs"}
    for kind in (Client, Job, Dataset, Model, ModelVersion):
        for name, method in inspect.getmembers(kind, inspect.isfunction):
            if name.startswith("_"):
                continue
            every = inspect.signature(method).parameters.values()
            named = [one.name for one in every if one.kind is one.POSITIONAL_OR_KEYWORD]
            ranks = [[one in resources, one in data, one in rest].index(True) for one in named]
            assert ranks == sorted(ranks), f"{kind.__name__}.{name}{named}"
            if "model" in named:
                assert named[1] == "model", f"{kind.__name__}.{name}{named}"
    for call in (client.evaluate, client.predict_dataset):
        with pytest.raises(ValueError, match="the model comes first, then the dataset"):
            call(f"ds_{'0' * 32}", "iris")


def test_models_have_the_methods_of_estimators(client: Client, iris: str) -> None:
    """A model and its versions; y may be a list, an array or a column of a frame."""
    for model in (client.model(iris), client.model(iris).version(1)):
        assert np.array_equal(model.predict_proba(X), client.predict(iris, X, "probability"))
        assert np.array_equal(model.decision_function(X), client.predict(iris, X, "decision"))
        expected = np.mean(client.predict(iris, X) == SPECIES)
        for y in (SPECIES, SPECIES.tolist(), pandas.Series(SPECIES)):
            assert model.score(X, y) == expected
        assert model.score(X, np.arange(150)) == 0.0
        with pytest.raises(ValueError, match="149 entries of y for 150 rows"):
            model.score(X, SPECIES[:-1])


def test_model_of_numbers(client: Client) -> None:
    """Values by default, intervals on request, and R² as the score of model and version."""
    rows, y = load_diabetes(return_X_y=True)
    dataset = client.upload(rows, y, name="diabetes")
    job = client.train(dataset, "progression", validation={"fraction": 0.2}, seed=1).wait(60)
    values = client.predict("progression", rows)
    for model in (job.model_version(), client.model("progression")):
        assert model.score(rows, y) == pytest.approx(r2_score(y, values))
    narrow, wide = (
        client.predict("progression", rows, "interval", coverage=share) for share in (0.5, 0.9)
    )
    assert narrow.shape == (len(y), 2)
    assert (wide[:, 0] < narrow[:, 0]).all()
    np.testing.assert_allclose(wide.mean(axis=1), values)


def test_labels_that_are_withheld(client: Client) -> None:
    """As an array of labels, of their own type, and None; more of them if more may be withheld."""
    dataset = client.upload(X, np.searchsorted(["setosa", "versicolor"], SPECIES), name="flowers")
    client.train(dataset, "flowers", validation={"fraction": 0.4}, seed=1).wait(60)
    few, many = (
        client.predict("flowers", X, "label_or_none", withheld=share) for share in (0.05, 0.5)
    )
    labels = client.predict("flowers", X)
    assert 0 < few.tolist().count(None) < many.tolist().count(None)
    assert all(one in (None, label) for one, label in zip(few, labels, strict=True))
    assert {type(one) for one in few} == {int, type(None)}
    both = client.model("flowers").predict(X[:9], ["label", "label_or_none"], withheld=0.5)
    assert (both["label_or_none"].tolist(), both["withheld"]) == (many[:9].tolist(), 0.5)


def test_score_of_numbers_is_r2() -> None:
    """As scikit-learn computes it, also of a target that is always the same."""
    truth = [1.0, 2.0, 4.0, 8.0]
    for predicted in (truth, [1.5, 2.0, 3.0, 9.0], [0.0, 0.0, 0.0, 0.0]):
        assert score({"values": predicted}, truth) == pytest.approx(r2_score(truth, predicted))
    assert score({"values": [2.0, 2.0]}, [2, 2]) == 1.0
    assert score({"values": [2.0, 3.0]}, [2, 2]) == 0.0


def test_same_data_in_any_format(client: Client, tmp_path: Path) -> None:
    """A frame, an array with names, and a file are the same dataset."""
    frame = pandas.DataFrame(X, columns=NAMES)
    frame["species"] = SPECIES
    path = tmp_path / "iris.csv"
    frame.to_csv(path, index=False)
    text = path.read_bytes()
    frame[NAMES].to_csv(path.with_name("rows.csv"), index=False)
    frame["species"].to_csv(path.with_name("species.csv"), index=False)
    made = [
        client.upload(frame),
        client.upload(frame[NAMES], frame["species"]),
        client.upload(X, list(SPECIES), columns=NAMES),
        client.upload(path),
        client.upload(str(path), target="species"),
        client.upload(text, media_type="text/csv"),
        client.upload(X, SPECIES),
        client.upload(path.with_name("rows.csv"), path.with_name("species.csv"), header="present"),
    ]
    assert len({dataset.matrix_digest for dataset in made}) == 1
    assert [dataset.target for dataset in made[:2]] == ["species", None]


def test_packed_files(client: Client, tmp_path: Path, iris: str) -> None:
    """Archives of one file, a workbook, data and labels in archives; compressed rows to predict."""
    frame = pandas.DataFrame(X, columns=NAMES)
    labeled = frame.assign(species=SPECIES)
    files = [tmp_path / name for name in ("iris.csv.gz", "iris.csv.zip", "rows.csv.gz")]
    for path, table in zip(files, (labeled, labeled, frame), strict=True):
        table.to_csv(path, index=False)
    labeled["species"].to_csv(tmp_path / "species.csv.zip", index=False)
    rows = [[*NAMES, "species"], *labeled.to_numpy().tolist()]
    files[2].with_name("iris.xlsx").write_bytes(workbook({"Iris": rows}))
    made = [
        client.upload(labeled),
        *(client.upload(path) for path in files[:2]),
        client.upload(tmp_path / "iris.xlsx", sheet="Iris"),
        client.upload(files[2], tmp_path / "species.csv.zip", header="present"),
    ]
    assert len({dataset.matrix_digest for dataset in made}) == 1
    assert np.array_equal(client.predict(iris, files[2]), client.predict(iris, X))


FLAGS = np.array([[True, False], [True, True], [False, True], [False, False]])


def test_booleans_are_numbers(client: Client) -> None:
    """1 and 0 in arrays and in any format of predictions; in tables they have a kind of their
    own."""
    numbers, labels = FLAGS.astype(float), ["x", "x", "y", "y"]
    frame = pandas.DataFrame(FLAGS, columns=["a", "b"])
    of_objects = frame.astype(object)
    dataset = client.upload(numbers, labels)
    for rows in (FLAGS, FLAGS.tolist()):
        assert client.upload(rows, labels).matrix_digest == dataset.matrix_digest
    sparse = client.upload(csr_array(FLAGS), [0, 0, 1, 1])
    assert sparse.matrix_digest == client.upload(csr_array(numbers), [0, 0, 1, 1]).matrix_digest
    named = client.upload(frame, labels)
    assert client.upload(of_objects, labels).matrix_digest == named.matrix_digest
    client.train(named, "flags", {"name": "newton", "C": 1.0}).wait(60)
    expected = client.predict("flags", numbers, "decision")
    dicts = [{"b": np.bool_(b), "a": a} for a, b in FLAGS.tolist()]
    for rows in (FLAGS, FLAGS.tolist(), frame, of_objects, dicts, csr_array(FLAGS)):
        assert np.array_equal(client.predict("flags", rows, "decision"), expected)


def test_labels_keep_their_kind(client: Client) -> None:
    """Numbers stay numbers, and booleans booleans."""
    for classes in ([1, 2], [False, True], ["1", "2"]):
        stored = client.upload(X, classes * 75).classes
        assert stored == classes
        assert [type(label) for label in stored] == [type(label) for label in classes]


def test_sparse_data(client: Client) -> None:
    """A sparse matrix stays sparse, with empty columns; its labels are numbers."""
    matrix = csr_array(np.where(X > 2, X, 0.0))
    wide = csr_array((matrix.data, matrix.indices, matrix.indptr), shape=(150, 9))
    dataset = client.upload(wide, IRIS.target)
    assert (dataset.sparse, dataset.n_features) == (True, 9)
    assert dataset.classes == [0, 1, 2]
    client.train(dataset, "sparse", "dual-coordinate-descent").wait()
    labels = client.predict("sparse", wide)
    assert np.array_equal(labels, client.predict("sparse", wide.toarray()))
    assert client.upload(wide).classes is None
    texts = client.upload(wide, SPECIES)
    assert (texts.sparse, texts.classes) == (True, sorted(set(SPECIES)))
    with pytest.raises(InvalidContent, match="each row has 5 numbers, 9 are expected"):
        client.predict("sparse", wide[:, :5])
    assert client.upload(wide, SPECIES, weights=[2.0] * 150).weight == "weight"


@pytest.mark.parametrize("name", ["a9a", "a9a.t", "iris.scale", "covtype.bz2"])
def test_files_by_their_contents(client: Client, tmp_path: Path, name: str) -> None:
    """A name that does not say the format: the service looks into the file."""
    text = b"+1 1:1 9:2\n-1 3:1\n" * 20
    path = tmp_path / name
    path.write_bytes(bz2.compress(text) if path.suffix == ".bz2" else text)
    dataset = client.upload(path)
    assert (dataset.format, dataset.n_samples) == ("text/x-libsvm", 40)


def test_unsupported_data_are_refused_before_the_request(client: Client) -> None:
    """With a ValueError that says what to do."""
    with pytest.raises(ValueError, match="give `media_type`"):
        client.upload(b"1,2,a\n")
    with pytest.raises(ValueError, match="all of them as texts"):
        client.upload(X[:2], [1, "b"])
    with pytest.raises(ValueError, match="give `target`"):
        client.upload("iris.csv", SPECIES)


def test_bad_values_are_named(client: Client, iris: str) -> None:
    """The exception has row, column and value, and so has its message."""
    frame = pandas.DataFrame(X, columns=NAMES)
    frame.loc[16, "petal_length"] = np.nan
    with pytest.raises(InvalidContent) as caught:
        client.predict(iris, frame)
    assert (caught.value.status, caught.value.code) == (422, "missing-value")
    (fault,) = caught.value.errors
    assert (fault.row, fault.column) == (17, "petal_length")
    assert "row 17, column 'petal_length'" in str(caught.value)
    frame.loc[16, "petal_length"] = np.inf
    with pytest.raises(InvalidContent, match="petal_length"):
        client.upload(frame, SPECIES)
    with pytest.raises(InvalidContent) as caught:
        client.predict(iris, [[1, 2, 3, 4], [1, "x", 3, 4], [1, 2, 3]])
    assert [fault.row for fault in caught.value.errors] == [2, 3]
    assert str(caught.value).count("\n") == 2


def test_errors_have_their_own_classes(client: Client, iris: str) -> None:
    """By kind of error."""
    with pytest.raises(NotFound) as caught:
        client.predict("unknown", X)
    assert caught.value.request_id
    with pytest.raises(InvalidContent, match="/solver/C"):
        client.train("latest", "m", {"name": "newton", "C": -1})
    with pytest.raises(InvalidContent, match="did you mean `gaussian`"):
        client.train("latest", "m", {"name": "smo", "kernel": "RBF"})
    misplaced: dict[str, Any] = {"C": 1}
    with pytest.raises(InvalidContent, match="did you mean `C` in `solver`"):
        client.train("latest", "m", "newton", **misplaced)
    with pytest.raises(InvalidRequest):
        list(client.jobs(state="finished"))
    model = client.model(iris)
    model.set_alias("used", 1)
    with pytest.raises(Conflict):
        model.version(1).delete()
    model.remove_alias("used")


def test_aliases_move(client: Client, iris: str) -> None:
    """The client sends the preconditions for creating, moving and removing an alias."""
    dataset = client.upload(X, SPECIES, columns=NAMES)
    client.train(dataset, iris, Newton(C=2.0), stopping=Stopping(max_epochs=3)).wait()
    model = client.model(iris)
    for number in (1, 2):
        model.set_alias("champion", number)
        assert model.aliases == {"champion": number}
        answer = client.predict(f"{iris}/champion", X[:1], ["label"])
        assert answer["model"]["version"] == number
    model.remove_alias("champion")
    assert model.aliases == {}
    moves = [change["result"] for change in client.audit(resource=f"models/{iris}")][:3]
    assert moves == [{"before": 2}, {"version": 2, "before": 1}, {"version": 1, "before": None}]
    assert [version.version for version in model.versions()] == [2, 1]


def test_datasets_are_made_from_others(client: Client, tmp_path: Path) -> None:
    """Append, split, rename and download."""
    half = client.upload(X[::2], SPECIES[::2], name="half")
    whole = half.append(X[1::2], SPECIES[1::2])
    assert (whole.n_samples, whole.inherited_rows, whole.parent) == (150, 75, half.id)
    train, test = whole.split(0.2, seed=3)
    assert (train.n_samples, test.n_samples) == (120, 30)
    whole.update(name="whole", tags={"team": "x"})
    assert [each.id for each in client.datasets(tag="team=x")] == [whole.id]
    path = whole.download(tmp_path / "whole.npz")
    rows, labels = whole.arrays()
    assert np.array_equal(rows, np.concatenate([X[::2], X[1::2]]))
    assert list(labels) == [*SPECIES[::2], *SPECIES[1::2]]
    assert np.array_equal(np.load(path)["X"], rows)
    assert client.upload(X).arrays()[1] is None
    assert [entry.name for entry in tmp_path.iterdir()] == ["whole.npz"]


def test_rows_of_a_dataset(client: Client) -> None:
    """Filtered and sorted, with their numbers."""
    dataset = client.upload(X, SPECIES, columns=NAMES)
    rows = list(dataset.rows())
    assert [row["row"] for row in rows] == list(range(1, 151))
    assert [[row["cells"][name] for name in NAMES] for row in rows] == X.tolist()
    assert [row["cells"]["label"] for row in rows] == list(SPECIES)
    where = [("label", "is", SPECIES[0]), (NAMES[0], "at-least", 5)]
    found = list(dataset.rows(where=where, sort=NAMES[0], descending=True))
    lengths = [row["cells"][NAMES[0]] for row in found]
    assert lengths == sorted(X[(np.array(SPECIES) == SPECIES[0]) & (X[:, 0] >= 5), 0])[::-1]
    assert list(dataset.rows(where=[(NAMES[1], "missing")])) == []
    with pytest.raises(InvalidRequest, match="no column 'age'"):
        list(dataset.rows(where=[("age", "is", 3)]))


def test_predictions_of_a_dataset(client: Client, iris: str, tmp_path: Path) -> None:
    """A batch prediction is a job; its file has the same predictions."""
    dataset = client.upload(X, columns=NAMES)
    job = client.predict_dataset(f"{iris}/1", dataset, ["decision"], format="npy").wait()
    path = job.download_results(tmp_path / "decision.npy")
    assert np.array_equal(np.load(path), client.predict(f"{iris}/1", X, "decision"))


def test_evaluation_of_a_model(client: Client, iris: str) -> None:
    """An evaluation is a job with results."""
    dataset = client.upload(X, SPECIES, columns=NAMES)
    metrics = client.evaluate(f"{iris}/1", dataset).wait().results()["metrics"]
    assert metrics["accuracy"] == np.mean(client.predict(f"{iris}/1", X) == SPECIES)


def test_comparison_of_solvers(client: Client) -> None:
    """Solvers by name, as classes, and a grid; the best one is kept."""
    dataset = client.upload(X, SPECIES, columns=NAMES)
    solvers = ["dual-coordinate-descent", {"solver": Newton(C=2.0), "scaling": "standardize"}]
    grid = {"solver": ["newton"], "C": [0.1, 1.0]}
    job = client.compare(dataset, solvers, grid=grid, model_name="best").wait()
    results = job.results()
    assert sorted(entry["rank"] for entry in results["entries"]) == [1, 2, 3, 4]
    assert results["model"] == {"name": "best", "version": 1}
    assert job.model_version().spec["solver"]["name"] in ("newton", "dual-coordinate-descent")


def test_comparison_of_sizes(client: Client, tmp_path: Path) -> None:
    dataset = client.upload(X, SPECIES, columns=NAMES)
    job = client.compare(dataset, ["newton"], sizes={"columns": [1, 4]}, seed=1).wait()
    assert {entry["columns"] for entry in job.results()["entries"]} == {1, 4}
    picture = job.plot("time-by-columns", tmp_path / "time.svg")
    assert b"Training time by features" in picture.read_bytes()


def test_models_are_exported_and_imported(client: Client, iris: str, tmp_path: Path) -> None:
    """The imported version is the same model."""
    version = client.model_version(iris, 1)
    for name in ("iris.npz", "iris.json"):
        imported = client.import_model("imported", version.export(tmp_path / name))
        assert imported.digest == version.digest
    assert np.array_equal(client.predict("imported", X), client.predict(f"{iris}/1", X))


def test_plots_and_cards(client: Client, iris: str, tmp_path: Path) -> None:
    """A version has a card and plots."""
    version = client.model_version(iris, 1)
    assert "iris" in version.card()
    assert b"<svg" in version.plot("confusion", tmp_path / "confusion.svg").read_bytes()


def test_model_file_is_downloaded(client: Client, iris: str, tmp_path: Path) -> None:
    """With its complete size."""
    version = client.model_version(iris, 1)
    assert version.download(tmp_path / "iris.joblib").stat().st_size == version.size_bytes


def test_events_until_the_end(client: Client) -> None:
    """Every event once, the end last; there are no events after it."""
    dataset = client.upload(X, SPECIES)
    job = client.train(dataset, "followed", "pegasos", stopping={"max_epochs": 30})
    events = list(job.events())
    assert events[-1].kind == "end"
    assert events[-1].data["state"] == "succeeded"
    assert [event.id for event in events] == sorted({event.id for event in events})
    assert list(job.events(after=events[-1].id)) == []


def test_canceled_and_failed_jobs_raise(client: Client) -> None:
    """`wait` raises an exception with the job."""
    dataset = client.upload(X, SPECIES)
    endless = client.train(dataset, "endless", ENDLESS["solver"], stopping=ENDLESS["stopping"])
    with pytest.raises(TimeoutError, match=r"is (queued|running) after 0\.2 s"):
        endless.wait(0.2)
    endless.cancel()
    with pytest.raises(JobCanceled) as canceled:
        endless.wait(30)
    assert canceled.value.job is endless
    wild = {"name": "gradient-descent", "learning_rate": 1e6}
    failing = client.train(dataset, "failing", wild)
    with pytest.raises(JobFailed, match="diverged") as failed:
        failing.wait(30)
    assert failed.value.hint


def test_progress_bar_is_optional(client: Client, capsys: pytest.CaptureFixture[str]) -> None:
    """A bar on standard error with state and gap; without a terminal there is none."""
    dataset = client.upload(X, SPECIES)
    client.train(dataset, "drawn").wait(progress_bar=True)
    assert "drawn succeeded" in capsys.readouterr().err
    client.train(dataset, "drawn").wait()
    assert capsys.readouterr().err == ""


def test_asynchronous_client(server: Any, iris: str) -> None:
    """The same calls, awaited, many at once."""

    async def use_client() -> None:
        async with AsyncClient(server.url) as client:
            csv = io.BytesIO()
            np.savetxt(csv, X, delimiter=",")
            dataset = await client.upload(csv.getvalue(), media_type="text/csv", target="none")
            assert dataset.n_features == 4
            dataset = await client.upload(X, SPECIES)
            job = await client.train(dataset, "awaited")
            events = [event.kind async for event in job.events()]
            assert events[-1] == "end"
            version = await (await job.wait()).model_version()
            answers = await asyncio.gather(*(version.predict(X[i : i + 3]) for i in range(100)))
            assert np.array_equal(answers[0], (await version.predict(X))[:3])
            names = [model.name async for model in client.models()]
            assert {"awaited", iris} <= set(names)
            with pytest.raises(NotFound):
                await client.job("job_" + "0" * 32)

    asyncio.run(use_client())
