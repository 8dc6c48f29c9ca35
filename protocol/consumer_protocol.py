"""What consumers tell each other through a classic group: subscriptions and assignments.

To the broker these are opaque bytes, except where it describes a group, protects the offsets of a
subscribed topic, or takes a classic group over into the newer protocol. An int16 version comes
first; later versions only add fields at the end (KIP-429, KIP-792, KIP-881).
"""

from __future__ import annotations

from typing import Any, TypeVar

from ottla.protocol.compile import decoder, encoder
from ottla.protocol.errors import RemoteProtocolError
from ottla.protocol.schema import WireType, array, blob, int32, message, string, struct

PROTOCOL_TYPE = "consumer"
VERSION_MAX = 3

Message = TypeVar("Message")


@struct
class OwnedPartitions:
    topic: str = string()
    partitions: list[int] = array(WireType.INT32)


@message("0-3")
class ConsumerSubscription:
    """What a member wants and, from version 1 on, what it holds."""

    topics: list[str] = array(WireType.STRING)
    user_data: bytes | None = blob(nullable="0+", default=None)
    owned_partitions: list[OwnedPartitions] = array(OwnedPartitions, "1+", ignorable=True)
    generation_id: int = int32("2+", default=-1, ignorable=True)
    rack_id: str | None = string("3+", nullable="3+", default=None, ignorable=True)


@message("0-3")
class ConsumerAssignment:
    """What a member gets."""

    assigned_partitions: list[OwnedPartitions] = array(OwnedPartitions)
    user_data: bytes | None = blob(nullable="0+", default=None)


def read_subscription(data: bytes) -> tuple[ConsumerSubscription, int]:
    """The subscription and its version. Raises RemoteProtocolError.

    Some clients say a later version and end after the fields of version 0; Kafka reads them too."""
    try:
        return _read(ConsumerSubscription, data)
    except RemoteProtocolError:
        version = int.from_bytes(data[:2], signed=True)
        if version < 1:
            raise
        found, end = decoder(ConsumerSubscription, 0)(memoryview(data), 2)
        if end < len(data):
            raise
        return found, version


def read_assignment(data: bytes) -> tuple[ConsumerAssignment, int]:
    """The assignment and its version. Raises RemoteProtocolError."""
    return _read(ConsumerAssignment, data)


def write_subscription(subscription: ConsumerSubscription, version: int) -> bytes:
    """The bytes of a JoinGroup protocol's metadata."""
    return _write(subscription, version)


def write_assignment(assignment: ConsumerAssignment, version: int) -> bytes:
    """The bytes of a SyncGroup assignment."""
    return _write(assignment, version)


def _read(kind: type[Message], data: bytes) -> tuple[Message, int]:
    if len(data) < 2:
        raise RemoteProtocolError(f"{len(data)} bytes are no {kind.__name__}")
    version = int.from_bytes(data[:2], signed=True)
    if version < 0:
        raise RemoteProtocolError(f"{kind.__name__} of version {version}")
    # A version that is not known yet reads like the last one that is.
    found, _end = decoder(kind, min(version, VERSION_MAX))(memoryview(data), 2)
    return found, version


def _write(value: Any, version: int) -> bytes:
    out = bytearray(version.to_bytes(2))
    encoder(type(value), version)(value, out, [])
    return bytes(out)
