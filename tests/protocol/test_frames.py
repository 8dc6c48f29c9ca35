"""Kafka's framing: a length in front, believed only within its limit."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.protocol.errors import RemoteProtocolError
from ottla.protocol.frames import FRAME_BYTES_MAX, KafkaFraming


def test_frame_is_measured_with_its_prefix_even_before_it_has_arrived() -> None:
    """The receiver sizes its buffer by what is missing."""
    framing = KafkaFraming()
    buffer = b"xx" + framing.prefix(10) + b"abc"

    assert framing.measure(buffer, 2, len(buffer)) == 14


def test_incomplete_prefix_cannot_be_measured() -> None:
    """Three bytes of a length say nothing; stale bytes behind the end must not be read."""
    framing = KafkaFraming()
    buffer = framing.prefix(10)

    assert [framing.measure(buffer, 0, end) for end in range(5)] == [0, 0, 0, 0, 14]


@pytest.mark.parametrize(
    "first_bytes", [b"GET ", b"\x16\x03\x01\x02", b"\xff\xff\xff\xff", b"\x80\x00\x00\x00"]
)
def test_foreign_first_bytes_are_refused(first_bytes: bytes) -> None:
    """HTTP, TLS and negative lengths must cost the connection, not memory (N-01)."""
    with pytest.raises(RemoteProtocolError):
        KafkaFraming().measure(first_bytes, 0, 4)


def test_limit_is_the_last_length_accepted() -> None:
    """socket.request.max.bytes is inclusive, as in Kafka."""
    framing = KafkaFraming(1000)

    assert framing.measure(framing.prefix(1000), 0, 4) == 1004
    with pytest.raises(RemoteProtocolError):
        framing.measure(framing.prefix(1001), 0, 4)


@given(st.integers(0, FRAME_BYTES_MAX), st.integers(0, 20))
def test_prefix_is_measured_back(length: int, start: int) -> None:
    """Writer and reader of frames must agree on the prefix."""
    framing = KafkaFraming()
    buffer = bytes(start) + framing.prefix(length)

    assert framing.measure(memoryview(buffer), start, len(buffer)) == length + 4
