"""The default partitioner's hash, and what is stored of keys and messages."""

from __future__ import annotations

import pytest

from ottla.client.classic.plug_ins import (
    DefaultPartitioner,
    Message,
    TopicEvents,
    java_hash,
    key_bytes,
    payload_of,
    plug_in,
)


@pytest.mark.parametrize(
    ("key", "wanted"),
    [
        ("", 0),
        ("hello", 99162322),
        ("\N{GRINNING FACE}", 1772899),
        (b"", 1),
        (b"\x01\x02", 994),
        (b"\xff", 30),
        (7, 7),
        (-1, 0xFFFFFFFF),
        (2**32 + 5, 4),
    ],
)
def test_the_hash_is_javas(key: object, wanted: int) -> None:
    """A key goes where a producer of that time has put it."""
    assert java_hash(key) == wanted


def test_a_key_has_one_partition_and_no_key_any() -> None:
    """Negative hashes count, too."""
    partitioner = DefaultPartitioner()

    assert partitioner.partition("hello", 7) == 99162322 % 7
    assert 0 <= partitioner.partition(-1, 7) < 7
    assert partitioner.partition(None, 7) == 0
    with pytest.raises(TypeError, match=r"partitioner\.class"):
        partitioner.partition(object(), 7)


def test_stored_payloads_are_bytes() -> None:
    """Keys that only choose a partition are not stored, as in 0.7."""
    assert [key_bytes(one) for one in (b"k", "k", 7, None)] == [b"k", b"k", None, None]
    assert [payload_of(one) for one in (b"m", Message(b"m"), Message(None), None)] == [
        b"m",
        b"m",
        None,
        None,
    ]
    assert repr(TopicEvents("t", "k", b"one")) == "ProducerData('t', 'k', [b'one'])"
    assert plug_in("serializer.class", dict)() == {}
