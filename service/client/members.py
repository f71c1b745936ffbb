# Generated from the OpenAPI document by `make client`.
"""Members of the service's resources, and the arguments of a training, with their types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict


class DatasetMembers:
    """A dataset."""

    id: str | None
    """Null if the upload was only validated."""
    name: str | None
    created_at: str | None
    format: str
    """Media type of the upload."""
    size_bytes: int
    """Of the stored arrays."""
    n_samples: int
    n_features: int
    sparse: bool
    target: str | None
    """Name of the label column, if it has one."""
    target_kind: str | None
    """What the labels are: classes, or numbers, which models of the dataset predict. Numbers are
    classes if they are at most 20 different whole ones, or of a LIBSVM file whole ones; `schema`
    decides otherwise. Null without labels."""
    classes: list[Any] | None
    """Sorted labels; null without labels, and if these are numbers."""
    class_counts: list[int] | None
    n_distinct_labels: int
    """How many different labels there are, 0 without labels."""
    matrix_digest: str
    """sha-256 of values and labels: the same for equal data in any dense format."""
    warnings: list[dict[str, Any]]
    tags: dict[str, str]
    """Your own remarks."""
    parent: str | None
    """The dataset that this one was made from by append or split. It may be deleted by now: this
    one is complete by itself."""
    inherited_rows: int | None
    """Made by append: this many first rows are the parent's, in its order."""
    audit: list[dict[str, Any]]
    """What may be leaks of the label, and rows that are equal."""
    target_statistics: dict[str, Any] | None
    """Null if the labels are classes."""
    columns: list[dict[str, Any]] | None
    """The features; null for sparse data of very many columns."""
    weight: str | None
    """Name of the column with the weights of the rows."""
    group: str | None
    """Name of the column with their groups."""
    time: str | None
    """Name of the column with their times."""
    ignored_columns: list[dict[str, Any]]
    """Columns of the file that are not kept, and why."""
    reading: dict[str, Any] | None
    """How text was read: sheet, encoding, delimiter, header, decimal mark, separator of thousands,
    words for missing cells, and rows without a label as `unlabeled`: `count`, `words`, the first
    thousand `rows`. Null for formats that leave no choice."""


class JobMembers:
    """A job as it is now."""

    id: str
    state: str
    dataset_id: str
    priority: int
    tags: dict[str, str]
    callback: str | None
    attempt: int
    """How often a worker has begun or resumed it."""
    created_at: str
    started_at: str | None
    finished_at: str | None
    elapsed_s: float
    """Time spent on it in all attempts."""
    error: dict[str, Any] | None
    kind: str
    stop_reason: str | None
    """`converged`, `gap-reached`, `patience`, `max-epochs`, `max-updates`, `stalled`,
    `time-budget`, `canceled` or `error`."""
    converged: bool | None
    cancel_requested: bool
    pause_requested: bool
    """A worker is about to save the job and to pause it."""
    progress: dict[str, Any]
    spec: dict[str, Any]
    """The request with all defaults; it can be sent again."""
    dataset_digest: str
    model: dict[str, Any] | None
    epochs: int | None
    updates: int | None
    """Parameter updates made."""
    warnings: list[str]
    notes: list[str]
    """What was chosen on the way, such as the solver."""
    metrics: dict[str, Any] | None
    """By part of the data (`train`, and `validation` if there is a validation set): accuracy,
    confusion matrix (rows are the true classes), precision, recall and F1 of each class. Of models
    of numbers `mae`, `rmse`, `r2`, `median_absolute_error` and `share_inside_epsilon`, their
    `intervals` with 95 % confidence, the same of a `baseline` that always predicts the training
    median or mean, and in `validation` what prediction intervals are worth (`conformal`). With
    folds, `validation` is of all rows, each predicted by the training that did not see it, and has
    `folds`, and mean and standard deviation (divisor k - 1) of the single folds: `accuracy_mean`
    and `accuracy_std`, of numbers `mae_mean` and `mae_std`. `trained_rows`: validation rows that
    are equal to training rows. If rows belong together, `n_groups`, or `n_distinct` of copies, and
    of classes `n_effective`: as many independent rows would say as much about the accuracy
    (`group_sums` has sums over the groups)."""
    audit: list[dict[str, Any]]
    """What was found in the dataset and by the training, without what `mute` names."""
    certificate: dict[str, Any] | None
    """What is proven about the model's cost, in the pair of classes with the largest gap: `primal`,
    `dual` (a lower bound of the lowest possible cost), `gap`, `relative_gap` (gap / primal),
    `excess` (gap / dual, null without a bound), `status` (`certified`: the gap that was asked for
    is proven, `rough`: at most 10 % above, `open`), `kernel` (`approximated` if features stand for
    a kernel), `exact` (the values of the model with the kernel itself, if they are known),
    `summary` (a sentence), and `pairs`."""
    search: dict[str, Any] | None
    """What `auto` compared, or has compared so far, null if nothing: `summary` (a sentence),
    `score` (accuracy, of numbers `mae`; null until the end) that is expected on new rows, and the
    settings `tried` with their scores. Metrics of `folds` are of the setting that was chosen on
    these rows, and too good: take `score`."""


class ModelMembers:
    """A name under which versions are kept."""

    name: str
    created_at: str
    latest_version: int | None
    """The highest version, to which the alias `latest` points; null if there is none."""
    aliases: dict[str, int]
    """Aliases and the versions they point to."""


