"""Lines of a text file that are not rows of its table: prose above it, units, totals.

They are left out, in a copy of the file, if its other lines agree; a warning names them.
"""

from __future__ import annotations

import csv
import re
import shutil
from codecs import BOM_UTF8
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from service.common.figures import first_of
from service.errors import ServiceError
from service.rows.cell_texts.number_text import MISSING_VALUES, is_value
from service.rows.cell_texts.text import records, slices
from service.rows.faults import warning

MOST_ABOVE = 20
MOST_BELOW = 5
"""Lines that are not of the table, above and below it."""
MOST_REPEATED = 1000
"""Headers; if there are more, they are rows."""
MIN_ROWS = 3
"""They say what a row is like."""
HEAD_RECORDS = 200
END_BYTES = 64 * 1024
BLOCK_BYTES = 1024 * 1024
COMMENTS = ("#", "sep=")
_TOTAL = re.compile(
    r"(grand |sub)?totals?|sum|summe|gesamt(summe)?|insgesamt|somme|suma|totale|totaal|"
    r"итого|всего|合計|总计|average|mean|mittelwert|durchschnitt",
    re.IGNORECASE,
)
_NUMERIC = re.compile(r"\W{0,3}[0-9]")
_RULE = re.compile(r"\s*:?-{2,}:?\s*")
"""Below the names in Markdown."""


_TYPES = re.compile(
    "double|float(32|64)?|real|numeric|decimal|number|(big|small)?int(eger|32|64)?|long|bool(ean)?|"
    "cat(egory)?|factor|string|str|text|(var)?char|object|date(time)?|timestamp",
    re.IGNORECASE,
)
"""As programs call them, which write decimal points."""


class Line(NamedTuple):
    """A record, not blank, and the lines that it has, from 0."""

    begin: int
    end: int
    cells: list[str]

    @property
    def texts(self) -> list[str]:
        return [text for cell in self.cells if (text := cell.strip())]


@dataclass(slots=True)
class Tidied:
    """A text file without what is not of its table."""

    path: Path
    first_line: int = 1
    """The line of its first record."""
    names: list[str] | None = None
    """Those of two lines."""
    of_program: bool = False
    """Types of the columns are below the names."""
    warnings: list[dict[str, Any]] = field(default_factory=list)

    def note(self, what: str, lines: list[Line]) -> set[int]:
        """Add a warning about lines that are left out; their numbers."""
        shown = first_of([repr(" ".join(line.texts)[:64]) for line in lines], 3)
        self.warnings.append(warning("left-out-lines", f"{what}: {shown}"))
        return {number for line in lines for number in range(line.begin, line.end)}


def without_nul_end(path: Path, new: Path) -> Path:
    """The file, or a copy without the NUL bytes at its end, which a crash leaves."""
    size = path.stat().st_size
    with path.open("rb") as file:
        file.seek(max(0, size - END_BYTES))
        end = file.read()
    n_nul = len(end) - len(end.rstrip(b"\0"))
    if n_nul in (0, len(end)):
        return path
    shutil.copyfile(path, new)
    with new.open("r+b") as file:
        file.truncate(size - n_nul)
    return new


def without_outer_quotes(path: Path, new: Path, text: str, delimiters: tuple[str, ...]) -> Path:
    """The file, or if each of its lines is one cell with others in it, a copy of what it holds."""
    lines = [line for line in text.split("\n")[:HEAD_RECORDS] if line]
    if not all(len(line) > 1 and line[0] == line[-1] == '"' for line in lines):
        return path
    try:
        widths = [
            {len(cells) for line in lines for cells in records(line, mark)} for mark in delimiters
        ]
        inner = [cells[0] for line in lines for cells in records(line, "\0")]
        held = [
            {len(cells) for text in inner for cells in records(text, mark)} for mark in delimiters
        ]
    except csv.Error:
        return path
    if any(width != {1} for width in widths) or not any(
        len(width) == 1 and width != {1} for width in held
    ):
        return path
    with new.open("w", encoding="utf-8", newline="") as out:
        for part in slices(path):
            out.writelines(f"{cells[0]}\n" for cells in records(part.text, "\0"))
    return new


def with_closed_quotes(path: Path, new: Path, text: str, delimiters: tuple[str, ...]) -> Path:
    """The file, or if each quote that is left open in a line can only be a letter, a copy with
    these in quotes: then all lines have as many cells."""
    with path.open("rb") as file:
        blocks = iter(partial(file.read, BLOCK_BYTES), b"")
        odd = sum(block.count(b'"') for block in blocks) % 2
    if not (odd or _is_broken(text, delimiters[0])):
        return path
    try:
        lines = list(islice(_all_lines(path, quotes=False), HEAD_RECORDS))
        delimiter = next((one for one in delimiters if _agree(lines, one)), None)
        if delimiter is None or not _agree(_all_lines(path, quotes=False), delimiter):
            return path
    except (csv.Error, ServiceError):
        return path
    with new.open("w", encoding="utf-8", newline="") as out:
        for line in _all_lines(path, quotes=False):
            cells = line.split(delimiter) if line.count('"') % 2 else [line]
            if len(cells) > 1:
                quoted = (cell.replace('"', '""') for cell in cells)
                cells = [f'"{cell}"' for cell in quoted]
            out.write(f"{delimiter.join(cells)}\n")
    return new


