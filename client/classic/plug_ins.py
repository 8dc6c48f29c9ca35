"""Extension points of the classic producer: encoders, partitioners and handlers. Pure.

Each class is named in a setting, as a class, as the dotted path of one, or by the name that the
documents give the default. It is created without arguments.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ottla.protocol.ports import Random

_MASK = 0xFFFFFFFF


class TopicEvents:
    """What a producer sends to one topic; the documents' ProducerData and KeyedMessage.

    Attributes:
        topic: The topic's name.
        key: Decides the partition; None (default) for any partition.
        data: The objects to send, which the encoder turns into messages.
    """

    __slots__ = ("data", "key", "topic")

    def __init__(self, topic: str, key: object = None, data: object = ()) -> None:
        self.topic = topic
        self.key = key
        # A single object counts as a list of one.
        self.data: list[object] = list(data) if isinstance(data, list | tuple) else [data]

    def __repr__(self) -> str:
        return f"ProducerData({self.topic!r}, {self.key!r}, {self.data!r})"


class Message(NamedTuple):
    """What an encoder makes of an object.

    Attributes:
        payload: The bytes that are stored; None for a tombstone.
    """

    payload: bytes | None


class QueueItem(NamedTuple):
    """One object in the producer's queue, as handlers see it.

    Attributes:
        data: The object.
        topic: Its topic.
        key: Its key.
    """

    data: object
    topic: str
    key: object = None


class DefaultEncoder:
    """Returns bytes and ``Message`` objects unchanged; the base class of other encoders."""

    def to_message(self, data: Any) -> Message | bytes | None:
        """Turn an object of the application into a message.

        Args:
            data: The object.

        Returns:
            The message, or its bytes.
        """
        message: Message | bytes | None = data
        return message

    def toMessage(self, data: Any) -> Message | bytes | None:  # noqa: N802
        """The documents' name of ``to_message``.

        Args:
            data: The object.

        Returns:
            The message, or its bytes.
        """
        return self.to_message(data)


class StringEncoder(DefaultEncoder):
    """Writes texts as UTF-8."""

    def to_message(self, data: Any) -> Message | bytes | None:
        """Turn a text into a message.

        Args:
            data: The text.

        Returns:
            Its bytes.
        """
        return str(data).encode()


class DefaultPartitioner:
    """``hash(key) % num_partitions`` with Java's hash; a random partition without a key."""

    def __init__(self, random: Random | None = None) -> None:
        self._random = random

    def partition(self, key: Any, num_partitions: int) -> int:
        """Choose a partition.

        Args:
            key: A text, bytes, a number, or None.
            num_partitions: How many there are.

        Returns:
            An index in the sorted list of (broker id, partition), from 0.
        """
        if key is None:
            return 0 if self._random is None else self._random.below(num_partitions)
        return (java_hash(key) & 0x7FFFFFFF) % num_partitions


def java_hash(key: object) -> int:
    """``hashCode`` of a String, an Integer, a Long, or of an array of bytes. Raises TypeError."""
    if isinstance(key, str):
        units = key.encode("utf-16-be")
        values = [int.from_bytes(units[at : at + 2], "big") for at in range(0, len(units), 2)]
        start = 0
    elif isinstance(key, bytes):
        values = [byte - 256 if byte > 127 else byte for byte in key]
        start = 1
    elif isinstance(key, int):
        long = key & 0xFFFFFFFFFFFFFFFF
        return key & _MASK if -(2**31) <= key < 2**31 else (long ^ (long >> 32)) & _MASK
    else:
        raise TypeError(
            f"the default partitioner takes texts, bytes and whole numbers as keys, not {key!r}: "
            "name another class in partitioner.class"
        )
    found = start
    for value in values:
        found = (31 * found + value) & _MASK
    return found


class CallbackHandler:
    """Observes the queue of an asynchronous producer, and may alter what it sends.

    A subclass overrides what it needs; by default nothing is altered."""

    def init(self, properties: Mapping[str, object]) -> None:
        """Begin.

        Args:
            properties: The producer's settings.
        """

    def before_enqueue(self, item: QueueItem) -> QueueItem:
        """See an event before it is queued.

        Args:
            item: The event.

        Returns:
            The event to queue.
        """
        return item

    def after_enqueue(self, item: QueueItem, added: bool) -> None:
        """See an event after it was queued.

        Args:
            item: The event.
            added: False if the queue was full.
        """

    def after_dequeuing_existing_data(self, item: QueueItem | None) -> list[QueueItem]:
        """See an event that was taken from the queue.

        Args:
            item: The event; None if the time of the queue is over.

        Returns:
            The events to send for it.
        """
        return [] if item is None else [item]

    def before_sending_data(self, items: list[QueueItem]) -> list[QueueItem]:
        """See a batch before it is sent.

        Args:
            items: The events.

        Returns:
            The events to send.
        """
        return items

    def last_batch_before_close(self) -> list[QueueItem]:
        """Add events when the producer closes.

        Returns:
            The events to send last.
        """
        return []

    def close(self) -> None:
        """End."""


class EventHandler:
    """Encodes and sends a batch; a subclass replaces that."""

    def init(self, properties: Mapping[str, object]) -> None:
        """Begin.

        Args:
            properties: The producer's settings.
        """

    def handle(
        self,
        items: Sequence[QueueItem],
        send: Callable[[Sequence[QueueItem]], None],
        encoder: Any,
    ) -> None:
        """Send a batch.

        Args:
            items: The events, with the objects of the application.
            send: Sends events whose data are messages or bytes, and waits for the answers.
            encoder: The encoder of ``serializer.class``.
        """
        encode = getattr(encoder, "to_message", None) or encoder.toMessage
        send([item._replace(data=encode(item.data)) for item in items])

    def close(self) -> None:
        """End."""


DOCUMENTED = {
    "kafka.serializer.DefaultEncoder": DefaultEncoder,
    "kafka.serializer.StringEncoder": StringEncoder,
    "kafka.producer.DefaultPartitioner": DefaultPartitioner,
    "kafka.producer.async.DefaultEventHandler": EventHandler,
    "kafka.producer.async.EventHandler": EventHandler,
}


def plug_in(name: str, value: object) -> Callable[[], Any]:
    """Return the class that a setting names. Raises ValueError."""
    if callable(value):
        return value
    if isinstance(value, str) and value in DOCUMENTED:
        return DOCUMENTED[value]
    module, dot, attribute = str(value).rpartition(".")
    try:
        if not dot:
            raise ImportError("it has no module")
        found: Callable[[], Any] = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise ValueError(f"{name}: there is no class {value!r}: {error}") from None
    return found


def payload_of(message: object) -> bytes | None:
    """Return the bytes of an encoded object. Raises TypeError."""
    payload = message.payload if isinstance(message, Message) else message
    if payload is not None and not isinstance(payload, bytes):
        raise TypeError(
            f"an encoder makes bytes or a Message, not {payload!r}: name one in serializer.class"
        )
    return payload


def key_bytes(key: object) -> bytes | None:
    """Return the stored key: bytes and texts are stored; other keys only choose a partition."""
    if isinstance(key, str):
        return key.encode()
    return key if isinstance(key, bytes) else None
