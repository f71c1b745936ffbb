"""Bodies made of the smallest items that a format has, up to a limit in bytes, chosen at random."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from service.rows.spec import CSV, JSON, LIBSVM, NDJSON, TSV
from tests.journeys.limits.bombs import IMPORT, JOBS, PREDICT, UPLOAD

INFER = "/v2/models/bombed/infer"
FORM = "multipart/form-data; boundary=b"
MARK = "@"
"""The place of the items in a frame; `#` in an item is its number."""
_WRONG = ("{}", "[]", "[[]]", "null", "0", "true", '""', "[0]", '{"a":0}', "[0,0,0]", "[null]")


@dataclass(frozen=True)
class Kind:
    """Bodies of one kind: a frame around many small items."""

    path: str
    frames: tuple[str, ...]
    items: tuple[str, ...]
    media_type: str = JSON
    separators: tuple[str, ...] = (",", ", ", ",\n")

    def body(self, random: Random, n_bytes: int) -> bytes:
        """A body of at most `n_bytes`."""
        frame, item = random.choice(self.frames), random.choice(self.items)
        separator = random.choice(self.separators)
        begin, end = frame.split(MARK)
        room = n_bytes - len(frame)
        if "#" in item:
            each = len((item + separator).encode()) + 6
            text = separator.join(item.replace("#", f"{i:x}") for i in range(room // each))
        else:
            text = separator.join([item] * (room // len((item + separator).encode())))
        return f"{begin}{text}{end}".encode()


_LINES = ("\n", "\r\n")
_JOBS = tuple(f"/v1/{name}" for name in ("jobs", "batch-predictions", "comparisons", "evaluations"))
CONTROL = {
    f"fields of {path}": Kind(path, ("{@}",), ('"#":1', '"#":{}', '"#":[]'))
    for path in (*_JOBS, "/v2/repository/index", "/v1/jobs:batch")
} | {
    "tags": Kind(JOBS, ('{"tags":{@}}',), ('"#":1', '"#":"x"', '"":"","#":[]')),
    "classes": Kind(JOBS, ('{"classes":[@]}',), _WRONG),
    "class weights": Kind(JOBS, ('{"class_weight":{@}}',), ('"#":1', '"#":{}')),
    "terms": Kind(
        JOBS,
        (
            '{"features":{"name":"terms","terms":[@]}}',
            '{"features":{"name":"terms","terms":[{@}]}}',
        ),
        ("{}", '"#":1', '{"#":0}', "[]"),
    ),
    "grid values": Kind(
        "/v1/comparisons",
        tuple(f'{{"grid":{{"{axis}":[@]}}}}' for axis in ("solver", "C", "gamma", "features")),
        (*_WRONG, '{"name":"#"}'),
    ),
    "entries": Kind("/v1/comparisons", ('{"specs":[@]}',), (*_WRONG, '{"solver":{"name":"#"}}')),
    "jobs": Kind("/v1/jobs:batch", ('{"jobs":[@]}',), (*_WRONG, '{"f#":1}')),
}
"""Of at most `control_body_bytes`."""
_ROWS = (
    '{"instances":[@]}',
    '{"instances":[[1,2],@]}',
    '{"records":[@]}',
    '{"rows":[@]}',
    '{"columns":["a","k"],"data":[@]}',
    "[@]",
)
PREDICTIONS = {
    "rows": Kind(PREDICT, _ROWS, _WRONG),
    "cells": Kind(PREDICT, ('{"instances":[[@]]}', '{"instances":[[1,2],[@]]}'), _WRONG),
    "names": Kind(PREDICT, ('{"instances":[{@}]}', '{"instances":[[1,2],{@}]}'), ('"#":1',)),
    "members": Kind(PREDICT, ("{@}", '{"instances":[[1,2]],@}'), ('"#":1', '"#":[]', '"#":{}')),
    "columns": Kind(PREDICT, ('{"0":[@],"1":[1]}', '{"0":{"0":1},"1":[@]}'), _WRONG),
    "outputs": Kind(PREDICT, ('{"instances":[[1,2]],"outputs":[@]}',), (*_WRONG, '"label"')),
    "lines": Kind(PREDICT, ("@", "[1,2]\n@"), (*_WRONG, ""), NDJSON, _LINES),
    "lines of CSV": Kind(PREDICT, ("@", "1,2\n@"), ("", "0", ",", '""', "a"), CSV, _LINES),
    "cells of CSV": Kind(PREDICT, ("@", "1,2\n@"), ("", "0", '""', "a"), CSV, (",", ",\n", ",,")),
    "pairs of LIBSVM": Kind(PREDICT, ("@",), ("", "1:1", "0", "1"), LIBSVM, (" ", *_LINES)),
    "tensors": Kind(INFER, ('{"inputs":[@]}',), _WRONG),
    "tensor": Kind(
        INFER,
        tuple(
            f'{{"inputs":[{{"name":"x","datatype":"{datatype}","shape":[1,2],"data":[@]}}]}}'
            for datatype in ("FP64", "INT8", "BOOL", "x")
        ),
        _WRONG,
    ),
    "members of a tensor": Kind(
        INFER,
        (
            '{"inputs":[{@}]}',
            '{"inputs":[{"name":"x","datatype":"FP64","shape":[1,2],"data":[1,2]}],@}',
            '{"inputs":[{"name":"x","datatype":"FP64","shape":[1,2],"parameters":{@},"data":[1,2]}]}',
        ),
        ('"#":1', '"#":{}', '"#":[]'),
    ),
    "shape": Kind(INFER, ('{"inputs":[{"name":"x","datatype":"FP64","shape":[@]}]}',), _WRONG),
    "outputs of tensors": Kind(
        INFER,
        ('{"inputs":[{"name":"x","datatype":"FP64","shape":[1,2],"data":[1,2]}],"outputs":[@]}',),
        (*_WRONG, '{"name":"label"}'),
    ),
}
"""Of at most `predict_body_bytes`."""
UPLOADS = {
    "rows of an upload": Kind(
        UPLOAD,
        (
            *('{"X":[@]}', '{"rows":[@]}', '{"rows":[[1,2],@]}', '{"records":[@]}', "[@]"),
            *('[{"a":1,"k":2},@]', '{"columns":["a","k"],"data":[@]}'),
        ),
        _WRONG,
    ),
    "cells of an upload": Kind(UPLOAD, ('{"rows":[[@]]}', '{"rows":[[1,2],[@]]}'), _WRONG),
    "columns of an upload": Kind(UPLOAD, ('{"columns":[@],"rows":[[1,2]]}',), ('"#"', '""', "0")),
    "members of an upload": Kind(UPLOAD, ("{@}", "[{@}]"), ('"#":1', '"#":[]', '"#":{"0":1}')),
    "labels of an upload": Kind(
        UPLOAD, ('{"rows":[[1,2]],"labels":[@]}',), (*_WRONG, '"#"', '"a"')
    ),
    "lines of an upload": Kind(UPLOAD, ("@", '{"a":1,"k":2}\n@'), (*_WRONG, ""), NDJSON, _LINES),
    "names of an upload": Kind(UPLOAD, ('{"a":1,@}',), ('"#":1',), NDJSON),
    "lines of CSV of an upload": Kind(
        UPLOAD, ("a,k\n1,2\n@", "a,k\n@", "@"), ("", "0", ",", '""', "x", "0,0,0"), CSV, _LINES
    ),
    "cells of CSV of an upload": Kind(
        UPLOAD, ("@", "a,k\n@"), ("", "0", '""', "x"), CSV, (",", ",\n", ",,")
    ),
    "levels": Kind(UPLOAD, ("a,b,k\n@",), ("#,1,x", "#,#,x", "x,#,#"), CSV, _LINES),
    "lines of TSV": Kind(UPLOAD, ("a\tk\n@",), ("\t", "x\t", ""), TSV, _LINES),
    "pairs of an upload": Kind(UPLOAD, ("@",), ("1", "1 1:1", "", "1 1:0", "x"), LIBSVM, _LINES),
    "parts of a form": Kind(
        UPLOAD,
        ("--b\r\n@--b--\r\n",),
        (
            'Content-Disposition: form-data; name="#"\r\n\r\n\r\n--b\r\n',
            "\r\n\r\n--b\r\n",
            "a:b\r\n",
            ":\r\n",
            "--b\r\n",
        ),
        FORM,
        ("",),
    ),
}
MODELS = {
    "values of a model": Kind(
        IMPORT,
        (
            '{"format":"svm-service-model","format_version":1,"model":{"format":1,"classes":[@]}}',
            "[@]",
        ),
        _WRONG,
    ),
}
