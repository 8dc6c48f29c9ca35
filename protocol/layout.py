"""A declaration at one version: which fields are there, in which order, and how small they can be.

The compiled codecs are written from this. The reference codec does not use it, so that a mistake
made here shows as a difference between the two.
"""

from __future__ import annotations

from functools import cache

from ottla.protocol.constructors import FRESH
from ottla.protocol.data_classes import dataclass
from ottla.protocol.schema import Field, WireType, schema_of

FIXED_SIZES = {
    WireType.BOOLEAN: 1,
    WireType.INT8: 1,
    WireType.INT16: 2,
    WireType.INT32: 4,
    WireType.INT64: 8,
    WireType.UINT16: 2,
    WireType.FLOAT64: 8,
    WireType.UUID: 16,
}


@dataclass(frozen=True, slots=True)
class Slot:
    """One field at one version."""

    name: str
    field: Field
    nullable: bool

    @property
    def wire(self) -> WireType | None:
        """The primitive type of the field or its elements; None for structs."""
        return self.field.kind if isinstance(self.field.kind, WireType) else None

    @property
    def struct(self) -> type:
        assert isinstance(self.field.kind, type)
        return self.field.kind

    @property
    def is_fixed(self) -> bool:
        """Whether the value lies there plainly, in a size known from the type."""
        return not self.field.is_array and self.wire in FIXED_SIZES

    @property
    def format(self) -> str:
        """The ``struct`` format of a fixed type."""
        assert self.wire in FIXED_SIZES
        return self.wire.value


@dataclass(frozen=True, slots=True)
class Layout:
    """A message or struct at one version."""

    declared: type
    plain: tuple[Slot, ...]
    tagged: tuple[Slot, ...]
    absent: tuple[Slot, ...]


@cache
def layout_of(declared: type, version: int) -> Layout:
    """Sort the fields of a declaration by what the version makes of them."""
    plain, tagged, absent = [], [], []
    for name, field in schema_of(declared).fields.items():
        slot = Slot(name, field, field.nullable.holds(version))
        if not field.versions.holds(version):
            absent.append(slot)
        elif field.tag is None:
            plain.append(slot)
        else:
            tagged.append(slot)
    tagged.sort(key=lambda slot: slot.field.tag or 0)
    return Layout(declared, tuple(plain), tuple(tagged), tuple(absent))


def minimum_bytes(slot: Slot, version: int, flexible: bool) -> int:
    """The fewest bytes that one element of an array can take; at least one."""
    wire = slot.wire
    if wire in FIXED_SIZES:
        return FIXED_SIZES[wire]
    if wire is not None:
        return 1 if flexible else 2 if wire is WireType.STRING else 4
    size = 1 if flexible else 0
    for part in layout_of(slot.struct, version).plain:
        if part.field.is_array:
            size += 1 if flexible else 4
        elif part.wire is None and part.nullable:
            size += 1
        else:
            size += minimum_bytes(part, version, flexible)
    assert size, f"an element of {slot.name} may be empty, so its count cannot be bounded"
    return size


def default_expression(slot: Slot) -> str:
    """Source for the default of a field; a struct class is named after itself."""
    if slot.field.default is not FRESH:
        return repr(slot.field.default)
    return "[]" if slot.field.is_array else f"{slot.struct.__name__}()"


def differs_from_default(slot: Slot, value: str) -> str:
    """Source for a condition: the value is not the default, compared field by field."""
    if slot.field.default is not FRESH:
        default = slot.field.default
        if default is None:
            return f"{value} is not None"
        return f"{value} != {default!r}"
    if slot.field.is_array:
        return f"{value} != []"
    parts = schema_of(slot.struct).fields
    conditions = [
        differs_from_default(Slot(name, field, False), f"{value}.{name}")
        for name, field in parts.items()
    ]
    return f"({' or '.join(conditions)})"
