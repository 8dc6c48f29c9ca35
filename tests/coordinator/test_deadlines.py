"""Keyed deadlines, and blocks of producer ids."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.coordinator.controller.producer_ids import next_block
from ottla.coordinator.deadlines import Deadlines
from ottla.coordinator.store.paths import ProducerIdBlock
from ottla.protocol.errors import KafkaError


def test_a_moved_deadline_expires_once_and_later() -> None:
    """Each heartbeat moves its member's deadline; the old one must not kill the member."""
    deadlines: Deadlines[str] = Deadlines()
    deadlines.set("a", 10)
    deadlines.set("b", 20)
    deadlines.set("a", 30)

    assert deadlines.next_deadline_ms() == 20
    assert deadlines.expired(25) == ["b"]
    assert deadlines.expired(30) == ["a"]
    assert deadlines.next_deadline_ms() is None


def test_a_cancelled_deadline_never_comes() -> None:
    """A member that left does not time out."""
    deadlines: Deadlines[str] = Deadlines()
    deadlines.set("a", 10)
    deadlines.cancel("a")
    deadlines.cancel("nobody")

    assert "a" not in deadlines
    assert deadlines.expired(100) == []


@given(st.lists(st.tuples(st.integers(0, 5), st.none() | st.integers(0, 50)), max_size=300))
def test_it_behaves_like_a_dictionary_of_deadlines(steps: list[tuple[int, int | None]]) -> None:
    """Dead entries in the heap must never be seen from outside, nor pile up in it."""
    deadlines: Deadlines[int] = Deadlines()
    expected: dict[int, int] = {}
    for key, deadline_ms in steps:
        if deadline_ms is None:
            deadlines.cancel(key)
            expected.pop(key, None)
        else:
            deadlines.set(key, deadline_ms)
            expected[key] = deadline_ms

        assert len(deadlines) == len(expected)
        assert deadlines.next_deadline_ms() == min(expected.values(), default=None)
    due = sorted(key for key, deadline_ms in expected.items() if deadline_ms <= 25)
    assert sorted(deadlines.expired(25)) == due


def test_blocks_of_producer_ids_follow_one_another() -> None:
    """An id given twice would let one producer's sequence numbers judge another's records."""
    first, data = next_block(b"", 1)
    second, _ = next_block(data, 2)

    assert first == ProducerIdBlock(1, 0, 999)
    assert second == ProducerIdBlock(2, 1000, 1999)


@pytest.mark.parametrize(
    "data",
    [
        b"garbage",
        b'{"version":1,"broker":1,"block_start":"5","block_end":"4"}',
        b'{"version":1,"broker":1,"block_start":"0","block_end":"9223372036854775807"}',
    ],
)
def test_an_unusable_block_stops_the_handing_out(data: bytes) -> None:
    """Starting over would give ids a second time."""
    with pytest.raises(KafkaError):
        next_block(data, 1)


def test_expired_keys_can_be_taken_one_by_one() -> None:
    """What happens at one deadline may cancel or move another one that has come as well."""
    deadlines: Deadlines[str] = Deadlines()
    for key in ("a", "b", "c"):
        deadlines.set(key, 1.0)

    first = deadlines.take_expired(1.0)
    deadlines.cancel("b")
    deadlines.set("c", 2.0)

    assert first == "a"
    assert deadlines.take_expired(1.0) is None
    assert deadlines.take_expired(2.0) == "c"