def _is_broken(text: str, delimiter: str) -> bool:
    try:
        deque(records(text, delimiter), maxlen=0)
    except csv.Error:
        return True
    return False


def _agree(lines: Iterable[str], delimiter: str) -> bool:
    """Whether all lines have as many cells, at least two, if quotes left open are letters."""
    width = 0
    for line in lines:
        if not line.strip():
            continue
        if line.count('"') % 2 or '"' not in line:
            n_cells = line.count(delimiter) + 1
        else:
            n_cells = len(next(records(line, delimiter)))
        width = width or n_cells
        if n_cells != width:
            return False
    return width > 1


def tidy(
    path: Path, new: Path, text: str, delimiter: str, is_header: Callable[[list[str]], bool]
) -> Tidied:
    """The file, or a copy without what is not of its table. `text`: how it begins; `is_header` says
    whether a record can be the names. Raises csv.Error."""
    result = Tidied(path)
    head = _lines(text, delimiter)
    width = Counter(len(line.cells) for line in head).most_common(1)[0][0] if head else 0
    if width < 2:
        return result
    whole = path.stat().st_size <= len(text.encode()) + len(BOM_UTF8)
    end = head if whole else _last_lines(path, delimiter)
    below = _below(end, width)
    dropped: set[int] = set()
    if below:
        result.note(
            f"the last {'line is' if len(below) == 1 else 'lines are'} no row, but "
            f"{'a total' if any(map(_is_total, below)) else 'a note'}, left out",
            below,
        )
        head = head[: -len(below)] if whole else head
    above = _above(head, width, delimiter, is_header)
    if above:
        result.first_line = head[len(above)].begin + 1
        dropped |= result.note(
            f"the table begins in line {result.first_line}; left out above it", above
        )
    header, *rows = head[len(above) :]
    if len(header.cells) == width and len(header.texts) > 1 and is_header(header.cells):
        dropped |= _below_header(result, header, rows)
        dropped |= _repeated(result, path, text, header)
    if dropped or below:
        _copy(path, new, dropped, sum(line.end - line.begin for line in below))
        result.path = new
    return result


def _lines(text: str, delimiter: str) -> list[Line]:
    """The records but comments. Raises csv.Error."""
    lines = text.split("\n")
    if '"' in text or delimiter == " ":
        reader = csv.reader(
            (f"{line}\n" for line in lines), delimiter=delimiter, strict=True, skipinitialspace=True
        )
        ends = ((reader.line_num, cells) for cells in reader)
    else:
        ends = ((number, line.split(delimiter)) for number, line in enumerate(lines, 1))
    found = []
    before = 0
    for end, cells in ends:
        if any(map(str.strip, cells)) and not cells[0].startswith(COMMENTS):
            found.append(Line(before, end, cells))
        before = end
    return found


def _last_lines(path: Path, delimiter: str) -> list[Line]:
    """Some of the last records; none if a cell of several lines may be cut. Their numbers are not
    those of the file."""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - END_BYTES))
        text = file.read().partition(b"\n")[2].decode(errors="replace")
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    try:
        return _lines(text, delimiter)
    except csv.Error:
        return []


def _below(end: list[Line], width: int) -> list[Line]:
    """Totals and notes in the last records, if all rows before them are full enough."""
    rows = list(end)
    while rows and len(end) - len(rows) < MOST_BELOW and _is_below(rows[-1], width):
        rows.pop()
    below = end[len(rows) :]
    some = rows[-HEAD_RECORDS:]
    if len(some) < MIN_ROWS or any(
        len(line.cells) < width or len(line.texts) < 2 for line in some[1:]
    ):
        return []
    filled = [
        all(row[i].strip() for row in (line.cells for line in some[1:])) for i in range(width)
    ]
    lacking = [
        any(full and not "".join(line.cells[i : i + 1]).strip() for i, full in enumerate(filled))
        for line in below
    ]
    return below if all(lacking) else []


def _is_below(line: Line, width: int) -> bool:
    alone = len(line.texts) == 1 and not is_value(line.texts[0])
    return len(line.cells) <= width and (_is_total(line) or (alone and width > 2))


def _is_total(line: Line) -> bool:
    return _TOTAL.fullmatch(line.texts[0].strip(" :*=")) is not None


