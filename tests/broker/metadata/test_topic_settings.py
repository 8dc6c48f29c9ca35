"""A topic's configuration in the terms of its log and its replicas."""

from __future__ import annotations

import random

import pytest

from ottla.broker.metadata.topic_settings import topic_settings
from ottla.broker.replica.append import AppendPlan, AppendRules, ReadReason
from ottla.broker.replica.record_checks import look_at_length, look_here
from ottla.coordinator.configs.configs import ConfigSources, topic_config
from ottla.protocol.errors import ErrorCode
from ottla.protocol.records.batch import parse_batch
from ottla.protocol.records.builder import BatchOptions, encode_batch
from ottla.protocol.records.compression import Codec

DRAWN = random.Random(7)
WORDS = b" ".join(b"word%d" % DRAWN.randrange(500) for _ in range(20_000))


def rules_of(configs: dict[str, str]) -> AppendRules:
    """The rules for produced batches under these settings of a topic."""
    return topic_settings(topic_config(configs, ConfigSources())).append_rules


@pytest.mark.parametrize(
    ("configs", "level"),
    [
        ({"compression.type": "gzip"}, None),
        ({"compression.type": "gzip", "compression.gzip.level": "9"}, 9),
        ({"compression.type": "lz4"}, None),
        ({"compression.type": "lz4", "compression.lz4.level": "1"}, 1),
        ({"compression.type": "lz4", "compression.lz4.level": "17"}, 16),
        ({"compression.type": "zstd"}, 3),
        ({"compression.type": "zstd", "compression.zstd.level": "-5"}, -5),
        ({"compression.type": "snappy", "compression.zstd.level": "19"}, None),
        ({"compression.type": "producer", "compression.gzip.level": "9"}, None),
    ],
)
def test_the_level_of_the_topics_codec_counts(configs: dict[str, str], level: int | None) -> None:
    """The levels of other codecs have no effect; defaults are the codec's usual compressor."""
    assert rules_of(configs).compression_level == level


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4, Codec.ZSTD])
def test_the_broker_compresses_at_the_level_of_the_topic(codec: Codec) -> None:
    """A higher level stores fewer bytes of the same batch (KIP-390)."""
    name = codec.name.lower()
    produced = encode_batch([(0, None, WORDS, ())], BatchOptions())
    sizes = []
    for level in ("1", {"gzip": "9", "lz4": "12", "zstd": "19"}[name]):
        rules = rules_of({"compression.type": name, f"compression.{name}.level": level})
        batch = parse_batch(memoryview(bytearray(produced)))
        plan = AppendPlan(ErrorCode.NONE, None, batch, ReadReason.CODEC, codec)
        stored = look_at_length(plan, rules, 0).plan.batch
        assert stored is not None
        sizes.append(stored.size_bytes)

    assert sizes[1] < sizes[0] < len(produced)


@pytest.mark.parametrize(
    ("codec", "level", "is_quick"),
    [
        (Codec.GZIP, -1, True),
        (Codec.GZIP, 9, False),
        (Codec.LZ4, 9, True),
        (Codec.LZ4, 12, False),
        (Codec.ZSTD, 3, True),
        (Codec.ZSTD, 22, False),
    ],
)
def test_a_slow_level_is_left_to_a_worker_thread(codec: Codec, level: int, is_quick: bool) -> None:
    """A small batch that grows to 256 KiB would stop the event loop for half a second (zstd 22)."""
    name = codec.name.lower()
    rules = rules_of({"compression.type": name, f"compression.{name}.level": str(level)})
    produced = encode_batch([(0, None, WORDS[:1_000], ())], BatchOptions())
    batch = parse_batch(memoryview(bytearray(produced)))
    plan = AppendPlan(ErrorCode.NONE, None, batch, ReadReason.CODEC, codec)

    assert (look_here(plan, rules, 0) is not None) is is_quick
