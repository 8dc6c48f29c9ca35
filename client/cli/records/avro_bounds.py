"""Pure. Judges Avro data before it is decoded: how much a decoder would make of it.

A value of null, an empty record and a fixed of size 0 take no bytes, so a few bytes can announce
any number of them in an array; records that refer to each other can nest without end, or double
with each level. A decoder would hold its event loop until memory is used up.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

# Values that take no bytes: so many are accepted, and so many more for each byte of the data.
FREE_VALUES_MAX = 10_000
FREE_PER_BYTE_MAX = 2
# Records, arrays and maps within one another; JSON in Python ends at about 900.
DEPTH_MAX = 400
# Of one number; the time to convert it grows with the square.
DECIMAL_BYTES_MAX = 4_096
# A schema whose values all take bytes needs no look at the data, if it is not larger than this.
TAME_DEPTH_MAX = 20
TAME_PARTS_MAX = 2_000
LONG_BYTES_MAX = 10
TOO_SHORT = "the data ends before the schema does"

VARIABLE = frozenset({"int", "long", "enum"})
LENGTHS = frozenset({"bytes", "string"})
WIDTHS = {"null": 0, "boolean": 1, "float": 4, "double": 8}
RECORDS = frozenset({"record", "error"})
ITEMS = {"array": "items", "map": "values"}


class AvroBounds:
    """Of one schema, as fastavro has parsed it.

    Args:
        schema: The parsed schema.
        named: The parsed schemas that it may refer to, by full name.
    """

    def __init__(self, schema: Any, named: Mapping[str, Any]) -> None:
        self._schema = schema
        self._named = named
        self.is_tame = is_tame(schema, named)

    def fault(self, data: bytes) -> str:
        """Why the data should not be decoded; empty if it may be."""
        if self.is_tame:
            return ""
        try:
            return _Walk(self._named, data).fault(self._schema)
        except (IndexError, KeyError):
            return "the data names a type that the schema does not have"


def is_tame(schema: Any, named: Mapping[str, Any]) -> bool:
    """Whether decoded data of any content cannot exceed its bytes by much.

    The schema has no null outside of unions, no recursion, and little depth."""
    pending, parts = [(schema, 0)], 0
    while pending:
        part, depth = pending.pop()
        parts += 1
        if depth > TAME_DEPTH_MAX or parts > TAME_PARTS_MAX or not _takes_bytes(part):
            return False
        pending += [(one, depth + 1) for one in _within(part, named)]
    return True


def _takes_bytes(schema: Any) -> bool:
    """Whether each value takes bytes, as far as the parts of the schema do."""
    kind = _kind(schema)
    if kind in RECORDS:
        return bool(schema["fields"])
    if kind == "fixed":
        return 0 < int(schema["size"]) <= DECIMAL_BYTES_MAX
    return kind != "null" and not (kind == "bytes" and _is_decimal(schema))


def _within(schema: Any, named: Mapping[str, Any]) -> list[Any]:
    """The parts of a schema; of a reference what it refers to."""
    kind = _kind(schema)
    if kind == "union":
        # The number of the branch takes a byte.
        return [one for one in schema if one != "null"]
    if kind in RECORDS:
        return [field["type"] for field in schema["fields"]]
    if kind in ITEMS:
        return [schema[ITEMS[kind]]]
    return [named[kind]] if kind in named else []


def _kind(schema: Any) -> str:
    if isinstance(schema, dict):
        schema = schema["type"]
    return schema if isinstance(schema, str) else "union"


def _is_decimal(schema: Any) -> bool:
    return isinstance(schema, dict) and schema.get("logicalType") == "decimal"


class _Walk:
    """Goes through the data once, without making values. Used once."""

    def __init__(self, named: Mapping[str, Any], data: bytes) -> None:
        self._named = named
        self._data = data
        self._position = 0
        self._free = FREE_VALUES_MAX + FREE_PER_BYTE_MAX * len(data)
        # No recursion: the data must not decide how deep Python's stack is.
        # A value to come, how deep it is, and of an array or map the items left in its block. Plain
        # tuples, because there is one for each value.
        self._pending: list[tuple[Any, int, int]] = []

    def fault(self, schema: Any) -> str:
        """As that of the bounds. Raises IndexError and KeyError for types that are not there."""
        pending, size_bytes = self._pending, len(self._data)
        pending.append((schema, 0, 0))
        while pending:
            part, depth, left = pending.pop()
            if depth > DEPTH_MAX:
                return f"its values are more than {DEPTH_MAX} levels deep"
            try:
                self._step(part, depth, left)
            except EOFError:
                return TOO_SHORT
            except ValueError as error:
                return str(error)
            if self._position > size_bytes:
                return TOO_SHORT
            if self._free < 0:
                return (
                    f"its {size_bytes} bytes would become more than "
                    f"{FREE_VALUES_MAX + FREE_PER_BYTE_MAX * size_bytes} values that take no bytes"
                )
        return ""

    def _step(self, schema: Any, depth: int, left: int) -> None:
        """Pass one value, or plan its parts. Raises EOFError, IndexError, KeyError, ValueError."""
        kind, pending = _kind(schema), self._pending
        if kind in VARIABLE:
            self._long()
        elif kind in LENGTHS:
            self._pass_text(is_decimal=_is_decimal(schema))
        elif kind in WIDTHS:
            self._pass(WIDTHS[kind])
        elif kind == "union":
            pending.append((schema[self._long()], depth, 0))
        elif kind in RECORDS:
            self._free -= 1
            pending += [(one["type"], depth + 1, 0) for one in reversed(schema["fields"])]
        elif kind in ITEMS:
            self._next_item(schema, kind, depth, left)
        elif kind == "fixed":
            self._pass(schema["size"], is_decimal=_is_decimal(schema))
        else:
            pending.append((self._named[kind], depth, 0))

    def _next_item(self, schema: Any, kind: str, depth: int, left: int) -> None:
        if left == 0:
            left = self._long()
            if left < 0:
                # The size of the block in bytes follows.
                left = -left
                self._long()
            if left == 0:
                return
        self._pending.append((schema, depth, left - 1))
        if kind == "map":
            self._pass_text()
        self._pending.append((schema[ITEMS[kind]], depth + 1, 0))

    def _pass_text(self, *, is_decimal: bool = False) -> None:
        length = self._long()
        if length < 0:
            raise EOFError
        if length > 0:
            self._pass(length, is_decimal=is_decimal)

    def _pass(self, size_bytes: int, *, is_decimal: bool = False) -> None:
        if is_decimal and size_bytes > DECIMAL_BYTES_MAX:
            raise ValueError(f"it has a decimal of more than {DECIMAL_BYTES_MAX} bytes")
        self._position += size_bytes
        if size_bytes == 0:
            self._free -= 1

    def _long(self) -> int:
        """Read a number. Raises EOFError."""
        value, data, begin = 0, self._data, self._position
        if begin < len(data) and (value := data[begin]) < 0x80:
            self._position = begin + 1
            return (value >> 1) ^ -(value & 1)
        value = 0
        for index in range(LONG_BYTES_MAX):
            if begin + index >= len(data):
                raise EOFError
            octet = data[begin + index]
            value |= (octet & 0x7F) << (7 * index)
            if octet < 0x80:
                self._position = begin + index + 1
                value &= 0xFFFF_FFFF_FFFF_FFFF
                return (value >> 1) ^ -(value & 1)
        raise EOFError
