"""How the application's own keys and values become bytes, and bytes become those again.

A serializer is any function from a value to bytes, a deserializer any function from bytes to a
value; whoever needs to know the topic (a schema registry does) gives an object whose ``for_topic``
returns that function. A null key or value is never passed to either: it stays null, which is what
makes a tombstone.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Generic, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from typing_extensions import TypeVar

    from ottla.protocol.ports import Buffer

    # Defaults (PEP 696) make ``Producer`` without more mean one of bytes. The type checkers bring
    # that module along; nothing of it is needed when the program runs.
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
    """Serializes each topic in its own way; asked once for each."""

    def for_topic(self, topic: str) -> Callable[[In], Buffer]:
        """The function for that topic's keys or values."""
        ...


class TopicDeserializer(Protocol[Out]):
    """Deserializes each topic in its own way; asked once for each."""

    def for_topic(self, topic: str) -> Callable[[bytes], Out]:
        """The function for that topic's keys or values."""
        ...


if TYPE_CHECKING:
    Serializer = Callable[[Plain], Buffer] | TopicSerializer[Plain]
    Deserializer = Callable[[bytes], Plain] | TopicDeserializer[Plain]


class Serde(Generic[Plain]):
    """Both directions of one form: ``JSON.encode`` serializes and ``JSON.decode`` brings back."""

    __slots__ = ("decode", "encode")

    def __init__(self, encode: Callable[[Plain], bytes], decode: Callable[[bytes], Plain]) -> None:
        self.encode = encode
        self.decode = decode


def encode_text(value: str) -> bytes:
    """UTF-8, as Kafka's StringSerializer."""
    return value.encode()


def decode_text(data: bytes) -> str:
    """UTF-8. Raises ValueError for anything else."""
    return data.decode()


def encode_json(value: Any) -> bytes:
    """JSON without spaces, in UTF-8. Raises TypeError for what JSON has no form for, and
    ValueError for what no other language would read (NaN)."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.encode()


def decode_json(data: bytes) -> Any:
    """What the JSON says. Raises ValueError."""
    return json.loads(data)


def encode_int(value: int) -> bytes:
    """Eight bytes, big-endian and signed, as Kafka's LongSerializer. Raises OverflowError."""
    return value.to_bytes(8, "big", signed=True)


def decode_int(data: bytes) -> int:
    """A Long, an Integer or a Short of Kafka's: 8, 4 or 2 bytes. Raises ValueError."""
    if len(data) not in (2, 4, 8):
        raise ValueError(f"a whole number has 8, 4 or 2 bytes, not {len(data)}")
    return int.from_bytes(data, "big", signed=True)


def encode_bytes(value: Buffer) -> bytes:
    """The bytes themselves."""
    return bytes(value)


def decode_bytes(data: bytes) -> bytes:
    """The bytes themselves."""
    return data


TEXT = Serde[str](encode_text, decode_text)
JSON = Serde[Any](encode_json, decode_json)
INT = Serde[int](encode_int, decode_int)
BYTES = Serde[bytes](encode_bytes, decode_bytes)


class PerTopic:
    """A serializer or deserializer, as the function for each topic."""

    __slots__ = ("_functions", "_given")

    def __init__(self, given: Any) -> None:
        self._given = given
        self._functions: dict[str, Callable[[Any], Any]] = {}

    def __call__(self, topic: str, value: Any) -> Any:
        """The value translated; null stays null."""
        if value is None:
            return None
        function = self._functions.get(topic)
        if function is None:
            for_topic = getattr(self._given, "for_topic", None)
            function = self._given if for_topic is None else for_topic(topic)
            self._functions[topic] = function
        return function(value)
