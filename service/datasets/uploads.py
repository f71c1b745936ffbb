"""From a request to a description of what to parse: which format, which options, which files."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path, PurePosixPath

from pydantic import ValidationError

from service.datasets.schemas import NAMED_DELIMITERS, UploadOptions
from service.errors import InvalidRequest, UnsupportedFormat
from service.rows.cell_texts.encodings import is_text_codec
from service.rows.format_table import FORMATS, LABEL_FORMATS, SUFFIXES
from service.rows.kinds.roles import check_roles
from service.rows.spec import (
    BZIP2,
    CSV,
    GZIP,
    TSV,
    UNKNOWN,
    ZIP,
    ZSTD,
    ParseSpec,
    ReadLimits,
    Roles,
)
from service.rows.unwrapping import ARCHIVES
from service.settings import Limits
from service.web.bodies.strict_json import decode_json
from service.web.bodies.uploads import FormPart, IncomingBody, media_type, parameter
from service.web.bodies.validation import parameter_error

FORM = "multipart/form-data"
_SAY_NOTHING = ("", "text/plain", "application/octet-stream", "application/vnd.ms-excel")
"""What browsers and curl send for files that they do not know."""
_UTF8 = (None, "utf-8", "utf8", "us-ascii", "ascii")
"""What the media type says of texts that may be anything else: clients say it of all texts."""
_OTHER_NAMES = {
    "application/csv": CSV,
    "text/x-csv": CSV,
    "text/comma-separated-values": CSV,
    "application/x-zip-compressed": ZIP,
    "application/x-gzip": GZIP,
    "application/x-bzip": BZIP2,
    "application/bzip2": BZIP2,
    "application/x-zstd": ZSTD,
}
"""As browsers of some systems and other programs call them."""


@dataclass(frozen=True, slots=True)
class Upload:
    """An upload on disk."""

    options: UploadOptions
    spec: ParseSpec
    filename: str = ""
    """As the form gives it."""


async def receive(body: IncomingBody, query: UploadOptions, folder: Path, limits: Limits) -> Upload:
    """Stream the body into `folder`. Raises ServiceError for what is wrong with the request."""
    sizes = limits.upload_bytes, limits.inflated_bytes
    if body.media_type == FORM:
        parts = await body.save_form(folder, ("file", "labels"), *sizes)
        return _of_form(parts, query, folder, limits)
    sent_type = _OTHER_NAMES.get(body.media_type, body.media_type)
    if sent_type not in (*FORMATS, *ARCHIVES.values()):
        raise _unsupported(sent_type, (*FORMATS, ZIP, FORM))
    path = folder / "body"
    await body.save(path, *sizes)
    options = _with_parameters(query, body.content_type)
    return Upload(options, _spec(options, sent_type, path, folder, limits))


def _of_form(
    parts: dict[str, FormPart], query: UploadOptions, folder: Path, limits: Limits
) -> Upload:
    file = parts.pop("file", None)
    if file is None or file.path is None:
        raise InvalidRequest("malformed-request", "the form has no part `file` with the data")
    labels = parts.pop("labels", None)
    if labels is not None and not (labels.size or labels.filename):
        labels = None  # a page sends an empty part if no file was chosen
    options = _with_parameters(_options(parts, query), file.content_type)
    return Upload(
        options,
        _spec(
            *(options, _format(file, (*FORMATS, UNKNOWN)), file.path, folder, limits),
            file.filename,
            labels,
        ),
        file.filename,
    )


def _options(parts: dict[str, FormPart], query: UploadOptions) -> UploadOptions:
    """The query's parameters and the form's fields; they must not contradict each other."""
    # Generated clients send the defaults of the query beside the form.
    given = query.model_dump(exclude_defaults=True, by_alias=True)
    fields = {name: part.text for name, part in parts.items() if part.size}
    try:
        options = type(query).model_validate(given | fields)
    except ValidationError as error:
        errors = [{**item, "loc": ("form", *item["loc"])} for item in error.errors()]
        raise parameter_error(errors) from None
    taken = options.model_dump(by_alias=True)
    for name in fields:
        if name in given and taken[name] != given[name]:
            message = f"{name[:64]!r} is one thing in the query and another in the form"
            raise InvalidRequest("invalid-parameter", message)
    return options


def _with_parameters(options: UploadOptions, content_type: str) -> UploadOptions:
    """The options, and what the media type says of header (RFC 4180) and encoding if they do not.

    Raises UnsupportedFormat for an encoding that is not read.
    """
    said: dict[str, str] = {}
    sent_type = media_type(content_type)
    tabular = _OTHER_NAMES.get(sent_type, sent_type) in (CSV, TSV)
    header = parameter(content_type, "header")
    if options.header == "auto" and tabular and header in ("present", "absent"):
        said["header"] = header
    charset = charset_of(content_type)
    if charset is not None and options.encoding == "auto":
        said["encoding"] = charset
    return options.model_copy(update=said)


def charset_of(content_type: str) -> str | None:
    """The encoding of a text by its media type; None if it is not said, or UTF-8.

    Raises UnsupportedFormat for one that is not read.
    """
    charset = parameter(content_type, "charset")
    if charset in _UTF8:
        return None
    if not (media_type(content_type) in (CSV, TSV) and is_text_codec(charset)):
        message = f"send text as UTF-8, not as {charset[:40]}"
        raise UnsupportedFormat("unsupported-format", message)
    return charset


def _spec(
    options: UploadOptions,
    sent_type: str,
    path: Path,
    folder: Path,
    limits: Limits,
    name: str = "",
    labels: FormPart | None = None,
) -> ParseSpec:
    delimiter = _unless_auto(options.delimiter or "auto")
    return ParseSpec(
        media_type=sent_type,
        data=str(path),
        out=str(folder),
        limits=read_limits(limits),
        labels=None if labels is None else str(labels.path),
        name=name,
        labels_name="" if labels is None else labels.filename,
        labels_media_type=CSV if labels is None else _format(labels, LABEL_FORMATS),
        target=options.target,
        header=options.header,
        delimiter=delimiter and NAMED_DELIMITERS.get(delimiter, delimiter),
        encoding=_unless_auto(options.encoding),
        decimal=_unless_auto(options.decimal),
        thousands=_unless_auto(options.thousands),
        missing=_words(options.missing),
        roles=_roles(options.schema_),
        odd_cells=options.odd_cells,
        day_first=options.dayfirst,
        missing_labels=options.missing_labels,
        sheet=_unless_auto(options.sheet),
        dense=options.dense,
        index_base=options.index_base,
        n_features=options.n_features,
    )


def _unless_auto(option: str) -> str | None:
    return None if option == "auto" else option


def _words(option: str) -> list[str]:
    words = [word.strip() for word in (_unless_auto(option) or "").split(",")]
    return [word for word in words if word]


def _roles(text: str) -> Roles:
    """What `schema` says. Raises InvalidRequest."""
    if not text.strip():
        return {}
    try:
        roles = decode_json(text.encode())
    except InvalidRequest as error:
        message = f"`schema` is not JSON: {error.detail}"
        raise InvalidRequest("invalid-parameter", message) from None
    return check_roles(roles)


def read_limits(limits: Limits) -> ReadLimits:
    """What a parsing process has to know of them."""
    return ReadLimits(**{field.name: getattr(limits, field.name) for field in fields(ReadLimits)})


def _format(part: FormPart, offered: tuple[str, ...]) -> str:
    sent_type = media_type(part.content_type)
    sent_type = _OTHER_NAMES.get(sent_type, sent_type)
    suffix = PurePosixPath(part.filename).suffix.lower()
    # Clients that look a name up say `text/csv` of data.csv.gz.
    archive = ARCHIVES.get(suffix, sent_type)
    if archive in ARCHIVES.values():
        return archive
    unread_text = sent_type.startswith("text/") and sent_type not in offered  # a9a.t is troff
    if sent_type in _SAY_NOTHING or unread_text:
        plain = suffix in ("", ".txt") or suffix not in SUFFIXES
        sent_type = UNKNOWN if plain and UNKNOWN in offered else SUFFIXES.get(suffix, CSV)
    if sent_type not in offered:
        raise _unsupported(sent_type, offered)
    return sent_type


def _unsupported(sent_type: str, offered: tuple[str, ...]) -> UnsupportedFormat:
    said = f"{sent_type[:100]} is not read here" if sent_type else "Content-Type is missing"
    return UnsupportedFormat("unsupported-format", f"{said}; send one of {', '.join(offered)}")
