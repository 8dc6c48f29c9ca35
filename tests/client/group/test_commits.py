"""A member's positions on their way to the coordinator and back."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from ottla import Admin, NewTopic
from ottla.client.cluster.cluster import ClusterClient
from ottla.client.cluster.routing import Router
from ottla.client.group.commits import Commits
from ottla.client.group.identity import GroupIdentity
from ottla.client.process.environment import real_environment
from ottla.client.process.errors import CommitFailed
from ottla.client.records.committed import Committed
from ottla.client.settings.config import ConsumerConfig, parse_addresses
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.ids import TopicPartition
from ottla.wire.backoff import Backoff
from ottla.wire.errors import ClientClosed, ClientError, RequestRefused
from tests.client.support.toy_broker import Fate, Seen, ToyCluster

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)
NOBODY = GroupIdentity("g")
CONFIG = ConsumerConfig(retry_backoff=Backoff(1, 5), call_timeout_ms=10_000)


@asynccontextmanager
async def commits_of(
    address: str, interval_ms: float | None = None, failures: list[ClientError] | None = None
) -> AsyncIterator[Commits]:
    """Commits of group g, with a client around them."""
    environment = real_environment()
    cluster = ClusterClient(environment, parse_addresses(address), CONFIG)
    await cluster.refresh()
    commits = Commits(
        Router(cluster),
        "g",
        environment.clock,
        interval_ms=interval_ms,
        on_failure=None if failures is None else failures.append,
    )
    try:
        yield commits
    finally:
        await commits.stop()
        cluster.close()


def fail_commits(toy: ToyCluster, fates: Iterable[Fate | ErrorCode]) -> None:
    """Outcomes of the first commits."""
    left = list(fates)

    def judge(seen: Seen) -> Fate | ErrorCode | None:
        return left.pop(0) if seen.api_key is ApiKey.OFFSET_COMMIT and left else None

    toy.judge = judge


async def test_what_is_committed_comes_back_whole(broker: str) -> None:
    """Offset, leader epoch and metadata; a partition without a position is left out."""
    position = Committed(7, 3, "left off here")
    here, there = TopicPartition("commits", 0), TopicPartition("commits", 1)
    async with Admin(broker) as admin, commits_of(broker) as commits:
        await admin.create_topic(NewTopic("commits", 2))
        await commits.commit({here: position}, NOBODY)

        assert await commits.fetch([here, there]) == {here: position}


async def test_a_topic_that_is_gone_does_not_hold_up_a_closing_consumer(broker: str) -> None:
    """A fresh one may not be known everywhere yet, so it is tried a few times."""
    async with commits_of(broker) as commits:
        with pytest.raises(RequestRefused) as failure:
            await commits.commit({TopicPartition("gone", 0): Committed(1)}, NOBODY)

    assert failure.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_a_zombie_is_refused_by_a_real_coordinator(broker: str) -> None:
    """The coordinator has removed the member from its group (G-02)."""
    async with Admin(broker) as admin, commits_of(broker) as commits:
        await admin.create_topic(NewTopic("zombies"))
        with pytest.raises(CommitFailed, match="given up meanwhile"):
            await commits.commit(
                {TopicPartition("zombies", 0): Committed(9)}, GroupIdentity("g", "gone", 3)
            )


@pytest.mark.parametrize(
    "fate",
    [
        Fate.DROP_BEFORE,
        Fate.DROP_AFTER,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ],
)
async def test_errors_that_pass_are_tried_again(toy: ToyCluster, fate: Fate | ErrorCode) -> None:
    """Storing a position twice is storing it once."""
    fail_commits(toy, [fate, fate])
    async with commits_of(toy.bootstrap) as commits:
        await commits.commit({P0: Committed(5)}, NOBODY)

    assert toy.offsets.stored == {P0: Committed(5)}
    assert toy.counts()[ApiKey.OFFSET_COMMIT] == 3


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.ILLEGAL_GENERATION,
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.FENCED_INSTANCE_ID,
        ErrorCode.STALE_MEMBER_EPOCH,
    ],
)
async def test_who_is_not_the_member_any_more_is_told_so_at_once(
    toy: ToyCluster, code: ErrorCode
) -> None:
    """A retry could only do harm: another member has the partitions."""
    fail_commits(toy, [code])
    async with commits_of(toy.bootstrap) as commits:
        with pytest.raises(CommitFailed) as failure:
            await commits.commit({P0: Committed(5)}, NOBODY)

    assert failure.value.partitions == (P0,)
    assert failure.value.code is code
    assert toy.offsets.stored == {}


async def test_what_can_never_succeed_is_refused_with_its_partition(toy: ToyCluster) -> None:
    """The metadata was too long, for instance."""
    fail_commits(toy, [ErrorCode.OFFSET_METADATA_TOO_LARGE])
    async with commits_of(toy.bootstrap) as commits:
        with pytest.raises(RequestRefused, match="partition 0"):
            await commits.commit({P0: Committed(5)}, NOBODY)


async def test_a_call_ends_when_its_time_is_over(toy: ToyCluster) -> None:
    """The error contains the coordinator's last answer."""

    def judge(seen: Seen) -> ErrorCode | None:
        if seen.api_key is not ApiKey.OFFSET_COMMIT:
            return None
        numbers = [part.partition_index for part in seen.request.topics[0].partitions]
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if 0 in numbers else None

    toy.judge = judge
    async with commits_of(toy.bootstrap) as commits:
        with pytest.raises(RequestRefused) as failure:
            await commits.commit({P0: Committed(5)}, NOBODY, timeout_ms=60)

        assert failure.value.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        await commits.commit({P1: Committed(1)}, NOBODY)

    assert toy.offsets.stored == {P1: Committed(1)}, "nobody waited for the other any more"


