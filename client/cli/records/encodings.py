"""Forms of keys and values in ``-f``: ``%v{hex}``, ``%v{base64}`` and ``%v{pack:>Iq$}``. Pure.

A pack form lists numbers as Python's struct does: ``b B h H i I q Q`` after ``<`` or ``>`` (big
endian without either), ``c`` one character, ``s`` all remaining bytes and ``$`` the end.
"""

from __future__ import annotations

import base64
import binascii
import re
import struct
from collections.abc import Callable

Convert = Callable[[bytes], bytes]

PACK = "pack:"
FORMS = ("hex", "base64", f"{PACK}FORMAT")
_PACKED = re.compile(r"[<>]?[bBhHiIqQc]*s?\$?")


def encoder(form: str) -> Convert:
    """The function that writes bytes in a form. Raises ValueError for an unknown form."""
    if form == "hex":
        return lambda data: data.hex().encode()
    if form == "base64":
        return base64.b64encode
    layout = _Layout(form)
    return layout.unpacked


def decoder(form: str) -> Convert:
    """The function that reads bytes that are written in a form; it raises ValueError."""
    if form == "hex":
        return lambda data: bytes.fromhex(data.decode("ascii", "replace"))
    if form == "base64":
        return _from_base64
    layout = _Layout(form)
    return layout.packed


def _from_base64(data: bytes) -> bytes:
    try:
        return base64.b64decode(data, validate=True)
    except binascii.Error as error:
        raise ValueError(str(error).lower()) from None


class _Layout:
    """A pack form: numbers and characters, and what follows them."""

    def __init__(self, form: str) -> None:
        text = form.removeprefix(PACK)
        if not form.startswith(PACK) or not text or _PACKED.fullmatch(text) is None:
            raise ValueError(
                f"{{{form}}} is no form of a key or value: there are {', '.join(FORMS)}, whose "
                "FORMAT has < or >, then b B h H i I q Q c, then s, then $"
            )
        order = text[0] if text[0] in "<>" else ">"
        self._form = form
        self._letters = text.strip("<>s$")
        self._fixed = struct.Struct(order + self._letters)
        self._has_rest = "s" in text
        self._is_whole = "$" in text

    def unpacked(self, data: bytes) -> bytes:
        """The fields as text with spaces between them. Raises ValueError."""
        size = self._fixed.size
        if len(data) < size:
            raise ValueError(f"{len(data)} bytes are fewer than {{{self._form}}} has")
        if self._is_whole and not self._has_rest and len(data) > size:
            raise ValueError(f"{len(data)} bytes are more than {{{self._form}}} has")
        parts = [
            one if isinstance(one, bytes) else b"%d" % one for one in self._fixed.unpack_from(data)
        ]
        if self._has_rest:
            parts.append(data[size:])
        return b" ".join(parts)

    def packed(self, data: bytes) -> bytes:
        """The bytes of fields that are written as text. Raises ValueError."""
        count = len(self._letters)
        words = data.split(b" ", count) if self._has_rest else data.split(b" ")
        if len(words) != count + self._has_rest:
            raise ValueError(
                f"{{{self._form}}} has {count + self._has_rest} fields, not {len(words)}"
            )
        rest = words.pop() if self._has_rest else b""
        try:
            fields = [
                word if letter == "c" else int(word)
                for letter, word in zip(self._letters, words, strict=True)
            ]
            return self._fixed.pack(*fields) + rest
        except struct.error as error:
            raise ValueError(str(error)) from None
