"""Shows keys, values and headers as text, JSON or hex, truncated to a length. Pure."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from ottla.client.console.views.asked import BadRequest

if TYPE_CHECKING:
    from ottla.client.console.views.asked import Document

FORMATS = ("auto", "text", "json", "hex")
# A list shows this many bytes of a key or a value; the page of one record shows more.
SHOWN_BYTES = 4 * 1024
SHOWN_BYTES_MAX = 256 * 1024
# Larger values are not parsed as JSON: that would block all other visitors.
JSON_BYTES_MAX = 1024 * 1024
# Maximum ratio of the indented form's length to the value's; beyond it the value is shown as it is:
# each line of a value nested a thousand levels deep has two thousand spaces.
INDENTED_MAX = 8
_HEX_LINE = 16


def checked_format(name: str) -> str:
    """Return the format of that name; ``auto`` for an empty name. Raises BadRequest."""
    if name and name not in FORMATS:
        raise BadRequest(f"there is no format {name[:20]!r}; there are {', '.join(FORMATS)}")
    return name or FORMATS[0]


def shown(content: bytes | None, form: str, shown_bytes: int = SHOWN_BYTES) -> Document:
    """Some bytes in a format.

    Args:
        content: The bytes; None for null.
        form: One of ``FORMATS``. ``auto`` is JSON or text if the bytes are, otherwise hex.
        shown_bytes: How many bytes to show at most.

    Returns:
        The text, the format that it has, the size in bytes and whether it was cut.
    """
    if content is None:
        return {"text": None, "format": "null", "size_bytes": -1, "is_cut": False}
    text, used = _text(content, form, shown_bytes)
    is_cut = len(content) > shown_bytes
    return {"text": text, "format": used, "size_bytes": len(content), "is_cut": is_cut}


def _text(content: bytes, form: str, shown_bytes: int) -> tuple[str, str]:
    begin = content[:shown_bytes]
    if form == "hex":
        return hex_lines(begin), "hex"
    if form in ("auto", "json") and len(content) <= shown_bytes:
        document = indented(content)
        if document is not None:
            return document, "json"
    if form == "auto" and not is_text(begin, is_cut=len(content) > shown_bytes):
        return hex_lines(begin), "hex"
    # The text may be truncated within a character; invalid UTF-8 is marked.
    return begin.decode("utf-8", "replace"), "text"


def is_text(begin: bytes, *, is_cut: bool) -> bool:
    """Whether bytes, which may be truncated within a character, are UTF-8 without control
    characters."""
    try:
        text = begin.decode("utf-8")
    except UnicodeDecodeError as error:
        if not is_cut or error.start < len(begin) - 3:
            return False
        text = begin[: error.start].decode("utf-8")
    return not any(sign < " " and sign not in "\t\n\r" for sign in text)


def as_json(content: bytes | None) -> object:
    """Return the JSON value of some bytes. Raises ValueError if they are not JSON, or too large."""
    if content is None or len(content) > JSON_BYTES_MAX:
        raise ValueError("no JSON")
    try:
        return json.loads(content)
    except RecursionError:
        raise ValueError("too deep") from None


def indented(content: bytes) -> str | None:
    """Return an object or a list as indented JSON; None for other values, and if the result would
    be many times as long."""
    if content[:1].strip() not in (b"{", b"[", b""):
        return None
    try:
        value = as_json(content)
        if isinstance(value, dict | list):
            return _joined(value, INDENTED_MAX * (len(content) + _HEX_LINE))
    except (ValueError, RecursionError):
        return None
    return None


def _joined(value: object, length_max: int) -> str | None:
    pieces, length = [], 0
    for piece in json.JSONEncoder(ensure_ascii=False, indent=2).iterencode(value):
        length += len(piece)
        if length > length_max:
            return None
        pieces.append(piece)
    return "".join(pieces)


def hex_lines(content: bytes) -> str:
    """Lines of an offset, sixteen bytes in hex, and the characters among them."""
    lines = []
    for start in range(0, len(content), _HEX_LINE):
        part = content[start : start + _HEX_LINE]
        signs = "".join(chr(byte) if 0x20 <= byte < 0x7F else "." for byte in part)
        lines.append(f"{start:08x}  {part.hex(' '):<47}  {signs}")
    return "\n".join(lines)
