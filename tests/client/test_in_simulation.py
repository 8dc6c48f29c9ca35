"""The real client and the real broker in one simulated world, under chaos.

Everything follows from the seed. A record whose delivery failed may be in the log or not; every
other one is there exactly once and in order, and a consumer reads the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import pytest

from ottla import (
    Admin,
    ClientConfig,
    ClientError,
    Consumer,
    ConsumerConfig,
    NewTopic,
    Producer,
    ProducerConfig,
    TopicPartition,
)
from ottla.client.settings.security import security_from
from ottla.wire.security import PLAINTEXT
from tests.client.support.story import ADDRESS, SETTINGS, Story, environment_of, started
from tests.support import certificates

if TYPE_CHECKING:
    from ottla.protocol.ports import Ports

TOPIC = "t"
PARTITIONS = 2


class Written(Story):
    """A producer and a consumer."""

    security = PLAINTEXT

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.sent: dict[int, list[bytes]] = {number: [] for number in range(PARTITIONS)}
        self.read: dict[int, list[bytes]] = {number: [] for number in range(PARTITIONS)}
        self.failed: set[bytes] = set()

    async def _write(self, ports: Ports) -> None:
        environment, client = environment_of(ports), ClientConfig(security=self.security)
        admin = await started(ports, lambda: Admin(ADDRESS, client, environment))
        await admin.create_topic(NewTopic(TOPIC, PARTITIONS))
        admin.close()
        self.topic_exists.set()
        config = ProducerConfig(
            linger_ms=1,
            batch_bytes=200,
            request_timeout_ms=1_500,
            delivery_timeout_ms=60_000,
            security=self.security,
        )
        producer = await started(ports, lambda: Producer(ADDRESS, config, environment))
        pending = []
        while self.is_chaos:
            for number in range(PARTITIONS):
                value = b"%d" % len(self.sent[number])
                delivery = await producer.send(TOPIC, value, partition=number)
                self.sent[number].append(value)
                pending.append((b"%d/" % number + value, delivery))
            await ports.clock.sleep(ports.random.below(20))
        await producer.close()
        for name, delivery in pending:
            try:
                await delivery
            except ClientError:
                self.failed.add(name)
        self.written.set()

    async def _read(self, ports: Ports) -> None:
        environment = environment_of(ports)
        await self.topic_exists.wait()
        config = ConsumerConfig(
            offset_reset="none", request_timeout_ms=1_500, security=self.security
        )
        partitions = [TopicPartition(TOPIC, number) for number in range(PARTITIONS)]
        consumer = await started(ports, lambda: Consumer(ADDRESS, config, environment))
        consumer.assign(partitions)
        for partition in partitions:
            consumer.seek(partition, 0)
        while not self.written.is_set():
            await self._take(consumer)
        ends = await consumer.end_offsets(partitions)
        while any((consumer.position(where) or 0) < end for where, end in ends.items()):
            await self._take(consumer)
        await consumer.close()
        self.finished.set()

    async def _take(self, consumer: Consumer) -> None:
        for record in await consumer.poll(500):
            assert record.value is not None
            self.read[record.partition].append(record.value)


class WrittenEncrypted(Written):
    """The same over TLS. OpenSSL has a randomness of its own, so that a seed is not one history."""

    settings: ClassVar[dict[str, str]] = {
        **SETTINGS,
        "listeners": f"SSL://{ADDRESS}",
        "security.inter.broker.protocol": "SSL",
        "ssl.keystore.key": certificates.issued("simulated").key,
        "ssl.keystore.certificate.chain": certificates.issued("simulated").certificate,
        "ssl.truststore.certificates": certificates.authority().certificate,
    }
    security = security_from(
        {"security.protocol": "SSL", "ssl.ca.pem": certificates.authority().certificate}
    )


@pytest.mark.requirement("ARC-17", "IDM-09", "IDM-10")
@pytest.mark.parametrize("seed", range(12))
def test_every_record_is_read_once_and_in_order_whatever_happens(seed: int) -> None:
    """Kills, restarts, cut and slow links, resets: the promises of the default settings."""
    check(Written(seed))


@pytest.mark.parametrize("seed", range(3))
def test_every_record_is_read_once_and_in_order_over_tls_whatever_happens(seed: int) -> None:
    """Handshakes and records of TLS are cut, delayed and reset at every place."""
    check(WrittenEncrypted(seed))


def check(story: Written) -> None:
    """Run it, and compare what was read with what was sent."""
    story.run()
    for number in range(PARTITIONS):
        read = story.read[number]
        assert [int(value) for value in read] == sorted({int(value) for value in read})
        missing = set(story.sent[number]) - set(read)
        assert {b"%d/" % number + value for value in missing} <= story.failed
    assert sum(map(len, story.read.values())) > 100


def test_a_seed_is_one_history() -> None:
    """A failure can be replayed only if the client uses no other randomness and clock."""
    digests = []
    for _ in range(2):
        story = Written(3)
        story.run()
        digests.append(story.world.digest())

    assert digests[0] == digests[1]
