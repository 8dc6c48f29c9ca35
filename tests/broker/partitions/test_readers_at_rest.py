"""What consumers of many partitions have at rest: ended by any change, and bounded."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ottla.broker.partitions.readers_at_rest import ReaderMemory, ReadersAtRest
from tests.broker.support.leader_site import EPOCH, LeaderSite, open_site

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

PIECE, ANSWER = b"piece", b"answer"


class Peer:
    """The consumer's connection."""

    connection_id = listener = client_host = principal = "consumer"
    closed = has_hung_up = False

    def __init__(self) -> None:
        self.close: Callable[[], object] = self.fail

    def fail(self) -> None:
        raise AssertionError("the connection is not watched")

    def on_close(self, callback: Callable[[], object]) -> None:
        self.close = callback

    def mute(self, mute_ms: float) -> None:
        raise AssertionError(mute_ms)


def at_rest(site: LeaderSite, readers: ReadersAtRest, peer: Peer) -> ReaderMemory:
    """A consumer that has read the partition to its end."""
    memory = readers.of(peer)
    assert memory.topic("t").rest(site.one, PIECE, ANSWER)
    assert memory.topic("t").answers == {PIECE: ANSWER}
    return memory


async def write(site: LeaderSite) -> None:
    site.write()
    site.fetch(2)


async def delete(site: LeaderSite) -> None:
    site.one.log_was_cut()


async def lead_anew(site: LeaderSite) -> None:
    leadership = site.one.replica.leadership
    assert leadership is not None
    await site.one.become(leadership.__class__(1, EPOCH + 1, 1, (1, 2), (1, 2)))


async def follow(site: LeaderSite) -> None:
    leadership = site.one.replica.leadership
    assert leadership is not None
    await site.one.become(leadership.__class__(2, EPOCH + 1, 1, (1, 2), (1, 2)))


async def stop(site: LeaderSite) -> None:
    site.one.stop()


@pytest.mark.parametrize("happens", [write, delete, lead_anew, follow, stop])
async def test_whatever_changes_ends_the_rest_and_wakes_the_request(
    happens: Callable[[LeaderSite], Awaitable[None]],
) -> None:
    """An old answer would keep a record from the consumer, or tell it of a leader that is none."""
    site = await open_site(1, 2, replicas=(1, 2))
    memory = at_rest(site, ReadersAtRest(site.waiting), Peer())
    asked: list[int] = []

    def ask() -> bool:
        asked.append(1)
        return False

    site.waiting.park((memory.key,), 1e9, ask, lambda: None)
    asked.clear()
    await happens(site)
    await site.pass_time(0)

    assert memory.topic("t").answers == {}
    assert memory.all.count == 0
    assert asked == [1]
    await site.close()


async def test_a_connection_that_has_gone_leaves_nothing_behind() -> None:
    """A broker would look after consumers of yesterday at each record."""
    site = await open_site(1)
    readers, peer = ReadersAtRest(site.waiting), Peer()
    at_rest(site, readers, peer)
    peer.close()

    assert readers.count == 0
    assert not site.one.readers
    await site.close()


async def test_a_piece_that_says_otherwise_takes_the_place() -> None:
    """Or a consumer could fill the memory with one partition."""
    site = await open_site(1)
    topic = at_rest(site, ReadersAtRest(site.waiting), Peer()).topic("t")
    assert topic.rest(site.one, b"other", b"answer too")

    assert topic.answers == {b"other": b"answer too"}
    assert len(site.one.readers) == 1
    await site.close()


async def test_what_finds_no_place_is_not_remembered() -> None:
    """All consumers together take no more than the limit."""
    site = await open_site(1)
    readers = ReadersAtRest(site.waiting, entries_max=1)
    first = at_rest(site, readers, Peer())

    assert not readers.of(Peer()).topic("t").rest(site.one, PIECE, ANSWER)
    site.write()
    assert first.topic("t").answers == {}
    assert readers.of(Peer()).topic("t").rest(site.one, PIECE, ANSWER)
    await site.close()


async def test_topics_of_which_nothing_rests_are_forgotten() -> None:
    """A connection lives for months, and topics come and go."""
    site = await open_site(1)
    memory = at_rest(site, ReadersAtRest(site.waiting), Peer())
    kept = memory.topic("t")
    for number in range(10):
        memory.topic(number)

    assert memory.topic("t") is kept
    assert list(memory._topics) == ["t"]
    site.write()
    assert not memory._topics
    await site.close()


async def test_what_rests_of_very_many_topics_goes_with_the_connection() -> None:
    """A request names all of them before any of them rests."""
    site = await open_site(1)
    readers, peer = ReadersAtRest(site.waiting), Peer()
    memory = readers.of(peer)
    for topic in [memory.topic(number) for number in range(1_500)]:
        assert topic.rest(site.one, PIECE, ANSWER)
    assert readers.count == 1_500
    peer.close()

    assert readers.count == 0
    assert not site.one.readers
    await site.close()


async def test_two_requests_of_a_connection_remember_a_partition_once() -> None:
    """The one that finds the other's answer reads the partition again."""
    site = await open_site(1)
    memory = ReadersAtRest(site.waiting).of(Peer())
    first, second = memory.topic("t"), memory.topic("t")
    assert first.rest(site.one, PIECE, ANSWER)

    assert not second.rest(site.one, PIECE, ANSWER)
    assert memory.all.count == 1
    await site.close()
