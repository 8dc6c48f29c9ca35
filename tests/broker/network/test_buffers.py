"""Receive buffers: what is granted, moved, grown and given back."""

from __future__ import annotations

from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.broker.network.buffers import (
    GROW_AT_BYTES,
    LARGE_BYTES,
    SMALL_BYTES,
    STEP_BYTES,
    BufferPool,
    ByteBudget,
    ReceiveBuffer,
)
from ottla.protocol.frames import KafkaFraming

MIB = 1024 * 1024


class Source:
    """A stream that gives at most so much at a time."""

    def __init__(self, content: bytes, pieces: list[int]) -> None:
        self.content = memoryview(content)
        self.pieces = deque(pieces)
        self.counts: list[int] = []

    def recv_into(self, buffer: memoryview) -> int:
        count = min(len(buffer), len(self.content), self.pieces.popleft() if self.pieces else MIB)
        buffer[:count] = self.content[:count]
        self.content = self.content[count:]
        self.counts.append(count)
        return count


class Waiter:
    def __init__(self) -> None:
        self.call_count = 0

    def on_budget(self) -> None:
        self.call_count += 1


def receive_all(intake: ReceiveBuffer, source: Source) -> list[bytes]:
    """Every frame of the source, as a connection would take them."""
    framing = KafkaFraming()
    frames = []
    while source.content:
        intake.receive(source)
        assert intake.view is not None
        while True:
            size = framing.measure(intake.view, intake.start, intake.end)
            if not size or intake.start + size > intake.end:
                break
            frames.append(bytes(intake.view[intake.start + 4 : intake.start + size]))
            intake.start += size
        assert intake.make_room(size)
    return frames


@given(
    st.lists(
        st.one_of(st.integers(0, 300), st.integers(60_000, 70_000), st.integers(0, 3 * MIB)),
        max_size=6,
    ),
    st.lists(st.integers(1, 100_000), max_size=30),
)
def test_frames_come_out_as_they_went_in(sizes: list[int], pieces: list[int]) -> None:
    """Whatever the pieces, compaction and growth must neither lose nor repeat a byte."""
    budget = ByteBudget(512 * MIB)
    intake = ReceiveBuffer(Waiter(), BufferPool(), budget)
    frames = [bytes([number + 1]) * size for number, size in enumerate(sizes)]
    stream = b"".join(len(frame).to_bytes(4, "big") + frame for frame in frames)

    assert receive_all(intake, Source(stream, pieces)) == frames
    assert intake.view is None
    assert budget.used_bytes == 0


def test_announced_length_alone_allocates_nothing() -> None:
    """A four-byte claim of 100 MiB must cost what four bytes cost (N-01)."""
    budget = ByteBudget(512 * MIB)
    intake = ReceiveBuffer(Waiter(), BufferPool(), budget)
    intake.receive(Source((100 * MIB).to_bytes(4, "big") + bytes(GROW_AT_BYTES - 5), []))
    intake.make_room(100 * MIB + 4)

    assert intake.view is not None
    assert len(intake.view) == SMALL_BYTES
    assert budget.used_bytes == 0


def test_memory_is_granted_only_as_bytes_arrive() -> None:
    """N-01: the budget must follow what came, not what was announced."""
    budget = ByteBudget(512 * MIB)
    intake = ReceiveBuffer(Waiter(), BufferPool(), budget)
    total = 20 * MIB
    source = Source(total.to_bytes(4, "big") + bytes(total), [])
    arrived = 0
    while arrived < 10 * MIB:
        arrived += intake.receive(source)
        intake.make_room(total + 4)

        assert budget.used_bytes <= max(arrived + STEP_BYTES, LARGE_BYTES)


def test_large_request_is_received_where_it_is_parsed_from_the_second_on() -> None:
    """A producer of 1 MiB batches must not pay a copy of 64 KiB for each of them."""
    intake = ReceiveBuffer(Waiter(), BufferPool(), ByteBudget(512 * MIB))
    frame = MIB.to_bytes(4, "big") + bytes(MIB)
    receive_all(intake, Source(frame, []))
    intake.receive(Source(frame, []))

    assert intake.view is not None
    assert len(intake.view) == LARGE_BYTES


