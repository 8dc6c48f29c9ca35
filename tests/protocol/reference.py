"""The codec as the specification reads: field by field, slow, with no code in common with the
compiled one beyond the declarations. It exists so that the two can be compared.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

from ottla.protocol.constructors import FRESH
from ottla.protocol.errors import RemoteProtocolError
from ottla.protocol.ports import FileRegion
from ottla.protocol.schema import Field, WireType, schema_of

if TYPE_CHECKING:
    from ottla.protocol.ports import Buffer

_FIXED = {
    WireType.BOOLEAN: ">?",
    WireType.INT8: ">b",
    WireType.INT16: ">h",
    WireType.INT32: ">i",
    WireType.INT64: ">q",
    WireType.UINT16: ">H",
    WireType.FLOAT64: ">d",
    WireType.UUID: ">16s",
}
_STRING_MAX = 32767
_UINT32_MAX = 0xFFFFFFFF


def decode(declared: type, version: int, buffer: Buffer) -> Any:
    """The one message that the buffer holds. Raises RemoteProtocolError."""
    reader = _Reader(bytes(buffer), version, schema_of(declared).flexible.holds(version))
    message = reader.struct(declared)
    if reader.position != len(reader.data):
        raise RemoteProtocolError("trailing bytes")
    return message


def encode(message: object, version: int) -> bytes:
    """The bytes of a message. Raises ValueError for one that the version cannot carry."""
    writer = _Writer(version, schema_of(type(message)).flexible.holds(version))
    try:
        return writer.struct(message)
    except (struct.error, AttributeError, TypeError) as error:
        raise ValueError(str(error)) from error


def default_of(field: Field) -> object:
    """A default of its own for each call."""
    if field.default is not FRESH:
        return field.default
    if field.is_array:
        return []
    assert isinstance(field.kind, type)
    made: object = field.kind()
    return made


class _Reader:
    def __init__(self, data: bytes, version: int, flexible: bool) -> None:
        self.data = data
        self.position = 0
        self.version = version
        self.flexible = flexible

    def take(self, size: int) -> bytes:
        if size < 0 or size > len(self.data) - self.position:
            raise RemoteProtocolError("out of bytes")
        self.position += size
        return self.data[self.position - size : self.position]

    def fixed(self, wire: WireType) -> Any:
        return struct.unpack(_FIXED[wire], self.take(struct.calcsize(_FIXED[wire])))[0]

    def uvarint(self) -> int:
        value = 0
        for index in range(5):
            byte = self.take(1)[0]
            value += (byte % 128) << (7 * index)
            if byte < 128:
                break
        else:
            raise RemoteProtocolError("endless varint")
        if value > _UINT32_MAX:
            raise RemoteProtocolError("varint of more than 32 bits")
        return value

    def size(self, classic: WireType) -> int:
        """A length, -1 for null."""
        if self.flexible:
            return self.uvarint() - 1
        size: int = self.fixed(classic)
        return max(-1, size)

    def struct(self, declared: type) -> Any:
        made = declared()
        tags = {}
        for name, field in schema_of(declared).fields.items():
            if not field.versions.holds(self.version):
                continue
            if field.tag is not None:
                tags[field.tag] = name
                continue
            setattr(made, name, self.field(field))
        if self.flexible:
            for _ in range(self.uvarint()):
                tag, size = self.uvarint(), self.uvarint()
                if size > len(self.data) - self.position:
                    raise RemoteProtocolError("out of bytes")
                end = self.position + size
                if tag not in tags:
                    self.position = end
                    continue
                setattr(made, tags[tag], self.field(schema_of(declared).fields[tags[tag]]))
                if self.position != end:
                    raise RemoteProtocolError("a tag of another size")
        return made

    def field(self, field: Field) -> Any:
        nullable = field.nullable.holds(self.version)
        if not field.is_array:
            return self.value(field.kind, nullable)
        count = self.size(WireType.INT32)
        if count < 0:
            return self.null(nullable)
        if count > len(self.data) - self.position:
            raise RemoteProtocolError("more elements than bytes")
        return [self.value(field.kind, False) for _ in range(count)]

    def value(self, kind: WireType | type, nullable: bool) -> Any:
        if not isinstance(kind, WireType):
            if nullable and self.fixed(WireType.INT8) < 0:
                return None
            return self.struct(kind)
        if kind in _FIXED:
            return self.fixed(kind)
        size = self.size(WireType.INT16 if kind is WireType.STRING else WireType.INT32)
        if size < 0:
            return self.null(nullable)
        if kind is not WireType.STRING:
            return self.take(size)
        if size > _STRING_MAX:
            raise RemoteProtocolError("a string that is too long")
        try:
            return self.take(size).decode()
        except UnicodeDecodeError as error:
            raise RemoteProtocolError(str(error)) from error

    def null(self, nullable: bool) -> None:
        if not nullable:
            raise RemoteProtocolError("null where a value is required")


class _Writer:
    def __init__(self, version: int, flexible: bool) -> None:
        self.version = version
        self.flexible = flexible

    def uvarint(self, value: int) -> bytes:
        high, low = divmod(value, 128)
        return bytes([low]) if not high else bytes([low + 128]) + self.uvarint(high)

    def size(self, classic: str, size: int) -> bytes:
        return self.uvarint(size + 1) if self.flexible else struct.pack(classic, size)

    def struct(self, message: Any) -> bytes:
        plain, tagged = b"", {}
        for name, field in schema_of(type(message)).fields.items():
            value = getattr(message, name)
            is_default = value == default_of(field)
            if not field.versions.holds(self.version):
                if not is_default and not field.ignorable:
                    raise ValueError(f"{name} is lost in version {self.version}")
            elif field.tag is None:
                plain += self.field(field, value)
            elif not is_default:
                tagged[field.tag] = self.field(field, value)
        if not self.flexible:
            return plain
        plain += self.uvarint(len(tagged))
        for tag, body in sorted(tagged.items()):
            plain += self.uvarint(tag) + self.uvarint(len(body)) + body
        return plain

    def field(self, field: Field, value: Any) -> bytes:
        nullable = field.nullable.holds(self.version)
        if not field.is_array:
            return self.value(field.kind, value, nullable)
        if value is None:
            return self.null(">i", nullable)
        elements = b"".join(self.value(field.kind, element, False) for element in value)
        return self.size(">i", len(value)) + elements

    def value(self, kind: WireType | type, value: Any, nullable: bool) -> bytes:
        if not isinstance(kind, WireType):
            if not nullable:
                return self.struct(value)
            return b"\xff" if value is None else b"\x01" + self.struct(value)
        if kind in _FIXED:
            return struct.pack(_FIXED[kind], value)
        classic = ">h" if kind is WireType.STRING else ">i"
        if value is None:
            return self.null(classic, nullable)
        if isinstance(value, FileRegion):
            value = value.read()
        body = value.encode() if kind is WireType.STRING else bytes(value)
        if kind is WireType.STRING and len(body) > _STRING_MAX:
            raise ValueError("a string that is too long")
        return self.size(classic, len(body)) + body

    def null(self, classic: str, nullable: bool) -> bytes:
        if not nullable:
            raise ValueError("null where a value is required")
        return self.size(classic, -1)
