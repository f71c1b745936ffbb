"""Every problem a caller can meet: its code, status and meaning."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Problem:
    status: int
    title: str
    description: str


PROBLEMS: dict[str, Problem] = {
    # The request itself
    "malformed-json": Problem(
        400,
        "The body is not valid JSON",
        "Syntax error, bytes after the end, a name given twice in one object, a lone surrogate, "
        "more than 16 levels of nesting, or a bare NaN or Infinity.",
    ),
    "malformed-request": Problem(
        400,
        "The request could not be read",
        "For instance a multipart body without its boundary, or a request without Host.",
    ),
    "invalid-parameter": Problem(
        400,
        "A parameter of the path or query is wrong",
        "An unknown query parameter, one given twice, or a value outside the allowed range. Ids, "
        "filters and page tokens are parameters too.",
    ),
    "ambiguous-length": Problem(
        400,
        "The length of the body is ambiguous",
        "Content-Length and Transfer-Encoding exclude each other.",
    ),
    "request-timeout": Problem(
        408,
        "The request stopped coming",
        "Its header or its body was not complete, and hardly anything more came for a while.",
    ),
    "header-too-large": Problem(
        431,
        "The header is too large",
        "The path, the header and the trailers may have 64 KiB together.",
    ),
    "digest-mismatch": Problem(
        400,
        "The body is not what Content-Digest says",
        "It was changed on its way, or hashed before it was compressed; send it again.",
    ),
    "invalid-header": Problem(400, "A header is wrong", "The detail says which and what fits."),
    "invalid-name": Problem(
        400,
        "Not a name",
        "Names are 1 to 63 lower-case letters, digits and hyphens; they begin with a letter and do "
        "not end with a hyphen.",
    ),
    "unauthorized": Problem(
        401,
        "An API key is needed",
        "Send `Authorization: Bearer` with a key that exists and is not revoked.",
    ),
    "forbidden": Problem(
        403,
        "The API key does not go so far",
        "`scope` is what the request needs; `svm-service keys create` makes a key that has it.",
    ),
    "cross-site-request": Problem(
        403,
        "A page of another site sent the request",
        "What changes something is taken from the service's own pages, and from programs. Behind "
        "a proxy that changes the Host header, have it pass the one that the browser sent.",
    ),
    "foreign-host": Problem(
        421,
        "The Host header gives a name that is not one of the service",
        "Allowed are localhost, IP addresses, the name that the service listens on, and the names "
        "in the setting SVM_HOSTS. So no page can reach the service by a name of its own that "
        "leads here (DNS rebinding).",
    ),
    "rate-exceeded": Problem(
        429, "Too many requests", "Retry-After says when the caller may send the next one."
    ),
    "not-found": Problem(404, "Not found", "No such resource; it may have been deleted."),
    "method-not-allowed": Problem(
        405, "The path does not offer this method", "The Allow header lists the methods it offers."
    ),
    "not-acceptable": Problem(
        406, "No acceptable format", "The reply cannot be given in a format that Accept allows."
    ),
    "resource-in-use": Problem(
        409, "The resource is in use", "Something still needs it; the detail says what."
    ),
    "invalid-state": Problem(
        409, "Impossible in the present state", "The detail names the state and what is possible."
    ),
    "idempotency-key-reused": Problem(
        422,
        "The Idempotency-Key stands for another request",
        "The same key was sent with another path, query or body; draw a new key for each request.",
    ),
    "idempotency-key-in-use": Problem(
        409,
        "A request with this Idempotency-Key is being carried out",
        "Send the same request again after Retry-After to get its reply. Should the service have "
        "died meanwhile, the key is free again after some seconds.",
    ),
    "precondition-failed": Problem(
        412, "The resource has changed", "If-Match or If-None-Match does not hold; get it again."
    ),
    "precondition-required": Problem(
        428, "A precondition is required", "Send If-Match, or If-None-Match: * to create."
    ),
    "range-not-satisfiable": Problem(
        416, "No such range", "It begins after the last byte; `size_bytes` says how many there are."
    ),
    "body-too-large": Problem(413, "The body is too large", "`limit_bytes` is the most allowed."),
    "unsupported-format": Problem(
        415, "The format is not read here", "The detail lists the media types that are read."
    ),
    "format-mismatch": Problem(
        415, "The body is not what Content-Type says", "Name the format that was sent."
    ),
    "decompression-limit": Problem(
        413, "The body inflates too much", "`limit_bytes` and 100:1 are the most allowed."
    ),
    # What a JSON body says
    "invalid-field": Problem(
        422,
        "A field is wrong",
        "Unknown or missing, of the wrong type, or outside its range. Numbers are numbers: true "
        'and "1" are not. Each entry of `errors` points at one field.',
    ),
    # What data say
    "empty-data": Problem(422, "No data", "There is no row, or no feature column."),
    "bad-column-name": Problem(
        422, "A column name is wrong", "Column names are neither blank nor given twice."
    ),
    "bad-encoding": Problem(
        400, "The text is not UTF-8", "A byte sequence is not UTF-8, or a NUL byte stands in it."
    ),
    "csv-cell-too-large": Problem(
        422, "A cell or line is too large", "The limits stand under /v1/info."
    ),
    "csv-unterminated-quote": Problem(
        422, "A quoted cell does not end", "Close the quote, or double quotes inside a cell."
    ),
    "ragged-row": Problem(
        422, "A row has another length", "All rows have as many cells as there are columns."
    ),
    "not-a-number": Problem(
        422,
        "A feature is not a number",
        "Encode words as numbers before sending them. Numbers have a decimal point and no "
        "separators of thousands; booleans are 1 and 0.",
    ),
    "missing-value": Problem(
        422, "A value is missing", "Nothing is imputed: remove the row or fill the cell."
    ),
    "non-finite-value": Problem(
        422, "A number is not finite", "NaN, Infinity and numbers beyond 1.8e308 are refused."
    ),
    "libsvm-index": Problem(
        422,
        "A LIBSVM index is wrong",
        "Indices ascend, begin at `index_base` (1 unless given), and stay within `n_features`.",
    ),
    "npy-unsupported": Problem(
        422, "The array type is not supported", "Send numbers or booleans, no objects or text."
    ),
    "npy-corrupt": Problem(
        422, "The NPY file is corrupt", "Its header does not fit the bytes that follow."
    ),
    "npz-unsafe": Problem(
        422,
        "The NPZ archive is not read",
        "It has members other than X and y, is encrypted, or damaged.",
    ),
    "columnar-unsupported": Problem(
        422,
        "The Parquet file is not read",
        "It is damaged, encrypted, or has columns that are neither numbers, booleans nor, for the "
        "labels, texts.",
    ),
    "label-count": Problem(
        422, "Labels and rows differ in number", "Every row has one label, in the same order."
    ),
    "label-mismatch": Problem(
        422,
        "The labels are not like those of the dataset",
        "Rows are appended with labels of the same kind (texts, numbers, booleans), or without "
        "labels to a dataset that has none.",
    ),
    "parsing-failed": Problem(
        422,
        "The data could not be read",
        "Reading them takes more time or memory than one upload may; send fewer rows or columns.",
    ),
    "too-many-rows": Problem(413, "Too many rows", "`limit` is the most allowed."),
    "too-many-columns": Problem(413, "Too many columns", "`limit` is the most allowed."),
    "too-many-values": Problem(
        413, "Too many values", "`limit` is the most numbers one dataset may store."
    ),
    "target-missing": Problem(
        422, "No labels", "The label column does not exist, or the dataset has no labels."
    ),
    "target-continuous": Problem(
        422, "The target is continuous", "A classifier needs classes, not measurements."
    ),
    "single-class": Problem(422, "Only one class", "Training needs rows of two classes or more."),
    "too-many-classes": Problem(422, "Too many classes", "`limit` is the most allowed."),
    "plan-too-large": Problem(
        422, "The plan is too large", "It would take more memory or time than a job may; `hint`."
    ),
    "features-unsupported": Problem(
        422, "The feature map does not fit", "Products of sparse features would be dense."
    ),
    "unknown-class": Problem(
        422,
        "No such class",
        "`class_weight` names a label not in the data, or the data have one not in the model.",
    ),
    "warm-start-unsupported": Problem(
        422,
        "The training cannot begin at this model",
        "A warm start needs a version with the same features, classes, scaling, feature map, "
        "kernel and scheme, of a solver that hands down what is needed; solvers that work on rows "
        "need a dataset that begins with the model's rows. The detail names the first difference.",
    ),
    "class-too-small": Problem(
        422, "A class is too small to split", "Every class needs rows on both sides of the split."
    ),
    "scaling-unsupported": Problem(
        422, "This scaling would make sparse data dense", "Use `max-abs` for sparse data."
    ),
    "feature-mismatch": Problem(
        422,
        "The features are not those of the model or dataset",
        "`expected` and `got` give the features, `first_difference` where they part.",
    ),
    "not-calibrated": Problem(
        422, "The model has no probabilities", "Train it with `calibration` and `validation`."
    ),
    "explanation-unsupported": Problem(
        422, "The model cannot be explained", "Random Fourier features mean nothing by themselves."
    ),
    "plot-unavailable": Problem(
        404,
        "There is no such picture of this version",
        "What it shows is gone, such as the training data, or never was; the detail says what.",
    ),
    "export-unsupported": Problem(
        422,
        "The version cannot be exported in this format",
        "It is too large for it, or the service lacks the libraries; the detail says which.",
    ),
    "invalid-model": Problem(
        422,
        "The file is no model that can be served",
        "A part is missing, unknown, of another type or shape, not finite, or does not fit the "
        "others; the detail says which.",
    ),
    "making-failed": Problem(
        422, "The file could not be made", "Making it takes too much time or memory."
    ),
    # The service
    "internal-error": Problem(
        500, "An error of the service", "It was logged under the request id; nothing was changed."
    ),
    "dataset-corrupt": Problem(
        500, "The stored dataset is damaged", "Its files do not match their digests; upload again."
    ),
    "model-corrupt": Problem(
        500,
        "The stored model is damaged",
        "Its file does not match its digest. The version is set aside, others keep serving.",
    ),
    "overloaded": Problem(
        503,
        "The service has no capacity for the request now",
        "Too many predictions are waiting, or the bodies of other requests take all memory for "
        "bodies, or too many files are open. Retry-After says when to try again.",
    ),
    "results-corrupt": Problem(
        500, "The file of results is damaged", "It does not match its digest; ask for it again."
    ),
    "process-lost": Problem(
        503,
        "The process that does this was lost",
        "It died twice, for lack of memory or by a fault of its own. Nothing was stored; "
        "Retry-After says when to try again. If it happens every time, report it.",
    ),
    "queue-full": Problem(503, "Too many jobs are queued", "Retry-After says when to try again."),
    "storage-unavailable": Problem(
        503,
        "Database or file store do not answer",
        "Try again shortly. What the request asked for may have been done all the same.",
    ),
    "storage-damaged": Problem(
        503,
        "The database is damaged",
        "What the request needs of it cannot be read. `svm-service doctor` says what is wrong; the "
        "last backup can be restored.",
    ),
    "too-many-connections": Problem(
        503, "Too many connections are open", "Retry-After says when to try again."
    ),
    "too-many-streams": Problem(
        503, "Too many event streams are open", "Retry-After says when to try again."
    ),
    "shutting-down": Problem(503, "The service is shutting down", "Try again shortly."),
    "not-ready": Problem(503, "The service is not ready", "Try again shortly."),
    "model-not-ready": Problem(
        503, "The model cannot answer", "Its file is damaged; other versions keep serving."
    ),
    "storage-full": Problem(507, "The disk is full", "Nothing was stored; predictions go on."),
}
