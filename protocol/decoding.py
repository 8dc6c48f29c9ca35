"""Writes the source of a decoder: one straight line of code for one message at one version.

Fixed fields that follow one another are unpacked by one ``struct`` call straight into the object's
attributes, together with the first byte of whatever length comes after them. Nothing is believed:
a count must fit into the bytes left, at the smallest size an element can have. A slice that is too
long is caught by hand; all else that runs out of bytes raises, and is translated in one place.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

from ottla.protocol import primitives
from ottla.protocol.constructors import FRESH
from ottla.protocol.errors import RemoteProtocolError
from ottla.protocol.layout import FIXED_SIZES, default_expression, layout_of, minimum_bytes
from ottla.protocol.schema import WireType, schema_of
from ottla.protocol.source import SourceWriter

if TYPE_CHECKING:
    from ottla.protocol.layout import Layout, Slot

MALFORMED = (IndexError, struct.error, UnicodeDecodeError, RemoteProtocolError)
"""What reading past the end or garbled text raises inside a decoder, beside refusals."""

_SCOPE: dict[str, Any] = {
    "MALFORMED": MALFORMED,
    "ELEMENTS_MAX": primitives.ELEMENTS_MAX,
    "SHORT_STRING": primitives.SHORT_STRING,
    "TIMES": primitives.TIMES,
    "RemoteProtocolError": RemoteProtocolError,
    "new": object.__new__,
    "read_long_string": primitives.read_long_string,
    "read_long_uvarint": primitives.read_long_uvarint,
    "read_string": primitives.read_string,
    "read_uvarint": primitives.read_uvarint,
    "refuse": primitives.refuse,
    "skip_tags": primitives.skip_tags,
}


def decoder_source(declared: type, version: int) -> SourceWriter:
    """The page that defines ``decode(b, p) -> (message, position)``.

    ``b`` is the buffer, ``p`` the position, ``n`` the length at hand, ``left`` how many elements
    the message may still have."""
    writer = _DecoderWriter(version, schema_of(declared).flexible.holds(version))
    writer.function(declared)
    return writer.source


class _DecoderWriter:
    """One pass over the layout; every method leaves ``p`` after what it has read."""

    def __init__(self, version: int, flexible: bool) -> None:
        self.version = version
        self.flexible = flexible
        self.source = SourceWriter(dict(_SCOPE))

    def function(self, declared: type) -> None:
        source = self.source
        with source.block("def decode(b, p)"):
            source.add("end = len(b)")
            source.add("left = ELEMENTS_MAX")
            with source.block("try"):
                message = self.struct(declared)
                self.unpack()
            with source.block("except MALFORMED as error"):
                what = f"{declared.__name__} version {self.version}"
                source.add(f"why = f'{what}, near byte {{p}} of {{end}}: {{error}}'")
                source.add("raise RemoteProtocolError(why) from error")
            source.add(f"return {message}, p")

    def struct(self, declared: type) -> str:
        """Read a struct into a variable, whose name is returned."""
        source = self.source
        layout = layout_of(declared, self.version)
        made = source.fresh("m")
        source.add(f"{made} = new({source.refer(declared)})")
        for slot in (*layout.absent, *layout.tagged):
            if slot.field.default is FRESH and not slot.field.is_array:
                source.refer(slot.struct)
            source.add(f"{made}.{slot.name} = {default_expression(slot)}")
        for slot in layout.plain:
            self.field(slot, f"{made}.{slot.name}")
        if self.flexible:
            self.tags(layout, made)
        return made

    def field(self, slot: Slot, target: str) -> None:
        if slot.field.is_array:
            self.array(slot, target)
        elif slot.is_fixed:
            self.source.run.append((slot.format, target))
        elif slot.wire is None:
            self.single(slot, target)
        elif slot.wire is WireType.STRING:
            self.string(target, slot.nullable)
        else:
            self.opaque(slot, target)

    def unpack(self) -> None:
        """End the run: one call for all its fields."""
        source = self.source
        if not source.run:
            return
        formats = "".join(part for part, _ in source.run)
        targets = ", ".join(target for _, target in source.run)
        if formats == "B":
            source.add(f"{targets} = b[p]")
        else:
            many = targets if len(source.run) > 1 else f"({targets},)"
            source.add(f"{many} = {source.unpacker(formats)}(b, p)")
        source.add(f"p += {struct.calcsize('>' + formats)}")
        source.run.clear()

    def length(self, classic: str) -> None:
        """Read into ``n`` a length in its classic format, or the first byte of its compact one."""
        self.source.run.append(("B" if self.flexible else classic, "n"))
        self.unpack()

    def whole_length(self, slot: Slot, classic: str) -> str:
        """Read a length into ``n`` whatever its size; returns the condition for null."""
        source = self.source
        self.length(classic)
        if not self.flexible:
            return "n < 0"
        with source.block("if n > 127"):
            if slot.wire is WireType.RECORDS:
                self.long_length()
            else:
                source.add("n, p = read_long_uvarint(b, p, n)")
        return "n == 0"

    def long_length(self) -> None:
        """Lengths of two bytes in place: records are hardly ever shorter than one can count."""
        source = self.source
        source.add("c = b[p]")
        with source.block("if c < 128"):
            source.add("n += (c << 7) - 128")
            source.add("p += 1")
        with source.block("else"):
            source.add("n, p = read_long_uvarint(b, p, n)")

    def string(self, target: str, nullable: bool) -> None:
        source = self.source
        self.length("h")
        if self.flexible:
            short, index, size = "n < 128", "n", "n - 1"
            long = f"{target}, p = read_long_string(b, p, n)"
            null = "n == 0"
        else:
            short, index, size = "-1 <= n < 127", "n + 1", "n"
            long = f"{target}, p = read_string(b, p, n)"
            null = "n < 0"
        if nullable:
            with source.block(f"if {null}"):
                source.add(f"{target} = None")
        with source.block(f"{'elif' if nullable else 'if'} {short}"):
            source.add(f"{target} = SHORT_STRING[{index}](b, p)[0].decode()")
            source.add(f"p += {size}")
        with source.block("else"):
            source.add(long)

    def opaque(self, slot: Slot, target: str) -> None:
        """Bytes are copied out of the buffer, records stay a view of it."""
        source = self.source
        null = self.whole_length(slot, "i")
        with source.block(f"if {null}"):
            refusal = f"refuse('{slot.name} is null')"
            source.add(f"{target} = None" if slot.nullable else refusal)
        with source.block("else"):
            source.add("q = p + n - 1" if self.flexible else "q = p + n")
            with source.block("if q > end"):
                source.add(f"refuse(f'{{n}} bytes of {slot.name} in {{end - p}}')")
            source.add(
                f"{target} = {'b[p:q]' if slot.wire is WireType.RECORDS else 'bytes(b[p:q])'}"
            )
            source.add("p = q")

    def single(self, slot: Slot, target: str) -> None:
        source = self.source
        if not slot.nullable:
            source.add(f"{target} = {self.struct(slot.struct)}")
            return
        source.run.append(("b", "n"))
        self.unpack()
        with source.block("if n < 0"):
            source.add(f"{target} = None")
        with source.block("else"):
            made = self.struct(slot.struct)
            self.unpack()
            source.add(f"{target} = {made}")

    def array(self, slot: Slot, target: str) -> None:
        source = self.source
        null = self.whole_length(slot, "i")
        with source.block(f"if {null}"):
            refusal = f"refuse('{slot.name} is null')"
            source.add(f"{target} = None" if slot.nullable else refusal)
        with source.block("else"):
            if self.flexible:
                source.add("n -= 1")
            least = minimum_bytes(slot, self.version, self.flexible)
            with source.block(f"if n * {least} > end - p or n > left"):
                source.add(f"refuse(f'{{n}} elements of {slot.name} in {{end - p}} bytes')")
            source.add("left -= n")
            self.elements(slot, target)

    def elements(self, slot: Slot, target: str) -> None:
        source = self.source
        wire = slot.wire
        if wire in FIXED_SIZES and wire is not WireType.UUID:
            unpack = f"list(unpack_from(f'>{{n}}{wire.value}', b, p))"
            source.scope["unpack_from"] = struct.unpack_from
            source.add(f"q = p + n * {FIXED_SIZES[wire]}")
            source.add(f"{target} = {unpack}")
            source.add("p = q")
            return
        items = source.fresh("a")
        source.add(f"{items} = {target} = []")
        few = len(primitives.TIMES)
        with source.block(f"for _ in TIMES[n] if n < {few} else range(n)"):
            if wire is None:
                item = self.struct(slot.struct)
            else:
                item = source.fresh("v")
                self.element(wire, item)
            self.unpack()
            source.add(f"{items}.append({item})")

    def element(self, wire: WireType, target: str) -> None:
        if wire is WireType.UUID:
            self.source.run.append((wire.value, target))
        else:
            assert wire is WireType.STRING, f"no message has an array of {wire}"
            self.string(target, nullable=False)

    def tags(self, layout: Layout, made: str) -> None:
        """The section that ends every struct of a flexible version; what is unknown is skipped."""
        source = self.source
        self.length("B")
        with source.block("if n"):
            if not layout.tagged:
                source.add("p = skip_tags(b, p, n)")
                return
            with source.block("if n > 127"):
                source.add("n, p = read_long_uvarint(b, p, n)")
            with source.block("if n * 2 > end - p"):
                source.add("refuse(f'{n} tags in {end - p} bytes')")
            with source.block("for _ in range(n)"):
                self.tag(layout, made)

    def tag(self, layout: Layout, made: str) -> None:
        source = self.source
        after = source.fresh("q")
        source.add("tag, p = read_uvarint(b, p)")
        source.add("n, p = read_uvarint(b, p)")
        source.add(f"{after} = p + n")
        with source.block(f"if {after} > end"):
            source.add("refuse(f'a tag of {n} bytes in {end - p}')")
        branch = "if"
        for slot in layout.tagged:
            with source.block(f"{branch} tag == {slot.field.tag}"):
                self.field(slot, f"{made}.{slot.name}")
                self.unpack()
                with source.block(f"if p != {after}"):
                    source.add(f"refuse('{slot.name} does not fill its tag')")
            branch = "elif"
        with source.block("else"):
            source.add(f"p = {after}")
