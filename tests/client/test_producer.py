"""The producer against a toy cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.client.config import ProducerConfig
from ottla.client.producer import Producer
from ottla.client.state.backoff import Backoff

if TYPE_CHECKING:
    from tests.client.toy_broker import ToyCluster

QUICK = Backoff(1, 5)


def config(**changes: object) -> ProducerConfig:
    """Settings that make a test short."""
    return ProducerConfig(retry_backoff=QUICK, reconnect_backoff=QUICK, **changes)  # type: ignore[arg-type]


async def test_a_record_comes_to_its_partition_and_its_offset_comes_back(
    toy: ToyCluster,
) -> None:
    """The whole way once: bootstrap, metadata, producer id, produce."""
    topic = toy.add_topic("t")
    async with Producer(toy.bootstrap, config()) as producer:
        first = await producer.send("t", b"one", b"k", headers=(("h", b"1"),))
        second = await producer.send("t", b"two")
        delivered = [await first, await second]

    records = topic.partitions[0].records()
    assert [where.offset for where in delivered] == [0, 1]
    assert [(record.key, record.value) for record in records] == [(b"k", b"one"), (None, b"two")]
    assert records[0].headers == (("h", b"1"),)
