"""Questions to a coordinator whose lease is over: whether, when and what it answers."""

from __future__ import annotations

import asyncio
from math import inf
from typing import TYPE_CHECKING, Any

from ottla.broker.coordinating.internal_topics import OFFSETS_TOPIC
from ottla.broker.coordinating.shards import ShardState
from ottla.broker.partitions.follower_reads import FollowerReads
from ottla.broker.partitions.partition_read import PartitionFetch
from ottla.broker.partitions.read_barriers import LOOK_MS, PROOF_TIMEOUT_MS
from ottla.coordinator.store.store import SessionState
from ottla.protocol.errors import ErrorCode
from tests.broker.support.follower_session import FollowerSession
from tests.broker.support.node import quiet
from tests.broker.support.shard_site import CALLER, NODE, OTHER, Fail, Get, ShardSite

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.broker.partitions.follower_reads import FollowerPoll

WITH_OTHER = (NODE, OTHER)
STALE = ErrorCode.NOT_COORDINATOR


class Connection:
    """The connection that a request came on."""

    def __init__(self) -> None:
        self.closed = False
        self._callbacks: list[Callable[[], object]] = []

    def on_close(self, callback: Callable[[], object]) -> None:
        self._callbacks.append(callback)

    def close(self) -> None:
        self.closed = True
        for callback in self._callbacks:
            callback()


class Follower:
    """The other replica, on one connection to the leader."""

    def __init__(self, site: ShardSite) -> None:
        self._site = site
        self._reads = FollowerReads(site.waiting, site.clock, site.parts.barriers.proofs)
        wanted = PartitionFetch(OFFSETS_TOPIC, 0, 0, 1 << 20, 0, -1, ErrorCode.NONE, 0)
        self._session = FollowerSession(site.waiting, wanted, OTHER)

    def ask(self, leader_epoch: int = 0) -> FollowerPoll:
        """A fetch arrives, and waits if it may; the same as the last one is quiet."""
        wanted = self._session.wanted
        if leader_epoch != wanted.current_leader_epoch:
            self._session.say(wanted._replace(current_leader_epoch=leader_epoch))
        return self._session.ask(self._reads, self._site.partition, 1, self)

    def hear(self, poll: FollowerPoll) -> None:
        """The fetch is answered, and the answer has been read."""
        poll.complete()


async def asleep(isr: tuple[int, ...] = WITH_OTHER) -> ShardSite:
    """A coordinator that has woken up, and whose store has not been heard for long."""
    site = ShardSite()
    await site.open()
    await site.lead(isr=isr)
    await quiet()
    assert site.state is ShardState.ACTIVE
    site.lease.until_ms = -inf
    return site


def asked(site: ShardSite, request: Any, owner: Connection | None = None) -> list[Any]:
    """The list holds the answer as soon as there is one."""
    answers: list[Any] = []
    later = site.groups.handle_current("g", request, CALLER, lambda error: error, owner)
    later.then(answers.append)
    return answers


def asked_as(site: ShardSite, name: str, told: list[str], next_name: str = "") -> None:
    """The name is put on the list when there is an answer; the next is asked at once then."""

    def take(_answer: object) -> None:
        told.append(name)
        if next_name:
            asked_as(site, next_name, told)

    site.groups.handle_current("g", Get(b"k"), CALLER, lambda error: error, None).then(take)


class Answering:
    """A session of the store that is heard again after so many looks at it."""

    state = SessionState.CONNECTED
    timeout_ms = 6_000.0

    def __init__(self) -> None:
        self.is_late = False
        self.looks_until_answer: float = inf

    def on_state(self, callback: object) -> None:
        """The state never changes, so the callback is dropped."""

    @property
    def last_answer_ms(self) -> float:
        self.looks_until_answer -= 1
        return -inf if self.is_late and self.looks_until_answer >= 0 else 0.0


async def test_with_a_lease_everything_is_answered_at_once() -> None:
    """No other leader can have been elected: the usual path costs nothing."""
    site = await asleep()
    site.lease.until_ms = inf

    assert asked(site, Get(b"k")) == ["nothing"]
    assert not site.parts.barriers.proofs.is_open
    await site.stop()


