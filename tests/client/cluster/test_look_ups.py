"""Calls wait for a look-up of their topic that is under way, and give a deleted topic up.

All of it runs in virtual time."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from ottla.client.backup.reading import Gone, RawReader
from ottla.client.cluster.cluster import ClusterClient
from ottla.client.cluster.metadata import NEWS_MS
from ottla.client.cluster.routing import Router
from ottla.client.fetching.offsets import OffsetAt, list_offsets
from ottla.client.settings.config import ClientConfig, Isolation, parse_addresses
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.ids import TopicPartition
from ottla.wire.backoff import Backoff
from ottla.wire.errors import ClientError, RequestRefused
from tests.client.support.toy_broker import Fate, Seen
from tests.client.support.virtual import in_virtual_time

if TYPE_CHECKING:
    from ottla.client.process.environment import Environment
    from tests.client.support.toy_broker import ToyCluster

FIRST = TopicPartition("t", 0)
CALL_MS = 600_000
AGE_MS = 100_000


def client_of(toy: ToyCluster, environment: Environment) -> ClusterClient:
    config = ClientConfig(
        retry_backoff=Backoff(20, 50), call_timeout_ms=CALL_MS, metadata_max_age_ms=AGE_MS
    )
    return ClusterClient(environment, parse_addresses(toy.bootstrap), config)


async def end_of(cluster: ClusterClient) -> OffsetAt | ClientError:
    found = await list_offsets(Router(cluster), {FIRST: -1}, Isolation.READ_UNCOMMITTED)
    return found[FIRST]


def test_calls_for_a_new_topic_share_one_look_up() -> None:
    """The second call must not take a topic for unknown while the first one asks for it."""

    async def story(toy: ToyCluster, environment: Environment) -> None:
        cluster = client_of(toy, environment)
        await cluster.refresh()
        toy.add_topic("t")

        found = await asyncio.gather(*(end_of(cluster) for _ in range(3)))

        assert found == [(0, -1)] * 3
        assert toy.counts()[ApiKey.METADATA] == 2
        cluster.close()

    in_virtual_time(story)


def test_a_question_about_other_topics_is_no_look_up() -> None:
    """Its answer does not have the topic that a call has followed."""

    async def story(toy: ToyCluster, environment: Environment) -> None:
        toy.add_topic("t")
        toy.add_topic("other")
        cluster = client_of(toy, environment)
        await cluster.refresh()
        cluster.follow(["t"])

        _, found = await asyncio.gather(cluster.describe(["other"]), end_of(cluster))

        assert found == (0, -1)
        cluster.close()

    in_virtual_time(story)


def test_a_question_about_other_topics_leaves_the_cache_as_old_as_it_is() -> None:
    """An application that describes topics would otherwise never notice new leaders of its own."""

    async def story(toy: ToyCluster, environment: Environment) -> None:
        toy.add_topic("t")
        toy.add_topic("other")
        cluster = client_of(toy, environment)
        cluster.follow(["t"])
        await cluster.refresh()
        await environment.clock.sleep(AGE_MS * 0.9)

        await cluster.describe(["other"])
        seen = [cluster.is_stale]
        await environment.clock.sleep(AGE_MS * 0.2)
        seen.append(cluster.is_stale)
        await cluster.describe(["other", "t"])
        seen.append(cluster.is_stale)
        cluster.mark_stale()
        await cluster.describe(["other"])
        seen.append(cluster.is_stale)

        assert seen == [False, True, False, True]
        cluster.close()

    in_virtual_time(story)


def test_a_look_up_that_fails_is_made_again_by_the_call_that_waited() -> None:
    """The first call is given up; the second one asks itself."""

    async def story(toy: ToyCluster, environment: Environment) -> None:
        cluster = client_of(toy, environment)
        await cluster.refresh()
        toy.add_topic("t")
        fates = [Fate.SWALLOW]
        toy.judge = lambda seen: fates.pop() if seen.api_key is ApiKey.METADATA and fates else None
        first = asyncio.ensure_future(end_of(cluster))
        await asyncio.sleep(0)
        second = asyncio.ensure_future(end_of(cluster))
        while fates:
            await environment.clock.sleep(1)
        first.cancel()

        assert await second == (0, -1)
        cluster.close()

    assert in_virtual_time(story) < CALL_MS / 10


def delete(toy: ToyCluster, code: ErrorCode, denials_max: int = 2**31) -> list[ErrorCode]:
    """Let the leader and metadata deny all topics, so many times; the list is of the leader's
    answers."""
    topics, denials = toy.topics, list[ErrorCode]()

    def judge(seen: Seen) -> ErrorCode | None:
        is_over = len(denials) >= denials_max
        toy.topics = {} if seen.api_key is ApiKey.METADATA and not is_over else topics
        if seen.api_key is not ApiKey.LIST_OFFSETS or is_over:
            return None
        denials.append(code)
        return code

    toy.judge = judge
    return denials


@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION])
def test_a_deleted_topic_is_given_up(code: ErrorCode) -> None:
    """Leader and metadata agree: no caller waits ten minutes for a topic that does not come
    back."""

    async def story(toy: ToyCluster, environment: Environment) -> None:
        toy.add_topic("t")
        cluster = client_of(toy, environment)
        assert await end_of(cluster) == (0, -1)
        denials = delete(toy, code)
        begun_ms = environment.clock.now_ms()

        found = await end_of(cluster)

        assert isinstance(found, RequestRefused)
        assert found.code is code
        assert NEWS_MS <= environment.clock.now_ms() - begun_ms < 2 * NEWS_MS
        assert len(denials) > 2
        cluster.close()

    in_virtual_time(story)


def test_a_topic_that_metadata_has_is_asked_for_until_its_leader_knows_it() -> None:
    """Its leader has just become that, or the topic was created again; only both denials count."""

    async def story(toy: ToyCluster, environment: Environment) -> None:
        toy.add_topic("t")
        cluster = client_of(toy, environment)
        begun_ms = environment.clock.now_ms()

        def judge(seen: Seen) -> ErrorCode | None:
            is_early = environment.clock.now_ms() < begun_ms + 10 * NEWS_MS
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if is_early and of_offsets(seen) else None

        toy.judge = judge

        assert await end_of(cluster) == (0, -1)
        cluster.close()

    assert in_virtual_time(story) >= 10 * NEWS_MS


def of_offsets(seen: Seen) -> bool:
    """Whether the leader is asked for an offset."""
    return seen.api_key is ApiKey.LIST_OFFSETS


def test_a_broker_that_does_not_know_its_topics_yet_is_waited_for() -> None:
    """After a start it denies them for a moment."""

    async def story(toy: ToyCluster, environment: Environment) -> None:
        toy.add_topic("t")
        cluster = client_of(toy, environment)
        assert await end_of(cluster) == (0, -1)
        denials = delete(toy, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 3)

        assert await end_of(cluster) == (0, -1)
        assert len(denials) == 3
        cluster.close()

    in_virtual_time(story)


def test_a_topic_that_was_replaced_is_gone_for_its_reader() -> None:
    """The name is known again, with another id: asking for the first one is of no use."""

    async def story(toy: ToyCluster, environment: Environment) -> None:
        toy.add_topic("t")
        cluster = client_of(toy, environment)
        key, code = ApiKey.FETCH, ErrorCode.UNKNOWN_TOPIC_ID
        toy.judge = lambda seen: code if seen.api_key is key else None
        reader = RawReader(Router(cluster), FIRST, bytes(15) + b"\x01")

        with pytest.raises(Gone):
            await reader.read(0, 1)
        cluster.close()

    assert in_virtual_time(story) < CALL_MS / 10
