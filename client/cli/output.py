"""Writes results as aligned columns or as JSON."""

from __future__ import annotations

import base64
import json
import select
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

Cell = str | int | None
COLUMN_GAP = "  "
ABSENT = "-"


def table(headings: Sequence[str], rows: Sequence[Sequence[Cell]]) -> str:
    """A text table; numbers are aligned right, other cells left."""
    texts = [[ABSENT if cell is None else str(cell) for cell in row] for row in rows]
    widths = [
        max(len(heading), *(len(row[column]) for row in texts), 0)
        for column, heading in enumerate(headings)
    ]
    numeric = [
        any(isinstance(row[column], int) for row in rows)
        and not any(isinstance(row[column], str) for row in rows)
        for column in range(len(headings))
    ]
    lines = []
    for row in [list(headings), *texts]:
        cells = [
            text.rjust(width) if is_number else text.ljust(width)
            for text, width, is_number in zip(row, widths, numeric, strict=True)
        ]
        lines.append(COLUMN_GAP.join(cells).rstrip() + "\n")
    return "".join(lines)


def json_line(value: object) -> str:
    """One JSON document on one line."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")) + "\n"


def json_document(value: object) -> str:
    """One JSON document, indented."""
    return json.dumps(value, ensure_ascii=False, indent=2) + "\n"


def readable(name: str, data: bytes | None) -> dict[str, str | None]:
    """Bytes as a JSON member: the text if they are UTF-8, otherwise ``<name>_base64``."""
    if data is None:
        return {name: None}
    try:
        return {name: data.decode("utf-8")}
    except UnicodeDecodeError:
        return {f"{name}_base64": base64.b64encode(data).decode("ascii")}


def write(text: str) -> None:
    """Write text to standard output and flush. Raises BrokenPipeError if it is closed."""
    write_bytes(text.encode("utf-8", "surrogateescape"))


def check_reader() -> None:
    """Raise BrokenPipeError if the reader of standard output has closed it. A command that has
    nothing to write would not notice, and wait for ever behind ``

    head -1``."""
    stream = getattr(sys.stdout, "buffer", None)
    if stream is None or not hasattr(select, "poll"):
        return
    poll = select.poll()
    # No events requested: errors are always reported, and a full pipe is not an error.
    poll.register(stream.fileno(), 0)
    if any(event & select.POLLERR for _descriptor, event in poll.poll(0)):
        raise BrokenPipeError


def write_bytes(data: bytes) -> None:
    """Write bytes to standard output and flush. Raises BrokenPipeError if it is closed."""
    # Without a stream the caller has closed it, and the output is dropped.
    stream = getattr(sys.stdout, "buffer", None)
    if stream is not None:
        stream.write(data)
        stream.flush()