async def test_many_calls_at_once_share_requests_and_keep_their_order(toy: ToyCluster) -> None:
    """A commit after each record must not cost a round trip for each."""
    async with commits_of(toy.bootstrap) as commits:
        calls = [commits.commit({P0: Committed(number)}, NOBODY) for number in range(100)]
        await asyncio.gather(*calls)

    stored = [offsets[P0] for offsets in toy.offsets.history]
    assert stored == sorted(stored)
    assert stored[-1] == 99
    assert len(stored) < 10


async def test_an_automatic_commit_that_fails_is_made_up_for_by_the_next(toy: ToyCluster) -> None:
    """No caller waits for an automatic commit; its failure goes to the error callback."""
    failures: list[ClientError] = []
    fail_commits(toy, [ErrorCode.TOPIC_AUTHORIZATION_FAILED])
    async with commits_of(toy.bootstrap, 10, failures) as commits:
        commits.consumed(P0, 5, 1)
        commits.start_commit(NOBODY)
        assert await commits.finish(NOBODY, 5_000) is not None
        assert await commits.finish(NOBODY, 5_000) is None

    assert toy.offsets.stored == {P0: Committed(5, 1)}
    assert len(failures) == 1


async def test_giving_up_waits_for_the_automatic_commit_of_a_moment_ago(toy: ToyCluster) -> None:
    """A later commit would reach the coordinator after the reassignment and be refused."""
    async with commits_of(toy.bootstrap, 10) as commits:
        commits.consumed(P0, 5)
        commits.start_commit(NOBODY)

        assert await commits.finish(NOBODY, 5_000) is None
        assert toy.offsets.stored == {P0: Committed(5)}


async def test_commits_of_given_up_partitions_fail_without_an_answer(toy: ToyCluster) -> None:
    """The application may be waiting in its rebalance callback."""
    fail_commits(toy, [ErrorCode.REBALANCE_IN_PROGRESS] * 1_000)
    async with commits_of(toy.bootstrap) as commits:
        waiting = asyncio.ensure_future(commits.commit({P0: Committed(5)}, NOBODY))
        while not toy.counts()[ApiKey.OFFSET_COMMIT]:
            await asyncio.sleep(0)
        commits.forget([P0])

        with pytest.raises(CommitFailed):
            await waiting


async def test_closing_ends_calls_that_wait(toy: ToyCluster) -> None:
    """The calls fail with an error that says so, instead of hanging."""
    fail_commits(toy, [Fate.SWALLOW])
    async with commits_of(toy.bootstrap) as commits:
        waiting = asyncio.ensure_future(commits.commit({P0: Committed(5)}, NOBODY))
        while not toy.counts()[ApiKey.OFFSET_COMMIT]:
            await asyncio.sleep(0)
        await commits.stop()

        with pytest.raises(ClientClosed):
            await waiting
        with pytest.raises(ClientClosed):
            await commits.commit({P0: Committed(5)}, NOBODY)
