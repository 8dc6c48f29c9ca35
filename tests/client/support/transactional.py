"""Support for tests of transactions: clusters of both versions, and one-record transactions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.client.producer import Producer
from ottla.client.settings.config import ProducerConfig
from ottla.protocol.apis import ApiKey
from ottla.protocol.ids import TopicPartition
from ottla.wire.backoff import Backoff
from tests.client.support.toy_transactions import committed

if TYPE_CHECKING:
    from ottla.protocol.errors import ErrorCode
    from tests.client.support.toy_broker import Fate, Seen, ToyCluster

QUICK = Backoff(1, 5)
INPUT = TopicPartition("in", 0)


def only_log(toy: ToyCluster) -> list[bytes | None]:
    return committed(toy.topics["out"].partitions[0])


async def one(producer: Producer, value: bytes) -> None:
    """A transaction of one record and one position."""
    async with producer.transaction():
        await producer.send("out", value, partition=0)
        await producer.send_offsets_to_transaction({INPUT: int(value)}, "g")


async def first_of(producer: Producer, value: bytes) -> None:
    """The same, as the producer's first."""
    await producer.init_transactions()
    await one(producer, value)


async def finish(producer: Producer) -> None:
    """The rest of a transaction that has a record."""
    await producer.send_offsets_to_transaction({INPUT: 1}, "g")
    await producer.commit_transaction()


def config(**changes: Any) -> ProducerConfig:
    """Settings that make a test short."""
    return ProducerConfig(
        transactional_id="id", retry_backoff=QUICK, reconnect_backoff=QUICK, **changes
    )


def producer_of(toy: ToyCluster, **changes: Any) -> Producer:
    return Producer(toy.bootstrap, config(**changes))


def control(toy: ToyCluster) -> list[ApiKey]:
    """Requests to coordinators, in order, without the lookups."""
    wanted = (
        ApiKey.INIT_PRODUCER_ID,
        ApiKey.ADD_PARTITIONS_TO_TXN,
        ApiKey.ADD_OFFSETS_TO_TXN,
        ApiKey.TXN_OFFSET_COMMIT,
        ApiKey.END_TXN,
    )
    return [seen.api_key for seen in toy.seen if seen.api_key in wanted]


def once(key: ApiKey, fate: Fate | ErrorCode) -> Any:
    """A judge that does this to the first request of that API."""
    left = [fate]

    def judge(seen: Seen) -> Fate | ErrorCode | None:
        return left.pop() if seen.api_key is key and left else None

    return judge
