"""Java's properties format, in which Kafka's settings files are written. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_BLANK = " \t\f"
_LINE_ENDS = re.compile(r"\r\n|\r|\n")
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|u|.|$)", re.DOTALL)
_CONTROL = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
# Key, then the separator: blanks around at most one = or :.
_KEY = re.compile(r"((?:[^\\ \t\f=:]|\\.)*)[ \t\f]*[=:]?[ \t\f]*", re.DOTALL)
_WRITTEN = str.maketrans({"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\f": "\\f"})
_WRITTEN_KEY = _WRITTEN | str.maketrans(
    {" ": "\\ ", "=": "\\=", ":": "\\:", "#": "\\#", "!": "\\!"}
)


def parse_properties(text: str) -> dict[str, str]:
    """The settings in Java's properties format; of a name given twice the last value counts.

    Raises ValueError for an escape that is none."""
    settings: dict[str, str] = {}
    for line in _logical_lines(text):
        match = _KEY.match(line)
        assert match is not None
        settings[_unescape(match[1])] = _unescape(line[match.end() :])
    return settings


def _logical_lines(text: str) -> Iterator[str]:
    """Lines without comments and blank ones, continued ones joined."""
    pending: str | None = None
    for natural in _LINE_ENDS.split(text):
        line = natural.lstrip(_BLANK)
        if pending is None and (not line or line[0] in "#!"):
            continue
        line = (pending or "") + line
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2:
            # The line end is escaped, and so is the next line's indentation.
            pending = line[:-1]
        else:
            pending = None
            yield line
    if pending is not None:
        yield pending


def _unescape(text: str) -> str:
    return _ESCAPE.sub(_unescape_one, text) if "\\" in text else text


def _unescape_one(match: re.Match[str]) -> str:
    escaped = match[1]
    if escaped == "u":
        raise ValueError(f"malformed \\uxxxx escape in {match.string!r}")
    if len(escaped) > 1:
        return chr(int(escaped[1:], 16))
    return _CONTROL.get(escaped, escaped)


def format_properties(settings: Mapping[str, str]) -> str:
    """The text that ``parse_properties`` reads as these settings, one line for each.

    >>> format_properties({"linger.ms": "5"})
    'linger.ms=5\\n'
    """
    return "".join(
        f"{key.translate(_WRITTEN_KEY)}={_value(text)}\n" for key, text in settings.items()
    )


def _value(text: str) -> str:
    written = text.translate(_WRITTEN)
    # Blanks before a value are not part of it unless the first is escaped.
    return f"\\{written}" if written.startswith(" ") else written
