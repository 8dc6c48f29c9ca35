"""Settings of single groups: legal, within the broker's bounds, and what counts without them."""

from __future__ import annotations

import pytest

from ottla.coordinator.configs.config_changes import (
    ConfigAlteration,
    change_group_configs,
    check_group_configs,
)
from ottla.coordinator.configs.configs import ConfigSources
from ottla.coordinator.configs.group_configs import describe_group, group_times
from ottla.protocol.configs import ConfigOperation, ConfigSource
from ottla.protocol.errors import ErrorCode, KafkaError

SESSION = "consumer.session.timeout.ms"
INTERVAL = "consumer.heartbeat.interval.ms"
BROKER = ConfigSources(static={f"group.{SESSION}": "50000"})


def test_what_is_not_set_for_the_group_is_the_brokers() -> None:
    """The file first, then Kafka's default."""
    assert group_times({}, BROKER) == (50_000, 5_000)
    assert group_times({INTERVAL: "6000"}, BROKER) == (50_000, 6_000)


@pytest.mark.parametrize(
    ("text", "counts_ms"), [("59000", 59_000), ("99000", 60_000), ("1", 45_000), ("x", 50_000)]
)
def test_what_is_stored_counts_within_the_bounds_of_today(text: str, counts_ms: int) -> None:
    """The bounds may have changed since; the group must load all the same."""
    assert group_times({SESSION: text}, BROKER).session_timeout_ms == counts_ms


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({SESSION: "44999"}, "group.consumer.min.session.timeout.ms (45000)"),
        ({SESSION: "60001"}, "group.consumer.max.session.timeout.ms (60000)"),
        ({INTERVAL: "4999"}, "group.consumer.min.heartbeat.interval.ms (5000)"),
        ({INTERVAL: "15001"}, "group.consumer.max.heartbeat.interval.ms (15000)"),
        ({SESSION: "soon"}, "whole number"),
        ({"share.lock.ms": "1"}, "share.lock.ms"),
    ],
)
def test_what_cannot_be_is_refused(values: dict[str, str], sentence: str) -> None:
    """As a whole and one by one alike."""
    changes = [ConfigAlteration(name, ConfigOperation.SET, text) for name, text in values.items()]

    with pytest.raises(KafkaError) as replacing:
        check_group_configs(values, BROKER)
    with pytest.raises(KafkaError) as changing:
        change_group_configs({}, changes, BROKER)

    for refused in (replacing.value, changing.value):
        assert refused.code is ErrorCode.INVALID_CONFIG
        assert sentence in str(refused)


def test_a_session_outlasts_the_time_between_heartbeats() -> None:
    """Otherwise every member is removed before it may say that it lives."""
    bounds = {f"group.consumer.{bound}.session.timeout.ms": "6000" for bound in ("min", "max")}

    with pytest.raises(KafkaError, match="is not less than"):
        check_group_configs({SESSION: "6000", INTERVAL: "7000"}, ConfigSources(static=bounds))


def test_a_setting_can_be_taken_back() -> None:
    """Settings that a change does not name stay."""
    changes = [ConfigAlteration(SESSION, ConfigOperation.DELETE, None)]

    assert change_group_configs({SESSION: "50000", INTERVAL: "6000"}, changes, BROKER) == {
        INTERVAL: "6000"
    }


def test_a_description_tells_what_counts_and_where_it_comes_from() -> None:
    """Sorted by name."""
    interval, session = describe_group({INTERVAL: "6000"}, BROKER)

    assert (interval.name, interval.value, interval.source) == (
        INTERVAL,
        "6000",
        ConfigSource.GROUP,
    )
    assert [one.value for one in interval.synonyms] == ["6000", "5000"]
    assert (session.value, session.source) == ("50000", ConfigSource.DEFAULT)
