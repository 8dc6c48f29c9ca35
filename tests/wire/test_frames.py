"""Cutting bytes into frames."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.protocol.errors import RemoteProtocolError
from ottla.wire.frames import (
    SCRATCH_BYTES,
    SPARES_BYTES_MAX,
    FrameReader,
    FrameTooLarge,
    Spares,
)

LIMIT_BYTES = 1 << 20


def framed(content: bytes) -> bytes:
    """The content with its length in front."""
    return len(content).to_bytes(4) + content


def feed(reader: FrameReader, data: bytes) -> list[bytes]:
    """Give the reader the data, as much at a time as its window takes."""
    frames = []
    while data:
        window = reader.window()
        count = min(len(window), len(data))
        window[:count] = data[:count]
        frames += [bytes(frame) for frame in reader.received(count)]
        data = data[count:]
    return frames


@given(
    st.lists(st.binary(min_size=1, max_size=40), max_size=20),
    st.lists(st.integers(1, 30), min_size=1, max_size=50),
)
def test_frames_come_out_as_they_went_in_however_the_bytes_are_cut(
    contents: list[bytes], cuts: list[int]
) -> None:
    """TCP keeps the order of bytes and nothing else."""
    reader = FrameReader(LIMIT_BYTES)
    stream = b"".join(map(framed, contents))
    found = []
    position = 0
    while position < len(stream):
        step = cuts[position % len(cuts)]
        found += feed(reader, stream[position : position + step])
        position += step

    assert found == contents


def test_a_frame_larger_than_the_scratch_buffer_is_read_in_place() -> None:
    """Fetched records must not be copied once they are in memory."""
    reader = FrameReader(LIMIT_BYTES)
    content = bytes(range(256)) * (SCRATCH_BYTES // 64)

    assert feed(reader, framed(b"small") + framed(content) + framed(b"next")) == [
        b"small",
        content,
        b"next",
    ]


def test_a_frame_stays_as_it_is_while_later_ones_arrive() -> None:
    """Records are slices of their frame and are read long after the next one has come."""
    reader = FrameReader(LIMIT_BYTES)
    window = reader.window()
    window[:8] = framed(b"kept")
    (frame,) = reader.received(8)

    feed(reader, framed(b"over" * 1000))

    assert bytes(frame) == b"kept"


@pytest.mark.parametrize("size_bytes", [-1, 0, LIMIT_BYTES + 1, 0x48545450])
def test_a_length_that_cannot_be_is_refused(size_bytes: int) -> None:
    """Nothing may be allocated because a foreign peer, say a web server, claims a gigabyte."""
    reader = FrameReader(LIMIT_BYTES)
    window = reader.window()
    window[:4] = size_bytes.to_bytes(4, signed=size_bytes < 0)

    assert reader.received(4) == []
    assert isinstance(reader.breach, RemoteProtocolError)
    assert "a frame of" in str(reader.breach)


def test_what_came_before_a_frame_that_is_too_large_is_read() -> None:
    """Its own request is blamed, at once, and not the one that was answered just before."""
    reader = FrameReader(LIMIT_BYTES)
    data = framed(b"whole") + (LIMIT_BYTES + 1).to_bytes(4)
    reader.window()[: len(data)] = data

    assert [bytes(frame) for frame in reader.received(len(data))] == [b"whole"]
    assert isinstance(reader.breach, FrameTooLarge)


def test_the_largest_frame_allowed_is_read() -> None:
    """The neighbour of the refused one."""
    assert feed(FrameReader(10), framed(b"0123456789")) == [b"0123456789"]


def test_a_large_buffer_is_used_again_only_when_no_view_of_it_is_left() -> None:
    """Records that an application still holds must not change under its eyes."""
    reader = FrameReader(LIMIT_BYTES)
    size_bytes = 2 * SCRATCH_BYTES

    def receive(byte: bytes) -> memoryview:
        data = framed(byte * size_bytes)
        while True:
            window = reader.window()
            count = min(len(window), len(data))
            window[:count] = data[:count]
            window.release()
            data = data[count:]
            if frames := reader.received(count):
                (frame,) = frames
                return frame

    first = receive(b"a")
    part = first[10:20]
    first_buffer = id(first.obj)
    del first
    second = receive(b"b")
    assert id(second.obj) != first_buffer
    assert bytes(part) == b"a" * 10

    del part
    third = receive(b"c")
    assert id(third.obj) == first_buffer
    assert bytes(second) == b"b" * size_bytes
    assert bytes(third) == b"c" * size_bytes


def test_what_a_connection_keeps_is_bounded() -> None:
    """One enormous answer must not be paid for until the connection is closed."""
    spares = Spares()
    held = [spares.take(SPARES_BYTES_MAX // 8 + number) for number in range(6)]
    assert len(held) == 6
    assert spares.kept_bytes <= SPARES_BYTES_MAX

    assert len(spares.take(3 * SPARES_BYTES_MAX)) == 3 * SPARES_BYTES_MAX
    assert spares.kept_bytes == 0
