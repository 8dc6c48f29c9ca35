"""How a message declares its fields: wire type, versions, nullability, tag and default.

A declaration is a class under ``@message`` or ``@struct`` whose attributes call the specifiers
below; the decorator turns it into a slotted class with every field defaulted. Version ranges are
written as in Kafka's own descriptions: ``"3+"``, ``"0-7"``, ``"2"``. What the bytes look like
follows from here alone: ``compile.py`` builds the fast codec from it. The tests compare
that codec with a plain one, ``tests/protocol/reference.py``.
"""

from __future__ import annotations

from enum import Enum
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, dataclass_transform

from ottla.protocol.constructors import FRESH, AtFirstUse, constructor
from ottla.protocol.data_classes import dataclass
from ottla.protocol.ids import ZERO_UUID
from ottla.protocol.named_tuples import NamedTuple
from ottla.protocol.ports import Buffer, FileRegion

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

Records: TypeAlias = Buffer | FileRegion
"""Record batches as they lie in memory, or still in their file."""

EVERY_VERSION = 1 << 15


class WireType(Enum):
    """The primitive types; the value of a fixed one is its ``struct`` format."""

    BOOLEAN = "?"
    INT8 = "b"
    INT16 = "h"
    INT32 = "i"
    INT64 = "q"
    UINT16 = "H"
    FLOAT64 = "d"
    UUID = "16s"
    STRING = "string"
    BYTES = "bytes"
    RECORDS = "records"


VARIABLE = frozenset({WireType.STRING, WireType.BYTES, WireType.RECORDS})


class Versions(NamedTuple):
    """A closed range of versions; empty when ``first > last``."""

    first: int
    last: int

    def holds(self, version: int) -> bool:
        return self.first <= version <= self.last


NO_VERSION = Versions(1, 0)


@cache
def versions_of(text: str) -> Versions:
    """Read ``"3+"``, ``"0-7"`` or ``"2"``."""
    first, dash, last = text.partition("-")
    if dash:
        return Versions(int(first), int(last))
    if text.endswith("+"):
        return Versions(int(text[:-1]), EVERY_VERSION)
    return Versions(int(text), int(text))


@dataclass(frozen=True, slots=True)
class Field:
    """One field. ``kind`` is a primitive or a struct class, of which it may hold an array.

    A field with a tag is written in the tag section, and only when it differs from its default.
    ``ignorable``: a value may be dropped silently for a version that lacks the field. ``kept``: the
    array may be one of elements that were encoded before (``encoding.EncodedItems``)."""

    kind: WireType | type
    is_array: bool
    versions: Versions
    nullable: Versions
    tag: int | None
    default: object
    ignorable: bool
    kept: bool = False


@dataclass(frozen=True, slots=True)
class Schema:
    """What a decorated class was declared as; a struct has no versions of its own."""

    name: str
    fields: dict[str, Field]
    versions: Versions
    flexible: Versions


def _field(
    kind: WireType | type,
    versions: str,
    default: object,
    options: dict[str, Any],
    is_array: bool = False,
) -> Any:
    nullable = options.pop("nullable", None)
    field = Field(
        kind,
        is_array,
        versions_of(versions),
        versions_of(nullable) if nullable else NO_VERSION,
        options.pop("tag", None),
        options.pop("default", default),
        options.pop("ignorable", False),
        options.pop("kept", False),
    )
    assert not options, f"unknown options {sorted(options)}"
    return field


def boolean(versions: str = "0+", **options: Any) -> Any:
    return _field(WireType.BOOLEAN, versions, False, options)


def int8(versions: str = "0+", **options: Any) -> Any:
    return _field(WireType.INT8, versions, 0, options)


def int16(versions: str = "0+", **options: Any) -> Any:
    return _field(WireType.INT16, versions, 0, options)


def int32(versions: str = "0+", **options: Any) -> Any:
    return _field(WireType.INT32, versions, 0, options)


