"""Effective configurations: precedence, units, sources and synonyms."""

from __future__ import annotations

import pytest

from ottla.coordinator.configs.configs import (
    ConfigSources,
    EffectiveConfig,
    Synonym,
    TopicConfig,
    describe_broker,
    describe_topic,
    topic_config,
)
from ottla.protocol.configs import ConfigSource

HOUR_MS = 3_600_000
NOTHING = ConfigSources()


def _topic_entry(name: str, overrides: dict[str, str], sources: ConfigSources) -> EffectiveConfig:
    return {entry.name: entry for entry in describe_topic(overrides, sources)}[name]


def _broker_entry(name: str, sources: ConfigSources) -> EffectiveConfig:
    return {entry.name: entry for entry in describe_broker(sources)}[name]


def test_defaults_are_kafkas() -> None:
    """A topic without settings of its own keeps a week in segments of a gigabyte."""
    config = topic_config({}, NOTHING)

    assert (config.retention_ms, config.retention_bytes) == (168 * HOUR_MS, -1)
    assert (config.segment_bytes, config.segment_ms) == (2**30, 168 * HOUR_MS)
    assert (config.flush_messages, config.flush_ms) == (2**63 - 1, 2**63 - 1)
    assert (config.is_deleted, config.is_compacted) == (True, False)
    assert config.compression_type == "producer"


def test_flush_settings_exist_and_are_off() -> None:
    """By default durability comes from replication, not from forcing the disk."""
    config = topic_config({"flush.messages": "100", "flush.ms": "1000"}, NOTHING)

    assert (config.flush_messages, config.flush_ms) == (100, 1000)


@pytest.mark.parametrize(
    ("static", "expected"),
    [
        ({"log.retention.hours": "2"}, 2 * HOUR_MS),
        ({"log.retention.hours": "2", "log.retention.minutes": "3"}, 180_000),
        ({"log.retention.minutes": "3", "log.retention.ms": "4"}, 4),
        ({"log.retention.hours": "-1"}, -1),
        ({"log.retention.minutes": "-5"}, -1),
        ({"log.retention.ms": "-1", "log.retention.hours": "2"}, -1),
        ({"log.retention.hours": "2147483647"}, 2147483647 * HOUR_MS),
    ],
)
def test_the_finest_unit_wins_and_is_converted(static: dict[str, str], expected: int) -> None:
    """Hours, minutes and ms are one setting; the wrong one deletes data early."""
    assert topic_config({}, ConfigSources(static=static)).retention_ms == expected


@pytest.mark.parametrize(
    ("static", "field", "expected"),
    [
        ({"log.roll.hours": "1"}, "segment_ms", HOUR_MS),
        ({"log.roll.hours": "1", "log.roll.ms": "5"}, "segment_ms", 5),
        ({"log.roll.jitter.hours": "1"}, "segment_jitter_ms", HOUR_MS),
        ({"log.flush.scheduler.interval.ms": "50"}, "flush_ms", 50),
        ({"log.flush.scheduler.interval.ms": "50", "log.flush.interval.ms": "9"}, "flush_ms", 9),
        ({"message.max.bytes": "77"}, "max_message_bytes", 77),
        ({"log.segment.delete.delay.ms": "6"}, "file_delete_delay_ms", 6),
        ({"log.cleanup.policy": "compact,delete"}, "cleanup_policy", ("compact", "delete")),
    ],
)
def test_topics_inherit_from_brokers(static: dict[str, str], field: str, expected: object) -> None:
    """The broker's names differ from the topic's; each must land in its place."""
    assert getattr(topic_config({}, ConfigSources(static=static)), field) == expected


def test_a_stronger_source_wins_whatever_the_unit() -> None:
    """Hours set dynamically beat milliseconds in the file (KIP-226)."""
    sources = ConfigSources(
        cluster_wide={"log.retention.hours": "1"}, static={"log.retention.ms": "5"}
    )

    assert topic_config({}, sources).retention_ms == HOUR_MS
    assert topic_config({"retention.ms": "9"}, sources).retention_ms == 9


@pytest.mark.parametrize(
    ("overrides", "static", "expected"),
    [
        ({}, {}, (2**63 - 1, 2**63 - 1)),
        ({"message.timestamp.difference.max.ms": "5"}, {}, (5, 5)),
        ({}, {"log.message.timestamp.difference.max.ms": "6"}, (6, 6)),
        (
            {
                "message.timestamp.difference.max.ms": "5",
                "message.timestamp.before.max.ms": "7",
            },
            {},
            (7, 5),
        ),
    ],
)
def test_the_older_timestamp_limit_holds_for_both_halves(
    overrides: dict[str, str], static: dict[str, str], expected: tuple[int, int]
) -> None:
    """KIP-937 split one setting in two; files from before it must go on to work."""
    config = topic_config(overrides, ConfigSources(static=static))

    assert expected == (
        config.message_timestamp_before_max_ms,
        config.message_timestamp_after_max_ms,
    )


