"""Tests of clusters that encrypt: each client library gets what it needs, and faults work."""

from __future__ import annotations

import asyncio
import os
from typing import Any

import aiokafka
import confluent_kafka
import kafka
import pytest

import ottla
from ottla import sync

VALUES = [bytes([number]) * 2_000 for number in range(50)]


def test_three_brokers_replicate_over_tls_and_survive_the_loss_of_one() -> None:
    """Fetchers, the controller and elections go over the encrypted listener of brokers."""
    with ottla.Cluster(brokers=3, security="mtls") as cluster:
        cluster.create_topic("t", partitions=3)
        settings = cluster.client_settings()
        servers = str(settings.pop("bootstrap.servers"))
        with sync.Producer(servers, security=settings, acks="all") as producer:
            for number, value in enumerate(VALUES):
                producer.send("t", value, partition=number % 3)
            producer.flush()
            cluster.faults.kill(cluster.leader("t"))
            for number, value in enumerate(VALUES):
                producer.send("t", value, partition=number % 3)
            producer.flush()
        with sync.Consumer(servers, security=settings, offset_reset="earliest") as consumer:
            consumer.assign([ottla.TopicPartition("t", number) for number in range(3)])
            found: list[bytes | None] = []
            while len(found) < 2 * len(VALUES):
                found += [record.value for record in consumer.poll()]
    assert sorted(map(bytes, filter(None, found))) == sorted(VALUES * 2)


@pytest.mark.parametrize("security", ["ssl", "mtls"])
def test_foreign_clients_connect_with_the_settings_of_their_library(security: str) -> None:
    """librdkafka, kafka-python and aiokafka: what one writes the others read."""
    with ottla.Cluster(security=security) as cluster:
        cluster.create_topic("t")
        _confluent(cluster.client_settings("confluent"))
        _kafka_python(cluster.client_settings("kafka-python"))
        asyncio.run(_aiokafka(cluster.client_settings("aiokafka")))


def _confluent(settings: dict[str, Any]) -> None:
    producer = confluent_kafka.Producer(settings)
    for value in VALUES:
        producer.produce("t", value)
    assert producer.flush(60) == 0


def _kafka_python(settings: dict[str, Any]) -> None:
    producer = kafka.KafkaProducer(**settings)
    producer.send("t", b"of kafka-python").get(60)
    producer.close()
    consumer = kafka.KafkaConsumer("t", auto_offset_reset="earliest", **settings)
    found = [next(consumer).value for _ in range(len(VALUES) + 1)]
    consumer.close()
    assert found == [*VALUES, b"of kafka-python"]


async def _aiokafka(settings: dict[str, Any]) -> None:
    async with aiokafka.AIOKafkaConsumer("t", auto_offset_reset="earliest", **settings) as consumer:
        found = [(await consumer.getone()).value for _ in range(len(VALUES) + 1)]
    assert found == [*VALUES, b"of kafka-python"]


def test_the_files_of_an_encrypting_cluster_are_deleted_with_it() -> None:
    """Keys do not stay behind in the temporary directory."""
    with ottla.Cluster(security="mtls") as cluster:
        settings = cluster.client_settings("confluent")
        path = str(settings["ssl.key.location"])
        assert os.path.exists(path)
        with pytest.raises(ottla.ClusterError, match="library is one of"):
            cluster.client_settings("perl")
    assert not os.path.exists(path)
    assert not os.path.exists(os.path.dirname(path))


def test_an_unknown_kind_of_security_is_refused() -> None:
    """A cluster that silently stays in plaintext would test nothing."""
    with pytest.raises(Exception, match="security is one of None, 'ssl'"):
        ottla.Cluster(security="tls")
