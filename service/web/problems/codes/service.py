"""Problems of the service: errors, damaged files, and limits of its capacity."""

from __future__ import annotations

from service.web.problems.codes.problem import Problem

SERVICE = {
    "internal-error": Problem(
        500,
        "Internal error",
        "An unexpected error of the service. Its log has the cause under the request id. Nothing "
        "was changed.",
    ),
    "dataset-corrupt": Problem(
        500,
        "The stored dataset is corrupt",
        "Its files do not match their digests. Upload the dataset again.",
    ),
    "model-corrupt": Problem(
        500,
        "The stored model is corrupt",
        "Its file does not match its digest. The version is disabled; other versions still work.",
    ),
    "results-corrupt": Problem(
        500,
        "The results file is corrupt",
        "It does not match its digest. Request the results again.",
    ),
    "overloaded": Problem(
        503,
        "The service is overloaded",
        "Too many predictions are waiting, the memory for request bodies or for headers is full, "
        "or too many files are open. Retry after the seconds in Retry-After.",
    ),
    "process-lost": Problem(
        503,
        "The process for this request crashed",
        "It crashed twice, because it ran out of memory or because of a bug. Nothing was stored. "
        "Retry after the seconds in Retry-After; if it fails every time, report it.",
    ),
    "queue-full": Problem(503, "The job queue is full", "Retry after the seconds in Retry-After."),
    "storage-unavailable": Problem(
        503,
        "The database or file store does not respond",
        "Retry shortly. The requested change may have been made anyway.",
    ),
    "storage-damaged": Problem(
        503,
        "The database is corrupt",
        "Data that the request needs cannot be read. Run `svm-service doctor` to find out what is "
        "wrong, and restore the last backup if needed.",
    ),
    "too-many-connections": Problem(
        503, "Too many open connections", "Retry after the seconds in Retry-After."
    ),
    "too-many-streams": Problem(
        503, "Too many open event streams", "Retry after the seconds in Retry-After."
    ),
    "shutting-down": Problem(503, "The service is shutting down", "Retry shortly."),
    "not-ready": Problem(503, "The service is not ready", "Retry shortly."),
    "model-not-ready": Problem(
        503, "The model is not ready", "Its file is corrupt. Other versions still work."
    ),
    "storage-full": Problem(507, "The disk is full", "Nothing was stored. Predictions still work."),
}
