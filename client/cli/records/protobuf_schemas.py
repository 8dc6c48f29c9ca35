"""Protobuf schemas of a registry: messages to JSON and back. Needs the package protobuf.

In the Confluent wire format the place of the message's type stands before the data: the index of
the type in its file, then that of a type within this one, and so on, as zigzag varints after their
count. The first type of a file is the single byte 0.
"""

from __future__ import annotations

import json
from importlib import import_module
from typing import TYPE_CHECKING, Any

from ottla.client.cli.run import CommandError, UndecodableBytes
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

FIRST = (0,)
DEPTH_MAX = 32
VARINT_BYTES_MAX = 5
WELL_KNOWN = "google/protobuf/"
# Quotes, colon, comma, and the digits of a number of a byte.
JSON_SIGNS = 8


class Indexes(NamedTuple):
    """The place of a message's type, and how many bytes say it."""

    path: tuple[int, ...]
    size_bytes: int


def read_indexes(data: bytes) -> Indexes:
    """The indexes at the beginning of the data. Raises ValueError."""
    count, position = _read_varint(data, 0)
    if count == 0:
        return Indexes(FIRST, position)
    if not 0 < count <= DEPTH_MAX:
        raise ValueError(f"{count} indexes of a message")
    path = []
    for _ in range(count):
        index, position = _read_varint(data, position)
        if index < 0:
            raise ValueError(f"a message of index {index}")
        path.append(index)
    return Indexes(tuple(path), position)


def write_indexes(path: Sequence[int]) -> bytes:
    """The indexes as they stand before the data."""
    if tuple(path) == FIRST:
        return b"\0"
    return b"".join(_varint(number) for number in (len(path), *path))


def _read_varint(data: bytes, position: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 7 * VARINT_BYTES_MAX, 7):
        if position >= len(data):
            raise ValueError("the indexes of the message are cut off")
        octet = data[position]
        position += 1
        value |= (octet & 0x7F) << shift
        if octet < 0x80:
            return (value >> 1) ^ -(value & 1), position
    raise ValueError("an index of the message is too large")


def _varint(number: int) -> bytes:
    value = number << 1
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)


class ProtobufSchema:
    """The messages of one file.

    Args:
        schema: The file's FileDescriptorProto, serialized.
        references: Those of the files that it imports, by the names in the imports, also of the
            files that these import. Well-known types need not be among them.

    Raises UndecodableBytes for files that do not fit together, and CommandError without protobuf.

    Attributes:
        weight: How many characters of JSON a byte of any data becomes at most, about: a message
            without a set field takes two bytes, and JSON has all of its fields.
    """

    def __init__(self, schema: bytes, references: Mapping[str, bytes]) -> None:
        self._format = _library("json_format")
        self._factory = _library("message_factory")
        self._pool = _library("descriptor_pool").DescriptorPool()
        proto = _library("descriptor_pb2").FileDescriptorProto
        try:
            files = {name: proto.FromString(data) for name, data in references.items()}
            self._file = proto.FromString(schema)
            self._add(self._file, files, set())
            self.weight = max(map(_widest, (self._file, *files.values())))
        except CommandError:
            raise
        except Exception as error:
            raise UndecodableBytes(f"a Protobuf schema cannot be read: {error}") from None

    def _add(self, file: Any, files: Mapping[str, Any], added: set[str]) -> None:
        for name in file.dependency:
            if name in added:
                continue
            added.add(name)
            if name in files:
                files[name].name = name
                self._add(files[name], files, added)
            elif name.startswith(WELL_KNOWN):
                module = name.removeprefix(WELL_KNOWN).removesuffix(".proto") + "_pb2"
                self._pool.AddSerializedFile(_library(module).DESCRIPTOR.serialized_pb)
            else:
                raise UndecodableBytes(
                    f"the Protobuf schema imports {name!r}, which it does not name"
                )
        self._pool.Add(file)

    def messages(self) -> Iterator[tuple[str, tuple[int, ...]]]:
        """The full name of each type, and its place."""
        waiting: list[tuple[str, Any, tuple[int, ...]]] = [
            (self._file.package, self._file.message_type, ())
        ]
        while waiting:
            prefix, messages, path = waiting.pop(0)
            for index, message in enumerate(messages):
                name = f"{prefix}.{message.name}" if prefix else message.name
                place = (*path, index)
                yield name, place
                waiting.append((name, message.nested_type, place))

    def place_of(self, name: str | None) -> tuple[int, ...]:
        """The place of the type of that name, with or without its package; the first without one.
        Raises CommandError."""
        known = dict(self.messages())
        if name is None:
            return FIRST
        full = f"{self._file.package}.{name}" if name not in known else name
        if full not in known:
            raise CommandError(f"the schema has no message {name!r}, only {', '.join(known)}")
        return known[full]

    def to_json(self, data: bytes) -> bytes:
        """The message after its indexes, as JSON with the field names of the schema. Raises any
        exception for data that is no such message."""
        path, size_bytes = read_indexes(data)
        message = self._type(path).FromString(data[size_bytes:])
        document = self._format.MessageToDict(
            message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
        )
        return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()

    def from_json(self, document: bytes, path: Sequence[int]) -> bytes:
        """The message with its indexes. Raises any exception for a document that does not fit."""
        message = self._format.Parse(document, self._type(tuple(path))())
        data: bytes = message.SerializeToString(deterministic=True)
        return write_indexes(path) + data

    def _type(self, path: tuple[int, ...]) -> Any:
        names = {place: name for name, place in self.messages()}
        if path not in names:
            raise ValueError(f"the schema has no message at {path}")
        return self._factory.GetMessageClass(self._pool.FindMessageTypeByName(names[path]))


def _widest(file: Any) -> float:
    """The characters of the names of a message with all its fields."""
    widest, pending = JSON_SIGNS, [*file.message_type]
    while pending:
        message = pending.pop()
        widest = max(widest, sum(len(field.name) + JSON_SIGNS for field in message.field))
        pending += message.nested_type
    return widest


def _library(name: str) -> Any:
    try:
        return import_module(f"google.protobuf.{name}")
    except ImportError:
        raise CommandError("Protobuf needs a package: pip install protobuf") from None