def int64(versions: str = "0+", **options: Any) -> Any:
    return _field(WireType.INT64, versions, 0, options)


def uint16(versions: str = "0+", **options: Any) -> Any:
    return _field(WireType.UINT16, versions, 0, options)


def float64(versions: str = "0+", **options: Any) -> Any:
    return _field(WireType.FLOAT64, versions, 0.0, options)


def uuid(versions: str = "0+", **options: Any) -> Any:
    return _field(WireType.UUID, versions, ZERO_UUID, options)


def string(versions: str = "0+", **options: Any) -> Any:
    return _field(WireType.STRING, versions, "", options)


def blob(versions: str = "0+", **options: Any) -> Any:
    """Kafka's ``bytes``."""
    return _field(WireType.BYTES, versions, b"", options)


def record_set(versions: str = "0+", **options: Any) -> Any:
    """Kafka's ``records``: bytes that are never copied on their way."""
    return _field(WireType.RECORDS, versions, None, options)


def array(element: WireType | type, versions: str = "0+", **options: Any) -> Any:
    return _field(element, versions, FRESH, options, is_array=True)


def one(element: type, versions: str = "0+", **options: Any) -> Any:
    """A single struct in place."""
    return _field(element, versions, FRESH, options)


@dataclass_transform()
def struct(declaration: type[T]) -> type[T]:
    """A part of messages; its versions are those of the message it stands in."""
    return _slotted(declaration, NO_VERSION, NO_VERSION)


@dataclass_transform()
def message(versions: str, *, flexible: str | None = None) -> Callable[[type[T]], type[T]]:
    """A request or response with the versions it has, and those with compact forms and tags."""

    def decorate(declaration: type[T]) -> type[T]:
        compact = versions_of(flexible) if flexible else NO_VERSION
        return _slotted(declaration, versions_of(versions), compact)

    return decorate


def schema_of(declared: type) -> Schema:
    """The declaration behind a message or struct class."""
    schema = declared.__schema__  # type: ignore[attr-defined]
    assert isinstance(schema, Schema)
    return schema


def _slotted(declaration: type[T], versions: Versions, flexible: Versions) -> type[T]:
    owner, body = declaration.__qualname__, vars(declaration)
    fields = {name: value for name, value in body.items() if isinstance(value, Field)}
    namespace = {
        name: value
        for name, value in body.items()
        if name not in fields and name not in ("__dict__", "__weakref__")
    }
    namespace["__qualname__"] = owner
    namespace["__slots__"] = namespace["__match_args__"] = tuple(fields)
    namespace["__schema__"] = Schema(declaration.__name__, fields, versions, flexible)
    # Of the messages in a file most programs make few.
    namespace["__init__"] = AtFirstUse(lambda _name: _constructor(owner, fields))
    namespace["__eq__"] = _equal
    namespace["__hash__"] = None
    namespace["__repr__"] = _represent
    slotted: type[T] = type(declaration.__name__, declaration.__bases__, namespace)
    return slotted


def _constructor(owner: str, fields: dict[str, Field]) -> Callable[..., None]:
    """``__init__`` as one would write it by hand: each field a parameter with its default."""
    defaults = {name: field.default for name, field in fields.items()}
    factories: dict[str, Any] = {
        name: list if field.is_array else field.kind
        for name, field in fields.items()
        if field.default is FRESH
    }
    return constructor(owner, tuple(fields), defaults, factories)


def _equal(self: object, other: object) -> bool:
    return type(self) is type(other) and all(
        getattr(self, name) == getattr(other, name) for name in schema_of(type(self)).fields
    )


# Fields that hold passwords, or what serves as one: no log or traceback shows them.
_SECRET = frozenset({"auth_bytes", "hmac", "salted_password"})


def _represent(self: object) -> str:
    values = (
        f"{name}=***" if name in _SECRET else f"{name}={getattr(self, name)!r}"
        for name in schema_of(type(self)).fields
    )
    return f"{type(self).__name__}({', '.join(values)})"