async def test_a_leader_without_rivals_needs_no_proof() -> None:
    """With a leader that is alone in the ISR no other broker can be elected."""
    site = await asleep(isr=(NODE,))

    assert asked(site, Get(b"k")) == ["nothing"]
    assert site.waiting.count == 0
    await site.stop()


async def test_a_question_waits_for_a_fetch_that_was_sent_after_it() -> None:
    """The first one may have lain in the socket since before the successor was elected."""
    site = await asleep()
    follower = Follower(site)
    answers = asked(site, Get(b"k"))
    poll = follower.ask()
    await quiet()
    after_the_first = list(answers)
    follower.hear(poll)
    follower.ask()
    await quiet()

    assert (after_the_first, answers) == ([], ["nothing"])
    assert site.waiting.count == 0
    await site.stop()


async def test_a_fetch_that_waits_is_answered_for_a_question() -> None:
    """Whether it is looked at as new or as the same again: a proof takes a round trip."""
    site = await asleep()
    follower = Follower(site)
    follower.hear(follower.ask())
    poll = follower.ask()
    was_quiet, was_due = bool(poll.quiet_count), poll.owes_news()
    answers = asked(site, Get(b"k"))
    poll.wake()

    assert (was_quiet, was_due) == (True, False)
    assert poll.owes_news()

    follower.hear(poll)
    follower.hear(follower.ask())
    poll = follower.ask()
    await quiet()
    assert answers == ["nothing"]
    assert poll.quiet_count
    await site.stop()


async def test_a_fetch_in_another_epoch_proves_nothing() -> None:
    """Such a fetch follows another leadership; a fetch without an epoch proves nothing either."""
    site = await asleep()
    follower = Follower(site)
    answers = asked(site, Get(b"k"))
    for leader_epoch in (1, -1, 1):
        follower.hear(follower.ask(leader_epoch))
    await quiet()

    assert answers == []
    await site.stop()


async def test_without_proof_the_question_is_refused_in_time() -> None:
    """Clients look for the coordinator again."""
    site = await asleep()
    answers = asked(site, Get(b"k"))
    await site.clock.advance(PROOF_TIMEOUT_MS + 200)
    await quiet()

    assert answers == [STALE]
    assert site.waiting.count == 0
    await site.stop()


async def test_a_proof_for_one_question_is_none_for_a_later_one() -> None:
    """The leader may have slept in between."""
    site = await asleep()
    follower = Follower(site)
    first = asked(site, Get(b"k"))
    follower.hear(follower.ask())
    second = asked(site, Get(b"k"))
    follower.ask()
    await quiet()

    assert (first, second) == (["nothing"], [])
    await site.stop()


async def test_a_question_goes_with_its_connection() -> None:
    """The client cannot read the answer, and the request must not take effect later."""
    site = await asleep()
    follower = Follower(site)
    connection = Connection()
    answers = asked(site, Get(b"k"), connection)
    connection.close()
    left = site.waiting.count
    follower.hear(follower.ask())
    follower.ask()
    await quiet()

    assert (left, answers) == (0, [])
    await site.stop()


async def test_a_question_ends_with_the_leadership() -> None:
    """The successor is known, so the client can go there without waiting."""
    site = await asleep()
    answers = asked(site, Get(b"k"))
    await site.follow(1)
    await quiet()

    assert answers == [STALE]
    assert site.waiting.count == 0
    await site.stop()


async def test_a_question_ends_with_the_coordinator() -> None:
    """A broker that stops must answer every waiting client."""
    site = await asleep()
    answers = asked(site, Get(b"k"))
    site.groups.close()
    site.partitions.close()
    await quiet()

    assert answers == [STALE]
    await site.stop()


async def test_a_shard_that_is_read_again_says_so_behind_the_barrier() -> None:
    """The machine that was meant is gone, and the next one knows nothing yet."""
    site = await asleep()
    follower = Follower(site)
    answers = asked(site, Get(b"k"))
    site.shard.state = ShardState.LOADING
    follower.hear(follower.ask())
    follower.ask()
    await quiet()

    assert answers == [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]
    await site.stop()


