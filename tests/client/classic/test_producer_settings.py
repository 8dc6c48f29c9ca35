"""The producer's settings: mistakes are told before a connection is made."""

from __future__ import annotations

import pytest

from ottla.classic import Producer
from ottla.client.classic.producer_settings import ClassicProducerConfig
from ottla.protocol.ports import Address
from ottla.protocol.records.compression import Codec


@pytest.mark.parametrize(
    ("properties", "words"),
    [
        ({}, "give one of the two"),
        ({"zk.connect": "h:1", "broker.list": "h:1"}, "give one of the two"),
        ({"broker.list": "h:1", "producer.type": "x"}, "one of sync, async"),
        ({"broker.list": "h:1", "partitioner.class": "no.such.Class"}, "no class"),
        ({"broker.list": "h:1", "event.handler": "nothing"}, "no class"),
        ({"broker.list": "h:1", "compression.codec": "9"}, "one of"),
        ({"broker.list": "h:1", "request.required.acks": "2"}, "one of"),
        ({"broker.list": "h:1", "queue.tim": "2"}, "did you mean 'queue.time'"),
    ],
)
def test_a_wrong_setting_of_a_producer_is_told(properties: dict[str, object], words: str) -> None:
    """Before any connection is made."""
    with pytest.raises(ValueError, match=words):
        Producer(properties)


def test_the_names_of_both_versions_mean_the_same() -> None:
    """Also with the ids that 0.7 puts before the addresses."""
    old = ClassicProducerConfig.read(
        {
            "broker.list": "0:a:1, 1:b:2",
            "queue.time": "200",
            "batch.size": 50,
            "compression.codec": 1,
        }
    )
    new = ClassicProducerConfig.read(
        {
            "metadata.broker.list": "a:1,b:2",
            "queue.buffering.max.ms": 200,
            "batch.num.messages": "50",
            "compression.codec": "gzip",
        }
    )

    assert old == new
    assert old.brokers == (Address("a", 1), Address("b", 2))
    assert (old.queue_time_ms, old.batch_size, old.codec) == (200, 50, Codec.GZIP)
