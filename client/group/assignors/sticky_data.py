"""Reads and writes the user data of Java's sticky assignors, in all its versions. Pure.

``sticky`` stores what the member had and in which generation; before KIP-341 there was no
generation. ``cooperative-sticky`` needs only the generation, which has a field of its own since
version 2 of the subscription; librdkafka and franz-go write the form of ``sticky`` there too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.client.group.assignors.subscriptions import NO_GENERATION, by_topic, pairs
from ottla.protocol.compile import decode, encode
from ottla.protocol.consumer_protocol import OwnedPartitions
from ottla.protocol.errors import RemoteProtocolError
from ottla.protocol.schema import array, int32, message

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ottla.protocol.ids import TopicPartition

GENERATION_BYTES = 4


@message("0-1")
class Remembered:
    previous_assignment: list[OwnedPartitions] = array(OwnedPartitions)
    generation: int = int32("1+", default=-1, ignorable=True)


def encode_sticky(previous: Iterable[TopicPartition], generation: int) -> bytes:
    """Encode what the member had in that generation."""
    return encode(Remembered(by_topic(previous), generation), 1)


def decode_sticky(data: bytes) -> tuple[list[TopicPartition], int]:
    """Return what a member had, and the generation or -1. Unreadable data counts as empty."""
    for version in (1, 0):
        try:
            found = decode(Remembered, version, data)
        except RemoteProtocolError:
            continue
        return pairs(found.previous_assignment), found.generation
    return [], NO_GENERATION


def encode_generation(generation: int) -> bytes:
    """Encode the generation alone."""
    return generation.to_bytes(GENERATION_BYTES, signed=True)


def decode_generation(data: bytes) -> int:
    """Return the generation, from either form; -1 if there is none."""
    if len(data) == GENERATION_BYTES:
        return int.from_bytes(data, signed=True)
    return decode_sticky(data)[1]
