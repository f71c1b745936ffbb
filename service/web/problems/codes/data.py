"""Problems of data: of rows, labels and files, and of what training and models need of them."""

from __future__ import annotations

from service.web.problems.codes.problem import Problem

DATA = {
    # Rows and files
    "empty-data": Problem(422, "No data", "There is no row, or no feature column."),
    "bad-column-name": Problem(
        422,
        "A column name is invalid",
        "A name has a NUL character, or the first record may be a header or data.",
    ),
    "bad-encoding": Problem(
        400,
        "The text is not UTF-8",
        "It has bytes that are not UTF-8, nor text in the encoding said or guessed; or a NUL byte.",
    ),
    "csv-cell-too-large": Problem(
        422, "A cell or line is too large", "`/v1/info` lists the limits."
    ),
    "csv-unterminated-quote": Problem(
        422, "A quoted cell does not end", "Close the quote, or double quotes inside a cell."
    ),
    "ragged-row": Problem(
        422, "A row has the wrong number of cells", "Every row needs one cell for each column."
    ),
    "not-a-number": Problem(
        422,
        "A feature is not a number",
        "Correct the cell. In CSV and TSV: if the word means that the value is missing, name it in "
        "`missing`; if the column is a category, say so in `schema`. Booleans are 1 and 0.",
    ),
    "not-a-boolean": Problem(
        422, "A cell is not true or false", "Write true or false, 1 or 0; null if it is missing."
    ),
    "not-a-date": Problem(
        422,
        "A cell is not a date",
        "Write dates as 2024-05-01, or with a time as 2024-05-01T12:30:00Z.",
    ),
    "unseen-level": Problem(
        422,
        "A level was not among the training rows",
        "The model was trained with `unseen: refuse`. Give a level that it knows, or train with "
        "`unseen: zero`.",
    ),
    "missing-value": Problem(
        422,
        "A value is missing",
        "Remove the row or fill the cell. Labels and weights of rows are never missing; features "
        "can be in CSV and TSV, and in rows to predict if the training accepts it.",
    ),
    "non-finite-value": Problem(
        422, "A number is not finite", "NaN, Infinity and numbers beyond 1.8e308 are not accepted."
    ),
    "rounded-kernel": Problem(
        422,
        "Kernel values would be rounded to few digits",
        "The rows are much nearer to each other than to 0. Train with `scaling: standardize`.",
    ),
    "libsvm-index": Problem(
        422,
        "A LIBSVM index is invalid",
        "Indices are ascending, begin at `index_base` (default 1) and stay within `n_features`.",
    ),
    "npy-unsupported": Problem(
        422,
        "The array type is not supported",
        "Send numbers or booleans; objects and text are not supported.",
    ),
    "npy-corrupt": Problem(
        422, "The NPY file is corrupt", "Its header does not match the bytes that follow."
    ),
    "npz-unsafe": Problem(
        422,
        "The NPZ archive is not supported",
        "It has members other than X and y, or is encrypted or damaged.",
    ),
    "columnar-unsupported": Problem(
        422,
        "The Parquet file is not supported",
        "It is damaged or encrypted, or a column has an unsupported type. Features are numbers or "
        "booleans; labels can also be texts.",
    ),
    "archive-unsupported": Problem(
        422,
        "The workbook or archive is not supported",
        "It is damaged or encrypted, or it is not what its name says.",
    ),
    "parsing-failed": Problem(
        422,
        "The data could not be read",
        "Reading exceeded the time or memory limit of an upload. Send fewer rows or columns.",
    ),
    "too-many-rows": Problem(413, "Too many rows", "The limit is `limit`."),
    "too-many-columns": Problem(413, "Too many columns", "The limit is `limit`."),
    "too-many-values": Problem(
        413, "Too many values", "One dataset can store `limit` numbers at most."
    ),
    # Labels
    "label-count": Problem(
        422, "The numbers of labels and rows differ", "Send one label per row, in the same order."
    ),
    "label-mismatch": Problem(
        422,
        "The labels do not match those of the dataset",
        "Append rows with labels of the same type (text, number, boolean), or without labels if "
        "the dataset has none.",
    ),
    "target-missing": Problem(
        422, "No labels", "The label column does not exist, or the dataset has no labels."
    ),
    "target-continuous": Problem(
        422, "The target is continuous", "A classifier needs classes, not measurements."
    ),
    "single-class": Problem(
        422, "Only one class", "Training needs rows of at least two different classes."
    ),
    "too-many-levels": Problem(
        422,
        "Too many levels",
        "A category has at most 10,000 different texts, all columns together 100,000. Ignore the "
        "column by `schema`.",
    ),
    "ambiguous-number": Problem(
        422,
        "A number has two readings",
        "Nothing in the file decides whether a comma or a point is the decimal mark. Give "
        "`decimal`.",
    ),
    "too-many-classes": Problem(422, "Too many classes", "The limit is `limit`."),
    "unknown-class": Problem(
        422,
        "Unknown class",
        "`class_weight` names a label that is not in the data, or the data have a label that the "
        "model does not know.",
    ),
    "class-too-small": Problem(
        422,
        "A class is too small to split",
        "A small class is trained on in full, "
        "but some rows have to be held out, and probabilities need one of each class.",
    ),
    # Training
    "plan-too-large": Problem(
        422,
        "The job exceeds its memory or time limit",
        "Reduce what the job has to do; `hint` says how.",
    ),
    "features-unsupported": Problem(
        422,
        "The feature map does not support sparse data",
        "Products of sparse features would be dense. Choose another feature map.",
    ),
    "warm-start-unsupported": Problem(
        422,
        "A warm start from this model is not possible",
        "A warm start needs a version with the same features, classes, scaling, feature map, "
        "kernel and scheme, and a solver that supports it. Solvers that work on rows also need a "
        "dataset that begins with the model's rows. The detail names the first difference.",
    ),
    "scaling-unsupported": Problem(
        422, "This scaling would make sparse data dense", "Use `max-abs` for sparse data."
    ),
    # Models
    "feature-mismatch": Problem(
        422,
        "The features do not match those of the model or dataset",
        "Compare `expected` and `got`; `first_difference` is where they begin to differ.",
    ),
    "not-calibrated": Problem(
        422, "The model has no probabilities", "Train it with `calibration` and `validation`."
    ),
    "explanation-unsupported": Problem(
        422,
        "The model cannot be explained",
        "Weights of random Fourier features say nothing about single columns.",
    ),
    "plot-unavailable": Problem(
        404,
        "This plot is not available for this version",
        "The data that it needs were deleted or never existed; the detail names what is missing.",
    ),
    "export-unsupported": Problem(
        422,
        "The version cannot be exported in this format",
        "The model is too large for the format, or a library is not installed; the detail says "
        "which.",
    ),
    "invalid-model": Problem(
        422,
        "The file is not a valid model",
        "A part is missing or unknown, has the wrong type or shape, is not finite, or does not fit "
        "the others; the detail says which.",
    ),
    "making-failed": Problem(
        422, "The file could not be created", "Creating it exceeded the time or memory limit."
    ),
}
