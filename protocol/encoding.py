"""Writes the source of an encoder: the mirror image of the decoder of the same message.

Fixed fields that follow one another are packed by one ``struct`` call. Records that are still in
their file are not read: the encoder writes their length and notes their position for the
connection, which sends the parts.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

from ottla.protocol import primitives
from ottla.protocol.layout import FIXED_SIZES, differs_from_default, layout_of
from ottla.protocol.ports import FileRegion
from ottla.protocol.schema import WireType, schema_of
from ottla.protocol.source import SourceWriter

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.protocol.layout import Layout, Slot

UNFIT = (AttributeError, TypeError, OverflowError, struct.error)
"""What a value that its field cannot carry raises inside an encoder."""


class EncodedItems(list[Any]):
    """An array of structs whose elements are bytes that ``compile.item_encoder`` has written, in
    the version in which the array will be."""

    __slots__ = ()


_SCOPE: dict[str, Any] = {
    "EncodedItems": EncodedItems,
    "FileRegion": FileRegion,
    "UNFIT": UNFIT,
    "pack": struct.pack,
    "write_string_size": primitives.write_string_size,
    "write_uvarint": primitives.write_uvarint,
}


def encoder_source(declared: type, version: int, item: type | None = None) -> SourceWriter:
    """The page that defines ``encode(m, out, regions)``, of a message or of an item in it."""
    writer = _EncoderWriter(version, schema_of(declared).flexible.holds(version))
    writer.function(item or declared)
    return writer.source


class _EncoderWriter:
    """One pass over the layout; every method appends to ``out``."""

    def __init__(self, version: int, flexible: bool) -> None:
        self.version = version
        self.flexible = flexible
        self.source = SourceWriter(dict(_SCOPE))

    def function(self, declared: type) -> None:
        source = self.source
        with source.block("def encode(m, out, regions)"):
            with source.block("try"):
                self.struct(declared, "m")
                self.pack()
                source.add("return")
            with source.block("except UNFIT as error"):
                what = f"not a {declared.__name__} of version {self.version}"
                source.add(f"raise ValueError(f'{what}: {{error}}') from error")

    def struct(self, declared: type, value: str) -> None:
        source = self.source
        layout = layout_of(declared, self.version)
        for slot in layout.absent:
            if not slot.field.ignorable:
                source.add(f"if {differs_from_default(slot, f'{value}.{slot.name}')}:")
                why = f"{declared.__name__}.{slot.name} is lost in version {self.version}"
                source.add(f"    raise ValueError('{why}')")
        for slot in layout.plain:
            self.field(slot, f"{value}.{slot.name}")
        if self.flexible:
            self.tags(layout, value)

    def field(self, slot: Slot, value: str) -> None:
        if slot.is_fixed:
            self.source.run.append((slot.format, value))
        elif slot.field.is_array:
            self.nullable(slot, value, "i", self.array)
        elif slot.wire is None:
            self.single(slot, value)
        elif slot.wire is WireType.STRING:
            self.nullable(slot, value, "h", self.string)
        elif slot.wire is WireType.RECORDS:
            self.nullable(slot, value, "i", self.records)
        else:
            self.nullable(slot, value, "i", self.opaque)

    def pack(self) -> None:
        """End the run: one call for all its fields. A pad byte has no value."""
        source = self.source
        if not source.run:
            return
        formats = "".join(part for part, _ in source.run)
        values = ", ".join(value for _, value in source.run if value)
        if formats == "B":
            source.add(f"out.append({values})")
        elif formats == "x":
            source.add("out.append(0)")
        else:
            source.add(f"out += {source.packer(formats)}({values})")
        source.run.clear()

    def nullable(
        self, slot: Slot, value: str, classic: str, write: Callable[[Slot, str], None]
    ) -> None:
        """Write a value that has a length, or null where the version allows it."""
        source = self.source
        held = source.fresh("v")
        source.add(f"{held} = {value}")
        if not slot.nullable:
            write(slot, held)
            return
        before = list(source.run)
        source.run.clear()
        with source.block(f"if {held} is None"):
            source.run = [*before, ("x", "") if self.flexible else (classic, "-1")]
            self.pack()
        with source.block("else"):
            source.run = before
            write(slot, held)

    def length(self, size: str, classic: str, long: str = "write_uvarint(out, n)") -> None:
        """End the run with a length: in its classic format, or in one byte if it fits."""
        source = self.source
        if not self.flexible:
            source.run.append((classic, size))
            self.pack()
            return
        source.add(f"n = {size} + 1")
        before = list(source.run)
        self.branch("if n < 128", [*before, ("B", "n")])
        self.branch("else", before)
        source.add(f"    {long}")

    def records_length(self) -> None:
        """The same with two and three bytes in place: records are hardly ever shorter."""
        if not self.flexible:
            self.length("size", "i")
            return
        self.source.add("n = size + 1")
        before = list(self.source.run)
        low, middle = ("B", "n & 127 | 128"), ("B", "n >> 7 & 127 | 128")
        self.branch("if n < 128", [*before, ("B", "n")])
        self.branch("elif n < 16384", [*before, low, ("B", "n >> 7")])
        self.branch("elif n < 2097152", [*before, low, middle, ("B", "n >> 14")])
        self.branch("else", before)
        self.source.add("    write_uvarint(out, n)")

    def branch(self, header: str, run: list[tuple[str, str]]) -> None:
        """A branch that packs just this run."""
        self.source.run.clear()
        with self.source.block(header):
            self.source.run = run
            self.pack()

    def string(self, slot: Slot, value: str) -> None:
        self.source.add(f"s = {value}.encode()")
        self.length("len(s)", "h", "write_string_size(out, n - 1)")
        self.source.add("out += s")

    def opaque(self, slot: Slot, value: str) -> None:
        self.length(f"len({value})", "i")
        self.source.add(f"out += {value}")

    def records(self, slot: Slot, value: str) -> None:
        """In memory they are copied like bytes; in a file only their place is noted."""
        source = self.source
        in_file = source.fresh("f")
        source.add(f"{in_file} = {value}.__class__ is FileRegion")
        source.add(f"size = {value}.size_bytes if {in_file} else len({value})")
        self.records_length()
        with source.block(f"if {in_file}"):
            source.add(f"regions.append((len(out), {value}))")
        with source.block("else"):
            source.add(f"out += {value}")

    def single(self, slot: Slot, value: str) -> None:
        source = self.source
        held = source.fresh("v")
        source.add(f"{held} = {value}")
        if not slot.nullable:
            self.struct(slot.struct, held)
            return
        self.pack()
        with source.block(f"if {held} is None"):
            source.add("out.append(255)")
        with source.block("else"):
            source.add("out.append(1)")
            self.struct(slot.struct, held)
            self.pack()

    def array(self, slot: Slot, value: str) -> None:
        source = self.source
        self.length(f"len({value})", "i")
        wire = slot.wire
        if wire in FIXED_SIZES and wire is not WireType.UUID:
            source.add(f"out += pack(f'>{{len({value})}}{wire.value}', *{value})")
            return
        item = source.fresh("e")
        if wire is None and slot.field.kept:
            source.add(f"if {value}.__class__ is EncodedItems:")
            source.add(f"    out += b''.join({value})")
            source.add(f"    {value} = ()")
        with source.block(f"for {item} in {value}"):
            if wire is None:
                self.struct(slot.struct, item)
            elif wire is WireType.UUID:
                source.run.append((wire.value, item))
            else:
                assert wire is WireType.STRING, f"no message has an array of {wire}"
                self.string(slot, item)
            self.pack()

    def tags(self, layout: Layout, value: str) -> None:
        """Tagged fields are written only where they differ from their defaults."""
        source = self.source
        if not layout.tagged:
            source.run.append(("x", ""))
            return
        present = {slot.name: source.fresh("t") for slot in layout.tagged}
        for slot in layout.tagged:
            condition = differs_from_default(slot, f"{value}.{slot.name}")
            source.add(f"{present[slot.name]} = {condition}")
        source.run.append(("B", " + ".join(present.values())))
        self.pack()
        for slot in layout.tagged:
            with source.block(f"if {present[slot.name]}"):
                self.tag(slot, f"{value}.{slot.name}")

    def tag(self, slot: Slot, value: str) -> None:
        source = self.source
        assert slot.wire is not WireType.RECORDS, (
            "a region inside a tag would be noted at a wrong place"
        )
        whole = source.fresh("out")
        source.add(f"{whole} = out")
        source.add("out = bytearray()")
        self.field(slot, value)
        self.pack()
        source.add(f"write_uvarint({whole}, {slot.field.tag})")
        source.add(f"write_uvarint({whole}, len(out))")
        source.add(f"{whole} += out")
        source.add(f"out = {whole}")
