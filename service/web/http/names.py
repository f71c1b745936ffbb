"""What may stand in a path: names chosen by callers, and identifiers made by us."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, Field, JsonValue
from pydantic_core import PydanticCustomError

NAME = re.compile(r"[a-z](?:[a-z0-9-]{0,61}[a-z0-9])?")
INVALID_NAME = "invalid-name"
"""Type of the validation error that `web.problems` turns into a problem of its own."""


def _check(name: str) -> str:
    if NAME.fullmatch(name) is None:
        raise PydanticCustomError(
            INVALID_NAME,
            "a name is 1 to 63 lower-case letters, digits and hyphens; "
            "it begins with a letter and does not end with a hyphen",
        )
    return name


_SCHEMA: dict[str, JsonValue] = {"pattern": f"^{NAME.pattern}$", "maxLength": 63}

ModelName = Annotated[
    str,
    AfterValidator(_check),
    Field(
        description="Name of a model, such as `iris`.", examples=["iris"], json_schema_extra=_SCHEMA
    ),
]
"""A model's name; anything else is the problem `invalid-name`."""

AliasName = Annotated[
    str,
    AfterValidator(_check),
    Field(
        description="Name of an alias, such as `default`.",
        examples=["default"],
        json_schema_extra=_SCHEMA,
    ),
]
"""An alias's name, of the same form."""

DatasetId = Annotated[str, Field(pattern="^ds_[0-9a-f]{32}$", description="The dataset's id.")]
JobId = Annotated[str, Field(pattern="^job_[0-9a-f]{32}$", description="The job's id.")]

DatasetReference = Annotated[str, Field(pattern=r"^(ds_[0-9a-f]{32}|latest)$")]
"""In a body: a dataset's id, or `latest` for the one uploaded last."""
_REFERENCE = rf"^{NAME.pattern}(/([1-9][0-9]{{0,8}}|{NAME.pattern}))?$"
ModelReference = Annotated[
    str, Field(pattern=_REFERENCE, examples=["iris", "iris/3", "iris/candidate"])
]
"""In a body: a model, one of its versions, or one of its aliases."""
