"""A follower's fetches by the lean way and by the ordinary one: the same answers and progress."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from ottla.broker.handlers import follower_fetch
from ottla.protocol.errors import ErrorCode
from ottla.protocol.records.follower_fetch import read_request
from tests.broker.support.followers import VERSION, Replicated, replicated
from tests.broker.support.requests import TOPIC, batch, produce

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from ottla.protocol.messages.fetch import FetchRequest
    from tests.support.raw_client import RawClient

WAYS = ("lean", "ordinary")


class Follower:
    """One follower's session at the leader."""

    def __init__(self, site: Replicated, client: RawClient, lean_count: list[int]) -> None:
        self.site = site
        self.lean_count = lean_count
        self._client = client
        self._session_id = self._epoch = 0
        self.seen: list[Any] = []

    def request(self, offset: int, **more: Any) -> FetchRequest:
        request = self.site.fetch(self.site.first, offset, **more)
        request.session_id, request.session_epoch = self._session_id, self._epoch
        self._epoch += 1
        return request

    async def fetch(self, offset: int, **more: Any) -> Any:
        return await self.ask(self.request(offset, **more))

    async def ask(self, request: FetchRequest) -> Any:
        return self.note(await self._client.call(VERSION, request))

    def send(self, request: FetchRequest) -> None:
        self._client.send(VERSION, request)

    async def answer(self, request: FetchRequest) -> Any:
        return self.note(await self._client.answer(VERSION, request))

    def note(self, answer: Any) -> Any:
        self._session_id = answer.session_id
        self.seen.append(
            (
                answer.error_code,
                [
                    (
                        topic.topic_id == self.site.topic_id,
                        part.partition_index,
                        part.error_code,
                        part.high_watermark,
                        part.last_stable_offset,
                        part.log_start_offset,
                        part.aborted_transactions,
                        len(bytes(part.records)),
                        part.diverging_epoch.end_offset,
                    )
                    for topic in answer.responses
                    for part in topic.partitions
                ],
            )
        )
        return answer


@asynccontextmanager
async def followed(way: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Follower]:
    """A follower in a session that it has continued once already."""
    lean_count = [0]
    write = follower_fetch._written

    def counted(*arguments: Any) -> Any:
        lean_count[0] += 1
        return write(*arguments)

    monkeypatch.setattr(
        follower_fetch, "read_request", read_request if way == "lean" else lambda *_: None
    )
    monkeypatch.setattr(follower_fetch, "_written", counted)
    settings = {"replica.lag.time.max.ms": "60000"}
    async with replicated(settings) as site, site.connect() as client:
        follower = Follower(site, client, lean_count)
        await follower.fetch(0)
        await follower.fetch(0)
        yield follower


async def produced(site: Replicated, value: bytes) -> None:
    async with site.connect() as client:
        answer = await client.call(11, produce(batch(value), 1))
    assert answer.responses[0].partition_responses[0].error_code == 0


async def _copies(follower: Follower) -> None:
    site = follower.site
    await produced(site, b"x")
    await follower.fetch(0)
    await produced(site, b"l" * 100_000)
    await follower.fetch(1)
    await site.fetched(site.second, 2)
    await follower.fetch(2)
    quiet = follower.request(2)
    quiet.topics = []
    await follower.ask(quiet)


async def _waits(follower: Follower) -> None:
    waiting = follower.request(0, max_wait_ms=20_000)
    follower.send(waiting)
    await produced(follower.site, b"x")
    await follower.answer(waiting)
    assert follower.site.leading.followers[follower.site.first].log_end_offset == 0
    await follower.fetch(1)
    assert follower.site.leading.followers[follower.site.first].log_end_offset == 1
    # The moved watermark of the other follower's fetch is told after a moment.
    waiting = follower.request(1, max_wait_ms=20_000)
    waiting.topics = []
    follower.send(waiting)
    await follower.site.fetched(follower.site.second, 1)
    await follower.answer(waiting)


async def _is_refused(follower: Follower) -> None:
    site = follower.site
    await produced(site, b"x")
    await follower.fetch(5)
    await follower.fetch(0, current_leader_epoch=site.partition.leader_epoch + 1)
    await follower.fetch(0, broker_epoch=0)
    await follower.fetch(2, last_fetched_epoch=site.partition.leader_epoch)
    await follower.fetch(0)
    follower._epoch += 1
    await follower.fetch(1)


@pytest.mark.parametrize("steps", [_copies, _waits, _is_refused])
async def test_both_ways_give_the_same_answers_and_progress(
    steps: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A leader that forgot a step of the ordinary way would lose an acknowledgement, or count
    one that is none."""
    told = {}
    for way in WAYS:
        async with followed(way, monkeypatch) as follower:
            await steps(follower)
            one = follower.site.leading.followers[follower.site.first]
            position = (
                one.log_end_offset,
                one.log_start_offset,
                one.told_watermark,
                one.told_log_start_offset,
                follower.site.high_watermark,
            )
            told[way] = follower.seen, position
            assert (follower.lean_count[0] > 0) == (way == "lean")
        monkeypatch.undo()

    assert told["lean"] == told["ordinary"]


async def test_the_lean_way_serves_only_its_own_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    """A session is continued by who began it (N-11), and not in the name of another follower."""
    async with followed("lean", monkeypatch) as follower:
        before = follower.lean_count[0]
        foreign = follower.site.fetch(follower.site.second, 0)
        foreign.session_id, foreign.session_epoch = follower._session_id, follower._epoch
        answer = await follower._client.call(VERSION, foreign)

        assert answer.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        assert follower.lean_count[0] == before
        assert follower.site.partition.partition.topic == TOPIC
