"""Answers that arrive after the consumer has already asked another broker."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from ottla.client.consumer import Consumer
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.wire.connection import Connection
from tests.client.test_consumer import FIRST, config, fill, read

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.client.support.toy_broker import Seen, ToyCluster, ToyTopic

OLD, NEW = 1, 2


class Delay:
    """Keeps back answers of one kind of one broker, while others of it arrive."""

    def __init__(
        self,
        monkeypatch: pytest.MonkeyPatch,
        toy: ToyCluster,
        node_id: int,
        key: ApiKey = ApiKey.FETCH,
    ) -> None:
        self.is_on = False
        # What happens once a request has been sent whose answer will be kept back.
        self.then: Callable[[], object] | None = None
        self._held: list[tuple[asyncio.Future[Any], asyncio.Future[Any]]] = []
        address, send = toy.nodes[node_id].address, Connection.send

        def delayed(connection: Connection, api: Any, request: Any, **rest: Any) -> Any:
            future = send(connection, api, request, **rest)
            if not self.is_on or connection.address != address or api.key is not key:
                return future
            later: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
            self._held.append((future, later))
            if self.then is not None:
                self.then()
                self.then = None
            return later

        monkeypatch.setattr(Connection, "send", delayed)

    @property
    def count(self) -> int:
        return sum(future.done() for future, _ in self._held)

    async def release(self) -> None:
        """Let them arrive, as they were answered then."""
        self.is_on = False
        for future, later in self._held:
            later.set_result(await future)
        await asyncio.sleep(0)


async def until(what: Callable[[], bool]) -> None:
    async with asyncio.timeout(90):
        while not what():
            await asyncio.sleep(0.002)


@pytest.fixture
async def topic(toy: ToyCluster) -> ToyTopic:
    """Two brokers, and a partition that is led by the first."""
    toy.start(2)
    topic = toy.add_topic("t")
    fill(topic, [b"0", b"1"])
    return topic


def move(topic: ToyTopic, consumer: Consumer) -> None:
    """Move the leadership to the other broker and make the consumer refresh its metadata."""
    topic.partitions[0].leader_id = NEW
    topic.partitions[0].leader_epoch += 1
    consumer._cluster.mark_stale()
    consumer._fetcher.wake()


async def test_what_two_leaders_send_is_read_once(
    toy: ToyCluster, topic: ToyTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An old leader that has not noticed yet answers like the new one, only later."""
    delay = Delay(monkeypatch, toy, OLD)
    async with Consumer(toy.bootstrap, config()) as consumer:
        consumer.assign([FIRST])
        await read(consumer, 2)
        delay.is_on, delay.then = True, lambda: fill(topic, [b"2"])
        await until(lambda: delay.count > 0)
        move(topic, consumer)
        assert [record.value for record in await read(consumer, 1)] == [b"2"]

        await delay.release()
        fill(topic, [b"3"])

        assert [record.value for record in await read(consumer, 1)] == [b"3"]


async def test_an_old_leader_that_is_late_does_not_reset_the_position(
    toy: ToyCluster, topic: ToyTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its log may have been cut by then; where the consumer is, the new leader knows."""

    def judge(seen: Seen) -> ErrorCode | None:
        is_late = delay.then is None and seen.api_key is ApiKey.FETCH and seen.node_id == OLD
        return ErrorCode.OFFSET_OUT_OF_RANGE if is_late else None

    delay = Delay(monkeypatch, toy, OLD)
    async with Consumer(toy.bootstrap, config()) as consumer:
        consumer.assign([FIRST])
        await read(consumer, 2)
        toy.judge = judge
        delay.is_on, delay.then = True, lambda: None
        await until(lambda: delay.count > 0)
        move(topic, consumer)
        await until(lambda: consumer._cluster.metadata.leader_of(FIRST) == NEW)

        await delay.release()
        fill(topic, [b"2"])

        assert [record.value for record in await read(consumer, 1)] == [b"2"]


async def test_what_arrives_during_the_question_is_no_sign_of_another_past(
    toy: ToyCluster, topic: ToyTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer is about an epoch that ended where the consumer was when it asked."""
    delay = Delay(monkeypatch, toy, OLD)
    questions = Delay(monkeypatch, toy, NEW, ApiKey.OFFSET_FOR_LEADER_EPOCH)
    log = topic.partitions[0]
    async with Consumer(toy.bootstrap, config(offset_reset="none")) as consumer:
        consumer.assign([FIRST])
        consumer.seek(FIRST, 0)
        await read(consumer, 2)
        # Another epoch of the same leader, which is held back with what it has of that.
        log.epoch_ends[0], log.leader_epoch = 2, 1
        consumer._cluster.mark_stale()
        await until(lambda: consumer._fetcher.positions[FIRST].checked_epoch == 1)
        delay.is_on = questions.is_on = True
        delay.then = lambda: fill(topic, [b"2"])
        await until(lambda: delay.count > 0)
        move(topic, consumer)
        await until(lambda: questions.count > 0)

        await delay.release()
        await questions.release()
        fill(topic, [b"3"])

        assert [record.value for record in await read(consumer, 2)] == [b"2", b"3"]
