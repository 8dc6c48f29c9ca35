"""Serializers and deserializers: turn keys and values into bytes and back.

A serializer is any function from a value to bytes, a deserializer any function from bytes to a
value. One that needs the topic (for a schema registry) is an object whose ``for_topic`` returns
that function. A null key or value is passed to neither: it stays null, so that tombstones work.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Generic, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from typing_extensions import TypeVar

    from ottla.protocol.ports import Buffer

    # The defaults (PEP 696) make a plain ``Producer`` one of bytes. Type checkers include the
    # module; at run time it is not needed.
    SendKey = TypeVar("SendKey", default=Buffer)
    SendValue = TypeVar("SendValue", default=Buffer)
    ReadKey = TypeVar("ReadKey", default=bytes)
    ReadValue = TypeVar("ReadValue", default=bytes)
    In = TypeVar("In", contravariant=True)
    Out = TypeVar("Out", covariant=True)
    Plain = TypeVar("Plain")
else:
    from typing import TypeVar

    SendKey = TypeVar("SendKey")
    SendValue = TypeVar("SendValue")
    ReadKey = TypeVar("ReadKey")
    ReadValue = TypeVar("ReadValue")
    In = TypeVar("In", contravariant=True)
    Out = TypeVar("Out", covariant=True)
    Plain = TypeVar("Plain")


class TopicSerializer(Protocol[In]):
    """Serializes each topic in its own way; asked once for each topic."""

    def for_topic(self, topic: str) -> Callable[[In], Buffer]:
        """Return the function for the topic's keys or values.

        Args:
            topic: The topic's name.
        """
        ...


class TopicDeserializer(Protocol[Out]):
    """Deserializes each topic in its own way; asked once for each topic."""

    def for_topic(self, topic: str) -> Callable[[bytes], Out]:
        """Return the function for the topic's keys or values.

        Args:
            topic: The topic's name.
        """
        ...


if TYPE_CHECKING:
    Serializer = Callable[[Plain], Buffer] | TopicSerializer[Plain]
    Deserializer = Callable[[bytes], Plain] | TopicDeserializer[Plain]


class Serde(Generic[Plain]):
    """Both directions of one format: ``JSON.encode`` serializes and ``JSON.decode`` deserializes.

    Args:
        encode: Turns a value into bytes.
        decode: Turns bytes into a value.
    """

    __slots__ = ("decode", "encode")

    def __init__(self, encode: Callable[[Plain], bytes], decode: Callable[[bytes], Plain]) -> None:
        self.encode = encode
        self.decode = decode


def encode_text(value: str) -> bytes:
    """Encode as UTF-8, like Kafka's StringSerializer."""
    return value.encode()


def decode_text(data: bytes) -> str:
    """Decode UTF-8. Raises ValueError for invalid bytes."""
    return data.decode()


def encode_json(value: Any) -> bytes:
    """Encode as JSON in UTF-8, without spaces. Raises TypeError for values without a JSON form, and
    ValueError for NaN, which other languages do not read."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.encode()


def decode_json(data: bytes) -> Any:
    """Decode JSON. Raises ValueError."""
    return json.loads(data)


def encode_int(value: int) -> bytes:
    """Encode as eight bytes, big-endian and signed, like Kafka's LongSerializer. Raises
    OverflowError."""
    return value.to_bytes(8, "big", signed=True)


def decode_int(data: bytes) -> int:
    """Decode Kafka's Long, Integer or Short: 8, 4 or 2 bytes. Raises ValueError."""
    if len(data) not in (2, 4, 8):
        raise ValueError(f"a whole number has 8, 4 or 2 bytes, not {len(data)}")
    return int.from_bytes(data, "big", signed=True)


def encode_bytes(value: Buffer) -> bytes:
    """Return the value as bytes."""
    return bytes(value)


def decode_bytes(data: bytes) -> bytes:
    """Return the bytes unchanged."""
    return data


TEXT = Serde[str](encode_text, decode_text)
JSON = Serde[Any](encode_json, decode_json)
INT = Serde[int](encode_int, decode_int)
BYTES = Serde[bytes](encode_bytes, decode_bytes)


class PerTopic:
    """A serializer or deserializer, with its function for each topic."""

    __slots__ = ("_functions", "_given")

    def __init__(self, given: Any) -> None:
        self._given = given
        self._functions: dict[str, Callable[[Any], Any]] = {}

    def __call__(self, topic: str, value: Any) -> Any:
        """Convert a value; None stays None."""
        if value is None:
            return None
        function = self._functions.get(topic)
        if function is None:
            for_topic = getattr(self._given, "for_topic", None)
            function = self._given if for_topic is None else for_topic(topic)
            self._functions[topic] = function
        return function(value)