class ModelVersionMembers:
    """A trained model and its origin."""

    name: str
    version: int
    created_at: str
    digest: str
    """sha-256 of the model's content: equal models have equal digests."""
    artifact_sha256: str
    """sha-256 of the model's file."""
    size_bytes: int
    classes: list[Any]
    """Sorted; the columns of decision values follow this order."""
    columns: list[str] | None
    """Feature names, null if the training data had none."""
    n_features: int
    table: dict[str, Any] | None
    """Of a model of a table with categories, dates or gaps; null if all features are numbers."""
    reading: dict[str, Any] | None
    """How the training file was written, as `reading` of the dataset: rows in CSV and TSV may be
    written so, or with decimal points and ISO dates in UTF-8. Null for binary formats."""
    n_support_vectors: int | None
    calibration: str | None
    """How scores become probabilities, `sigmoid` or `isotonic`, or numbers become intervals,
    `conformal`; null if they do not."""
    metrics: dict[str, Any]
    """By subset of the data: `train`, and `validation` if there is a validation set."""
    audit: list[dict[str, Any]]
    """What was found in the dataset and by the training, without what `mute` names."""
    certificate: dict[str, Any]
    """What is proven about the cost, as in the job."""
    search: dict[str, Any] | None
    """What `auto` compared, as in the job."""
    converged: bool | None
    stop_reason: str | None
    epochs: int | None
    updates: int | None
    """Parameter updates made."""
    spec: dict[str, Any]
    """The job's request with all defaults; empty for an imported model."""
    seed: int | None
    job_id: str | None
    """Null for an imported model, as `seed` and the dataset."""
    dataset_id: str | None
    dataset_digest: str | None
    """`matrix_digest` of the training data."""
    imported: dict[str, Any] | None
    """Of an imported model: the `format` of its file, and the `origin` that the file claims, with
    metrics and certificate. Nothing of that was checked."""
    quarantined_at: str | None
    """When damage of the file was detected; null if it is not damaged."""


class TrainSpec(TypedDict, total=False):
    """Fields of `POST /v1/jobs` besides dataset, model and solver; the service validates them."""

    priority: int
    """Jobs with a higher priority start first."""
    tags: Mapping[str, str]
    """Your own keys and values, to find the job by."""
    callback: str | None
    """A URL that gets a signed POST request when the job has ended, at least once. The operator
    must allow its host; `/v1/jobs/{id}/deliveries` shows what became of it."""
    classes: Sequence[str | int | float | bool] | None
    """Train on the rows of these classes only; the others stay in the dataset. By default on
    all."""
    encoding: Any
    """How categories, dates and missing cells become numbers, learned on the training rows and kept
    in the model. Tables of finite numbers need none. Default: `{"missing": "median", "constant":
    0.0, "min_count": 1, "tokens": "auto", "sublinear": false, "text_weights": {}, "unseen":
    "zero"}`."""
    scaling: str | None
    """Scaling of the features, fitted on the training rows and kept in the model. By default
    `standardize` for dense data, and for sparse data `none`, or `max-abs` if the largest values of
    its columns differ more than 100-fold; `spec` shows it. Categories, booleans and indicators of
    missing cells stay 0 and 1, texts as they are."""
    features: Any
    """What the solver sees instead of the scaled features. Default: `{"name": "identity"}`."""
    multiclass: str | None
    """How several classes become binary problems: `one-vs-one`, one for each pair, or
    `one-vs-rest`, one for each class. By default one for each pair, or for each class if the data
    has a column of texts. A numeric target is one problem."""
    class_weight: str | Mapping[str, float] | None
    """Weights of the hinge losses by class: `balanced`, or a number for some labels (as text), 1
    for the others. Not for a numeric target."""
    target_scale: str
    """Of a numeric target: `logarithmic` trains on its logarithm, for positive and skewed ones."""
    stopping: Any
    """When to stop; nothing given means a relative duality gap of 1e-3 or 1,000 epochs. Default:
    `{}`."""
    seed: int | None
    """Seed of every random choice; drawn at random, and shown in `spec`, if it is not given."""
    leave_out_trained: bool
    """Leave out the validation rows that are equal to training rows, labels included: they measure
    memory. Metrics are then of the rest, and `left_out_rows` counts them."""
    mute: Sequence[str]
    """Names of findings that are known and not to be reported again, such as `single-column`. The
    model's card lists them."""
    set_alias: str | None
    """An alias to point to the new version when the job succeeds."""
    validation: Any
    """How to measure the model on rows that it was not trained on: a `fraction` of the rows as a
    validation set, cross-validation with `folds`, or another dataset."""
    calibration: str | None
    """How scores become probabilities: `sigmoid` (Platt's) needs hundreds of rows, `isotonic` needs
    thousands. Fitted on the validation set, or with folds on the score of every row by the training
    that did not see it. Its metrics measure each row with a calibration that was fitted on
    others."""
    left_out_groups: int | None
    """Measure how many rows of unknown classes `label_or_none` withholds: this many groups of
    classes are each left out of one more training. Needs four classes and a validation set."""
    trace: Any
    """More points of the learning curve than epochs 1, 2, 4, 8 … and the end, in `GET
    /v1/jobs/{id}/trace`: the cost before the first update, and after every one or every few epochs
    or updates. Neither the model nor the end of the training depends on it."""
    spread: str
    """Whether other machines share the passes of this training, if the service has a cluster of
    Dask: `newton` and `gradient-descent` with all rows in a batch do, with two classes. `auto`: if
    the data is large. Neither the solver nor a bit of the model depends on it."""
    warm_start_from: str | None
    """A model version to begin with instead of zero, such as `iris/3`, or an alias, such as
    `iris/latest`. It must have the same features, classes and settings; `GET /v1/solvers` lists
    what a solver inherits from which others."""