@pytest.mark.parametrize("text", ["", "abc", "-9", "99999999999999999999"])
def test_a_broken_value_in_the_store_counts_as_not_set(text: str) -> None:
    """Another program may write the store; its mistake must not stop a partition."""
    sources = ConfigSources(per_broker={"log.retention.ms": text}, static={"log.retention.ms": "7"})

    assert topic_config({"retention.ms": text, "no.such": "1"}, sources).retention_ms == 7
    entry = _topic_entry("retention.ms", {"retention.ms": text}, sources)
    assert (entry.value, entry.source) == ("7", ConfigSource.STATIC_BROKER)


def test_topic_entries_tell_value_source_and_synonyms() -> None:
    """What a console shows (KIP-226), strongest first, each in its own unit."""
    sources = ConfigSources(
        per_broker={"log.retention.ms": "60"},
        cluster_wide={"log.retention.minutes": "50"},
        static={"log.retention.hours": "40"},
    )

    entry = _topic_entry("retention.ms", {"retention.ms": "70"}, sources)

    assert (entry.value, entry.source) == ("70", ConfigSource.TOPIC)
    assert (entry.is_default, entry.is_read_only, entry.is_sensitive) == (False, False, False)
    assert entry.synonyms == (
        Synonym("retention.ms", "70", ConfigSource.TOPIC),
        Synonym("log.retention.ms", "60", ConfigSource.DYNAMIC_BROKER),
        Synonym("log.retention.minutes", "50", ConfigSource.DYNAMIC_DEFAULT_BROKER),
        Synonym("log.retention.hours", "40", ConfigSource.STATIC_BROKER),
        Synonym("log.retention.hours", "168", ConfigSource.DEFAULT),
    )


def test_inherited_topic_entry_shows_the_topics_unit() -> None:
    """The value is milliseconds; where it came from was hours."""
    entry = _topic_entry("retention.ms", {}, ConfigSources(static={"log.retention.hours": "40"}))

    assert (entry.value, entry.source) == (str(40 * HOUR_MS), ConfigSource.STATIC_BROKER)


def test_untouched_topic_entries_are_defaults() -> None:
    """Version 0 of DescribeConfigs knows only this flag."""
    entries = describe_topic({}, NOTHING)

    assert all(entry.is_default for entry in entries)
    assert {entry.name for entry in entries} >= {"retention.ms", "cleanup.policy"}
    by_name = {entry.name: entry for entry in entries}
    assert by_name["remote.storage.enable"].synonyms == ()
    assert by_name["preallocate"].value == "false"
    assert all(entry.value is not None for entry in entries)


def test_broker_entries_tell_value_source_and_synonyms() -> None:
    """Sources 2 to 5 in their order."""
    sources = ConfigSources(
        per_broker={"num.io.threads": "3"},
        cluster_wide={"num.io.threads": "2"},
        static={"num.io.threads": "1"},
    )

    entry = _broker_entry("num.io.threads", sources)

    assert entry.value == "3"
    assert [(synonym.value, int(synonym.source)) for synonym in entry.synonyms] == [
        ("3", 2),
        ("2", 3),
        ("1", 4),
        ("8", 5),
    ]
    assert not entry.is_read_only
    assert _broker_entry("broker.id", sources).is_read_only


def test_broker_entry_lists_weaker_units_after_its_own() -> None:
    """Minutes shadow hours, so hours are shown under minutes and not the other way round."""
    sources = ConfigSources(static={"log.retention.minutes": "5", "log.retention.hours": "6"})

    minutes = _broker_entry("log.retention.minutes", sources)
    hours = _broker_entry("log.retention.hours", sources)

    assert [synonym.value for synonym in minutes.synonyms] == ["5", "6", "168"]
    assert [synonym.value for synonym in hours.synonyms] == ["6", "168"]
    assert _broker_entry("log.retention.ms", sources).value is None


def test_secrets_are_never_described() -> None:
    """Passwords, and prefixed names whose type the broker does not know."""
    sources = ConfigSources(
        static={
            "ssl.key.password": "hunter2",
            "listener.name.a.ssl.key.password": "hunter2",
        }
    )

    for name in sources.static:
        entry = _broker_entry(name, sources)
        assert entry.is_sensitive
        assert "hunter2" not in repr(entry)


def test_topic_config_is_a_value() -> None:
    """Equal settings compare equal, so that the broker can see that nothing has changed."""
    assert topic_config({"segment.ms": "5"}, NOTHING) == topic_config({"segment.ms": " 5"}, NOTHING)
    assert isinstance(topic_config({}, NOTHING), TopicConfig)