async def test_a_bug_behind_the_barrier_is_answered_once() -> None:
    """No caller on the stack could close the connection for it."""
    site = await asleep()
    follower = Follower(site)
    answers = asked(site, Fail())
    follower.hear(follower.ask())
    follower.ask()
    await quiet()
    await site.clock.advance(PROOF_TIMEOUT_MS + 200)
    await quiet()

    assert answers == [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]
    assert site.waiting.count == 0
    await site.stop()


async def test_a_lease_that_is_held_again_is_proof_enough() -> None:
    """The store was away for a moment and no other leader was elected, so waiting ends."""
    site = await asleep()
    answers = asked(site, Get(b"k"))
    await site.clock.advance(LOOK_MS)
    before = list(answers)
    site.lease.until_ms = inf
    await site.clock.advance(LOOK_MS)

    assert (before, answers) == ([], ["nothing"])
    assert site.waiting.count == 0
    await site.stop()


# ---- in the order in which they came ----


async def test_what_comes_with_the_lease_goes_behind_those_that_wait() -> None:
    """Requests of one connection stay in order: the last request is applied last."""
    site = await asleep()
    told: list[str] = []
    asked_as(site, "first", told)
    asked_as(site, "second", told)
    site.lease.until_ms = inf
    asked_as(site, "third", told)
    at_once = list(told)
    await quiet()

    assert (at_once, told) == ([], ["first", "second", "third"])
    asked_as(site, "fourth", told)
    assert told[-1] == "fourth"
    await site.stop()


async def test_what_needs_no_proof_any_more_goes_behind_those_that_do() -> None:
    """The last rival has left the ISR while earlier requests still wait; order must be kept."""
    site = await asleep()
    told: list[str] = []
    asked_as(site, "first", told)
    await site.lead(isr=(NODE,), partition_epoch=1)
    asked_as(site, "second", told)
    await quiet()

    assert told == ["first", "second"]
    await site.stop()


async def test_what_an_answer_brings_in_goes_behind_those_that_wait() -> None:
    """The next request of its connection is handled in the very step."""
    site = await asleep()
    told: list[str] = []
    asked_as(site, "first", told, next_name="third")
    asked_as(site, "second", told)
    site.lease.until_ms = inf
    await site.clock.advance(LOOK_MS)

    assert told == ["first", "second", "third"]
    await site.stop()


async def test_a_lease_that_comes_back_between_two_looks_changes_no_order() -> None:
    """Another thread notes that the store has answered."""
    site = ShardSite()
    session = Answering()
    site.lease.enter(session)  # type: ignore[arg-type]
    await site.open()
    await site.lead(isr=WITH_OTHER)
    await quiet()
    site.lease.until_ms = -inf
    session.is_late = True
    told: list[str] = []
    asked_as(site, "first", told)
    asked_as(site, "second", told)
    # The first is looked at before the store has answered, the second after.
    session.looks_until_answer = 1
    site.waiting.release(site.partition.proof_key)
    await quiet()

    assert told == ["first", "second"]
    await site.stop()


async def test_one_that_cannot_be_answered_holds_up_none_behind_it() -> None:
    """Its connection runs into a bug while the answer is written."""
    site = await asleep()
    bugs: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, bug: bugs.append(bug))
    told: list[str] = []

    def fail(_is_current: bool) -> None:
        raise AssertionError("a bug")

    site.parts.barriers.wait(site.partition, fail, None)
    asked_as(site, "second", told)
    site.lease.until_ms = inf
    await site.clock.advance(LOOK_MS)

    assert (len(bugs), told) == (1, ["second"])
    assert site.waiting.count == 0
    await site.stop()


async def test_nothing_is_looked_at_when_no_reader_waits() -> None:
    """Else the broker would wake up for it until it stops."""
    site = await asleep()
    connection, at_rest = Connection(), site.clock.timer_count
    asked(site, Get(b"k"), connection)
    connection.close()
    while_it_looks = site.clock.timer_count
    await site.clock.advance(LOOK_MS)

    assert (while_it_looks, site.clock.timer_count) == (at_rest + 1, at_rest)
    await site.stop()