def pipelined(count: int) -> bytes:
    """Frames of which a small buffer holds no whole number."""
    return ((16_000).to_bytes(4, "big") + bytes(16_000)) * count


def test_a_peer_that_fills_small_buffers_is_read_in_large_pieces() -> None:
    """A pipeline of 80 KiB took two reads, and a copy of what was left of the first."""
    budget = ByteBudget(512 * MIB)
    intake = ReceiveBuffer(Waiter(), BufferPool(), budget)
    source = Source(pipelined(100), [])

    assert len(receive_all(intake, source)) == 100
    assert len(source.counts) < 100 * 16_004 / SMALL_BYTES / 2
    assert budget.used_bytes == 0


def test_a_busy_peer_does_not_wait_for_a_large_buffer() -> None:
    """It can do with a small one, so the budget is left to those who cannot."""
    budget = ByteBudget(1)
    waiter = Waiter()
    intake = ReceiveBuffer(waiter, BufferPool(), budget)

    assert len(receive_all(intake, Source(pipelined(100), []))) == 100
    assert (budget.is_pressed, budget.used_bytes) == (False, 0)


def test_small_requests_take_the_peer_back_to_small_buffers() -> None:
    """One large request long ago must not hold a megabyte per connection for ever."""
    intake = ReceiveBuffer(Waiter(), BufferPool(), ByteBudget(512 * MIB))
    receive_all(intake, Source(MIB.to_bytes(4, "big") + bytes(MIB), []))
    for _ in range(2):
        receive_all(intake, Source(b"\0\0\0\1x", []))
    intake.receive(Source(b"\0", []))

    assert intake.view is not None
    assert len(intake.view) == SMALL_BYTES


def test_owner_above_the_budget_waits_and_is_called_when_another_is_done() -> None:
    """Reading stops, nothing is refused (N-02)."""
    budget = ByteBudget(10)
    first, second, third = Waiter(), Waiter(), Waiter()
    assert budget.take(first, 10)
    assert budget.take(second, 5)  # the one that may go beyond
    assert not budget.take(third, 5)
    assert budget.is_pressed
    budget.give(second, 5)

    assert third.call_count == 1
    assert budget.take(third, 5)
    assert not budget.is_pressed


def test_owners_that_wait_for_each_other_are_let_through_one_by_one() -> None:
    """Two half-received requests that fill the budget would otherwise wait for ever."""
    budget = ByteBudget(10)
    first, second = Waiter(), Waiter()
    assert budget.take(first, 5)
    assert budget.take(second, 5)

    assert budget.take(first, 5)
    assert not budget.take(second, 5)
    budget.give(first, 10)
    assert second.call_count == 1
    assert budget.take(second, 5)


def test_owner_that_leaves_while_waiting_passes_its_turn_on() -> None:
    """The one wake-up of a release may go to a connection that closes before it uses it."""
    budget = ByteBudget(10)
    holder, beyond, leaving, staying = Waiter(), Waiter(), Waiter(), Waiter()
    assert budget.take(holder, 10)
    assert budget.take(beyond, 1)
    assert not budget.take(leaving, 1)
    assert not budget.take(staying, 1)
    budget.give(holder, 10)
    budget.forget(leaving)

    assert staying.call_count == 1


def test_pool_gives_the_buffer_used_last() -> None:
    """It is the one still in the processor's cache."""
    pool = BufferPool()
    first, second = pool.take_small(), pool.take_small()
    pool.give(first)
    pool.give(second)

    assert pool.take_small() is second
    assert pool.take_small() is first


def test_receiving_without_room_is_a_fault_and_not_the_end_of_the_stream() -> None:
    """Zero bytes into zero room looks exactly like a peer that has finished."""
    intake = ReceiveBuffer(Waiter(), BufferPool(), ByteBudget(512 * MIB))
    intake.receive(Source(bytes(SMALL_BYTES), []))

    with pytest.raises(AssertionError):
        intake.receive(Source(b"x", []))