def _above(
    head: list[Line], width: int, delimiter: str, is_header: Callable[[list[str]], bool]
) -> list[Line]:
    """The texts before the names, if all records below these have as many cells; or a line that
    counts the columns, as in scikit-learn's files."""
    start = 0
    while start < min(MOST_ABOVE, len(head)) and _is_above(head[start], width, delimiter):
        start += 1
    rest = head[start:]
    if len(rest) <= MIN_ROWS or any(len(line.cells) != width for line in rest[1:]):
        return []
    if not is_header(rest[0].cells):
        first = head[0].cells
        # It has names of two classes or more, and the number of rows below: no row is like that.
        counts = start < 2 and len(first) > 3 and first[0].isdecimal() and len(first[0]) < 10
        counts = counts and first[1] == str(width - 1) and int(first[0]) >= len(rest) - 1
        return head[:1] if counts and not any(map(is_value, first[2:])) else []
    return head[:start] if width > 2 or _names_numbers(rest) else []


def _names_numbers(lines: list[Line]) -> bool:
    """Whether texts are above a column of numbers: a line alone above them is a title, and not the
    name of R, which leaves out that of the row names."""
    named = MISSING_VALUES.isdisjoint(map(str.strip, lines[0].cells))
    return named and any(one and all(map(_NUMERIC.match, one)) for one in _columns(lines[1:]))


def _columns(lines: list[Line]) -> list[set[str]]:
    """The different cells of each column, without missing ones."""
    columns = zip(*(line.cells for line in lines), strict=True)
    return [set(map(str.strip, column)) - MISSING_VALUES for column in columns]


def _is_above(line: Line, width: int, delimiter: str) -> bool:
    n_cells = len(line.cells)
    if len(line.texts) == 1:
        return not is_value(line.texts[0])
    return n_cells < width - 1 or (n_cells > width and delimiter == " ")


def _below_header(result: Tidied, header: Line, rows: list[Line]) -> set[int]:
    """The line below the names, if it has units or types, or the second part of the names."""
    row, *others = rows or [header]
    width = len(header.cells)
    if len(others) < MIN_ROWS or any(len(line.cells) != width for line in rows):
        return set()
    where = f"line {row.begin + 1}"
    if row.texts and all(map(_RULE.fullmatch, row.texts)):
        return result.note(f"{where} is no row, left out", [row])
    parted = any(
        not name.strip() and cell.strip()
        for name, cell in zip(header.cells[1:], row.cells[1:], strict=True)
    )
    columns = _columns(others)
    of_numbers = 0
    for cell, column in zip(map(str.strip, row.cells), columns, strict=True):
        if cell in MISSING_VALUES:
            continue
        if column and all(map(_NUMERIC.match, column)):
            if any(map(str.isdigit, cell)):
                return set()
            of_numbers += 1
        elif is_value(cell) or (cell in column and not parted):
            return set()
    if not of_numbers:
        return set()
    if parted:
        result.names = _joined(header.cells, row.cells)
        return result.note(f"{where} belongs to the names, and is no row", [row])
    result.of_program = all(map(_TYPES.fullmatch, row.texts))
    return result.note(f"{where} has units or types, left out", [row])


def _joined(above: list[str], below: list[str]) -> list[str]:
    """Names of two lines: one that is above several columns is put before each."""
    names, group = [], ""
    for i, (name, part) in enumerate(
        zip(map(str.strip, above), map(str.strip, below), strict=True)
    ):
        group = name or group
        several = not name or (i + 1 < len(above) and not above[i + 1].strip())
        names.append(f"{group} / {part}" if several and group and part else name or part)
    return names


def _repeated(result: Tidied, path: Path, text: str, header: Line) -> set[int]:
    """Where the header comes again, as in files that were put together."""
    line = text.split("\n")[header.begin]
    if header.end > header.begin + 1 or not _comes_twice(path, line.encode()):
        return set()
    numbers = (i for i, other in enumerate(_all_lines(path)) if other == line and i > header.begin)
    again = set(islice(numbers, MOST_REPEATED + 1))
    if 0 < len(again) <= MOST_REPEATED:
        more = f" and {len(again) - 1:,} more" if len(again) > 1 else ""
        result.note(f"line {min(again) + 1}{more}: the header again, left out", [header])
        return again
    return set()


def _comes_twice(path: Path, line: bytes) -> bool:
    count, rest = 0, b""
    with path.open("rb") as file:
        while count < 2 and (block := file.read(BLOCK_BYTES)):
            count += (rest + block).count(line)
            rest = block[len(block) - len(line) + 1 :]
    return count > 1


def _all_lines(path: Path, *, quotes: bool = True) -> Iterator[str]:
    for part in slices(path, quotes=quotes):
        yield from part.text.removesuffix("\n").split("\n")


def _copy(path: Path, new: Path, dropped: set[int], n_last: int) -> None:
    """Without the lines `dropped`, and without the last ones that are not blank."""
    held: deque[str] = deque()
    n_held = 0
    with new.open("w", encoding="utf-8", newline="") as out:
        for number, line in enumerate(_all_lines(path)):
            if number not in dropped:
                held.append(line)
                n_held += bool(line.strip())
            while n_held > n_last:
                first = held.popleft()
                n_held -= bool(first.strip())
                out.write(f"{first}\n")
