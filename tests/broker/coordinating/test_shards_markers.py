"""Ends of transactions in the partition of a shard: each is told once, in the order of the log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from ottla.broker.coordinating.txn_partition import MarkerWriter
from ottla.coordinator.effects import Writer
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from tests.broker.support.node import quiet
from tests.broker.support.shard_site import COMMIT_TIMEOUT_MS, NODE, OTHER, Put, ShardSite
from tests.support.transactions import admit

if TYPE_CHECKING:
    from ottla.protocol.messages.write_txn_markers import WriteTxnMarkersResponse

WITH_OTHER = (NODE, OTHER)


class MarkerSite(ShardSite):
    """A shard with a writer of transaction markers."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.writer = MarkerWriter(
            self.partitions, self.groups, self.parts.flushes, self.waiting, self.clock
        )

    def mark(self, producer_id: int, *, commit: bool = True, epoch: int = 0) -> list[ErrorCode]:
        """End the producer's transaction; the list gets the answer when there is one."""
        topic, index = self.partition.partition
        marker = WritableTxnMarker(
            producer_id, epoch, commit, [WritableTxnMarkerTopic(topic, [index])], 3
        )
        answers: list[ErrorCode] = []

        def take(response: WriteTxnMarkersResponse) -> None:
            (partition,) = response.markers[0].topics[0].partitions
            answers.append(ErrorCode(partition.error_code))

        self.writer.write(WriteTxnMarkersRequest([marker])).then(take)
        return answers

    def put(self, producer_id: int) -> list[Any]:
        """Store something in a transaction of the producer."""
        admit(self.partition, producer_id)
        return self.ask(Put(b"k", b"%d" % producer_id, Writer(producer_id, 0)))


@pytest.mark.requirement("GRP-16", "TXN-24")
async def test_the_end_is_told_when_it_is_committed() -> None:
    """Told earlier, offsets would count whose end another leader may not have (T-17, T-23)."""
    site = MarkerSite()
    await site.open()
    await site.lead(isr=WITH_OTHER)
    await quiet()
    stored, answer = site.put(7), site.mark(7)
    await quiet()
    before = (list(stored), list(answer), list(site.machine.markers))
    await site.lead(isr=(NODE,), partition_epoch=1)
    await quiet()

    assert before == ([], [], [])
    assert (stored, answer) == (["stored"], [ErrorCode.NONE])
    assert site.machine.markers == [(7, 0, True)]
    assert site.waiting.count == 0
    await site.stop()


async def test_without_other_replicas_the_end_is_told_at_once() -> None:
    """With one replica, whatever is written is committed."""
    site = MarkerSite()
    await site.loaded()
    site.put(7)

    assert site.mark(7, commit=False) == [ErrorCode.NONE]
    assert site.machine.markers == [(7, 0, False)]
    await site.stop()


async def test_ends_come_in_their_order_among_the_commits() -> None:
    """A commit that follows the end of one transaction belongs to the next one."""
    site = MarkerSite()
    await site.open()
    await site.lead(isr=WITH_OTHER)
    await quiet()
    calls: list[object] = []
    machine = site.machine
    for name in ("committed", "replay_marker"):
        told = getattr(machine, name)

        def note(*arguments: Any, told: Any = told, name: str = name) -> Any:
            calls.append(name)
            return told(*arguments)

        setattr(machine, name, note)
    site.put(7)
    site.mark(7)
    site.put(7)
    site.mark(7, commit=False)
    await site.lead(isr=(NODE,), partition_epoch=1)
    await quiet()

    assert calls == ["committed", "replay_marker"] * 2
    assert [committed for _, _, committed in machine.markers] == [True, False]
    await site.stop()


async def test_an_end_that_comes_while_the_shard_loads_is_told_once() -> None:
    """It is read with the rest of the log; told once more, it would end the next transaction."""
    site = MarkerSite()
    await site.loaded()
    site.put(7)
    await site.lead(leader_epoch=2)
    answer = site.mark(7)
    told_before = list(site.machine.markers)
    await quiet()

    assert answer == [ErrorCode.NONE]
    assert told_before == []
    assert site.machine.markers == [(7, 0, True)]
    await site.stop()


async def test_an_end_that_is_not_committed_when_the_shard_is_loaded_again_is_told_once() -> None:
    """The new machine reads it; the old shard's promise to tell of it is void."""
    site = MarkerSite()
    await site.open()
    await site.lead(isr=WITH_OTHER)
    await quiet()
    site.put(7)
    answer = site.mark(7)
    site.machine.reloads_on_failure = True
    site.shard._reload()
    await quiet()
    unknown = list(answer)
    await site.lead(isr=(NODE,), partition_epoch=1)
    await quiet()

    assert unknown == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    assert site.machine.markers == [(7, 0, True)]
    await site.stop()


async def test_a_repeated_end_is_not_told_again() -> None:
    """The coordinator has not heard the first answer."""
    site = MarkerSite()
    await site.loaded()
    site.put(7)
    answers = [site.mark(7), site.mark(7)]

    assert answers == [[ErrorCode.NONE]] * 2
    assert site.machine.markers == [(7, 0, True)]
    await site.stop()


async def test_who_waits_too_long_is_told_and_the_end_still_counts() -> None:
    """The coordinator asks again; the offsets must not be lost with its patience."""
    site = MarkerSite()
    await site.open()
    await site.lead(isr=WITH_OTHER)
    await quiet()
    site.put(7)
    answer = site.mark(7)
    await site.clock.advance(COMMIT_TIMEOUT_MS + 20)
    overdue = list(answer)
    await site.lead(isr=(NODE,), partition_epoch=1)
    await quiet()

    assert overdue == answer == [ErrorCode.REQUEST_TIMED_OUT]
    assert site.machine.markers == [(7, 0, True)]
    await site.stop()


async def test_the_end_of_a_leadership_leaves_the_outcome_open() -> None:
    """The next leader has the marker or is sent it again."""
    site = MarkerSite()
    await site.open()
    await site.lead(isr=WITH_OTHER)
    await quiet()
    site.put(7)
    answer = site.mark(7)
    old = site.machine
    await site.follow(1)
    await quiet()

    assert answer == [ErrorCode.REQUEST_TIMED_OUT]
    assert old.markers == []
    assert site.mark(7) == [ErrorCode.NOT_LEADER_OR_FOLLOWER]
    await site.stop()
