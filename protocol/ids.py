"""Small values that every part of the cluster names things with.

A uuid is its 16 raw bytes everywhere inside; text is made only for people and for JSON payloads.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as Base64Error
from typing import TypeAlias

from ottla.protocol.named_tuples import NamedTuple

Uuid: TypeAlias = bytes
UUID_SIZE_BYTES = 16
ZERO_UUID: Uuid = bytes(16)
ONE_UUID: Uuid = bytes(15) + b"\x01"
"""Kafka keeps the zero id for "none" and this one for its own metadata topic."""


class TopicPartition(NamedTuple):
    """One partition of a topic.

    Attributes:
        topic: The topic's name.
        partition: The partition's number.
    """

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def uuid_to_text(uuid: Uuid) -> str:
    """The 22 characters Kafka prints: base64url without padding."""
    assert len(uuid) == UUID_SIZE_BYTES
    return urlsafe_b64encode(uuid)[:22].decode("ascii")


def uuid_from_text(text: str) -> Uuid:
    """The 16 bytes behind Kafka's 22 characters. Raises ValueError for any other text."""
    try:
        uuid = urlsafe_b64decode(text.encode("ascii") + b"==")
    except (Base64Error, UnicodeEncodeError) as error:
        raise ValueError(f"not a Kafka uuid: {text!r}") from error
    if len(uuid) != UUID_SIZE_BYTES or uuid_to_text(uuid) != text:
        raise ValueError(f"not a Kafka uuid: {text!r}")
    return uuid


def is_usable_uuid(uuid: Uuid) -> bool:
    """Whether a freshly drawn id may be given to a topic.

    The two reserved ids may not, nor one whose text starts with a dash: command lines would read
    it as an option."""
    return uuid not in (ZERO_UUID, ONE_UUID) and not uuid_to_text(uuid).startswith("-")
