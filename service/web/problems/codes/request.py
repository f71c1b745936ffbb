"""Problems of the request itself: its syntax, its headers, its API key, and what it refers to."""

from __future__ import annotations

from service.web.problems.codes.problem import Problem

REQUEST = {
    "malformed-json": Problem(
        400,
        "The body is not valid JSON",
        "Syntax error, bytes after the end, a name given twice in one object, a lone surrogate, "
        "more than 16 levels of nesting, or a bare NaN or Infinity.",
    ),
    "malformed-request": Problem(
        400,
        "The request could not be read",
        "For example a multipart body without a boundary, or a request without a Host header.",
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
        "Send either one Content-Length or Transfer-Encoding, not both.",
    ),
    "request-timeout": Problem(
        408,
        "Timeout while receiving the request",
        "The header was not complete within the timeout, or less than 4 KiB of the body arrived in "
        "it. Retry with the whole request.",
    ),
    "header-too-large": Problem(
        431,
        "The header is too large",
        "The path, the header and the trailers together are limited to 64 KiB, the header to 200 "
        "lines.",
    ),
    "digest-mismatch": Problem(
        400,
        "The body does not match Content-Digest",
        "The body was changed on the way, or its digest was computed before compression. Retry.",
    ),
    "invalid-header": Problem(
        400, "A header is invalid", "The detail names the header and the values it accepts."
    ),
    "invalid-name": Problem(
        400,
        "The name is invalid",
        "Names are 1 to 63 lower-case letters, digits and hyphens; they begin with a letter and do "
        "not end with a hyphen.",
    ),
    "unauthorized": Problem(
        401,
        "A valid API key is required",
        "Send `Authorization: Bearer` with an API key that exists and is not revoked.",
    ),
    "forbidden": Problem(
        403,
        "The API key lacks the required scope",
        "`scope` is the required scope; `svm-service keys create` makes an API key that has it.",
    ),
    "cross-site-request": Problem(
        403,
        "A page of another site sent the request",
        "Requests that change something are accepted from the service's own pages and from "
        "programs only. If a proxy changes the Host header, configure it to forward the original.",
    ),
    "foreign-host": Problem(
        421,
        "The Host header names another host",
        "Allowed are localhost, IP addresses, the name that the service listens on, and the names "
        "in the setting SVM_HOSTS. This protects against DNS rebinding.",
    ),
    "rate-exceeded": Problem(
        429, "Rate limit exceeded", "Too many requests. Retry after the seconds in Retry-After."
    ),
    "not-found": Problem(404, "Not found", "No such resource; it may have been deleted."),
    "method-not-allowed": Problem(
        405, "Method not allowed", "The Allow header lists the methods of this path."
    ),
    "not-acceptable": Problem(
        406, "No acceptable format", "The reply is not available in a format that Accept allows."
    ),
    "resource-in-use": Problem(
        409, "The resource is in use", "Something else needs it; the detail names what."
    ),
    "invalid-state": Problem(
        409,
        "Not possible in the current state",
        "The detail names the state, and what is possible in it.",
    ),
    "idempotency-key-reused": Problem(
        422,
        "The Idempotency-Key was used for another request",
        "The same key came with another path, query or body. Generate a new key for each request.",
    ),
    "idempotency-key-in-use": Problem(
        409,
        "A request with this Idempotency-Key is in progress",
        "Retry the same request after Retry-After to get its reply. If the service crashed in "
        "between, the key becomes free after some seconds.",
    ),
    "precondition-failed": Problem(
        412,
        "The resource has changed",
        "The condition in If-Match or If-None-Match is false. Get the resource again.",
    ),
    "precondition-required": Problem(
        428,
        "A precondition is required",
        "Send If-Match to change a resource, or If-None-Match: * to create one.",
    ),
    "range-not-satisfiable": Problem(
        416,
        "The range is outside the file",
        "It begins after the last byte. `size_bytes` is the size of the file.",
    ),
    "body-too-large": Problem(413, "The body is too large", "The limit is `limit_bytes`."),
    "unsupported-format": Problem(
        415, "The format is not supported", "The detail lists the supported media types."
    ),
    "format-mismatch": Problem(
        415,
        "The body is not in the format that Content-Type names",
        "Set Content-Type to the format of the body.",
    ),
    "decompression-limit": Problem(
        413,
        "The decompressed body is too large",
        "The limit is `limit_bytes`, and 100 times the compressed size.",
    ),
    "invalid-field": Problem(
        422,
        "A field is invalid",
        "Unknown or missing, of the wrong type, or outside its range. Types are strict: true and "
        '"1" are not numbers. Each entry of `errors` points at one field.',
    ),
}
