"""Messages to test codecs with: any one by hypothesis, and two per version that show every field.

All of them carry only what their version can: fields that it lacks keep their defaults, and null
occurs only where the version allows it.
"""

from __future__ import annotations

import string
from typing import Any, NamedTuple

from hypothesis import strategies as st

from ottla.protocol.apis import API
from ottla.protocol.schema import Field, WireType, schema_of
from ottla.wire.messages import request_of, response_of

INTEGER_BITS = {
    WireType.INT8: 8,
    WireType.INT16: 16,
    WireType.INT32: 32,
    WireType.INT64: 64,
}
ELEMENTS_MAX = 3


class Case(NamedTuple):
    """One message class at one version."""

    declared: type[Any]
    version: int

    def __str__(self) -> str:
        return f"{self.declared.__name__}-v{self.version}"


def message_classes() -> list[type[Any]]:
    """Every request and response."""
    return [side for spec in API.values() for side in (request_of(spec.key), response_of(spec.key))]


def all_cases() -> list[Case]:
    """Every message at every version."""
    return [
        Case(declared, version)
        for declared in message_classes()
        for version in range(schema_of(declared).versions.last + 1)
    ]


def _primitive(wire: WireType) -> st.SearchStrategy[Any]:
    if wire in INTEGER_BITS:
        half = 1 << (INTEGER_BITS[wire] - 1)
        return st.integers(-half, half - 1)
    return {
        WireType.BOOLEAN: st.booleans(),
        WireType.UINT16: st.integers(0, 65535),
        WireType.FLOAT64: st.floats(allow_nan=False),
        WireType.UUID: st.binary(min_size=16, max_size=16),
        WireType.STRING: st.text(max_size=8) | st.just("s" * 126) | st.just("l" * 127),
        WireType.BYTES: st.binary(max_size=8) | st.just(b"b" * 127),
        WireType.RECORDS: st.binary(max_size=8) | st.just(b"r" * 300),
    }[wire]


def _values(field: Field, version: int) -> st.SearchStrategy[Any]:
    kind = field.kind
    single = _primitive(kind) if isinstance(kind, WireType) else structs(kind, version)
    values = st.lists(single, max_size=ELEMENTS_MAX) if field.is_array else single
    return st.none() | values if field.nullable.holds(version) else values


def structs(declared: type[Any], version: int) -> st.SearchStrategy[Any]:
    """Any value of a message or struct class that the version can carry."""
    present = {
        name: _values(field, version)
        for name, field in schema_of(declared).fields.items()
        if field.versions.holds(version)
    }
    return st.builds(declared, **present)


@st.composite
def messages(draw: st.DrawFn, declared: type[Any]) -> tuple[Any, int]:
    """A message of the class, with the version that can carry it."""
    version = draw(st.integers(0, schema_of(declared).versions.last))
    return draw(structs(declared, version)), version


def full_message(declared: type[Any], version: int) -> Any:
    """Every field of the version set, none to its default; texts longer than one length byte."""
    made = declared()
    for number, (name, field) in enumerate(schema_of(declared).fields.items()):
        if field.versions.holds(version):
            setattr(made, name, _full_value(field, version, number))
    return made


def _full_value(field: Field, version: int, number: int) -> Any:
    kind = field.kind
    if not isinstance(kind, WireType):
        single = full_message(kind, version)
    elif kind in INTEGER_BITS or kind is WireType.UINT16:
        single = 3 + number
    else:
        single = {
            WireType.BOOLEAN: field.default is not True,
            WireType.FLOAT64: 1.5 + number,
            WireType.UUID: bytes(range(number, number + 16)),
            WireType.STRING: string.ascii_letters * 3 + "ü",
            WireType.BYTES: bytes(range(200)),
            WireType.RECORDS: bytes(range(200)) * 2,
        }[kind]
    return [single, single] if field.is_array else single


def bare_message(declared: type[Any], version: int) -> Any:
    """Null wherever the version allows it, else empty or zero."""
    made = declared()
    for name, field in schema_of(declared).fields.items():
        if field.versions.holds(version):
            setattr(made, name, _bare_value(field, version))
    return made


def _bare_value(field: Field, version: int) -> Any:
    if field.nullable.holds(version):
        return None
    if field.is_array:
        return []
    if not isinstance(field.kind, WireType):
        return bare_message(field.kind, version)
    return {
        WireType.BOOLEAN: False,
        WireType.FLOAT64: 0.0,
        WireType.UUID: bytes(16),
        WireType.STRING: "",
        WireType.BYTES: b"",
        WireType.RECORDS: b"",
    }.get(field.kind, 0)
