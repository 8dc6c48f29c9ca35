"""What an operator writes about groups is what their coordinator decides by."""

from __future__ import annotations

import pytest

from ottla.broker.coordinating.groups import group_settings
from ottla.coordinator.configs.broker_configs import ConfigError, parse_broker_config
from ottla.coordinator.group.common.settings import GroupSettings

JAVA = "org.apache.kafka.coordinator.group.assignor."


def _settings(**texts: str) -> GroupSettings:
    written = {f"group.consumer.{name.replace('_', '.')}": text for name, text in texts.items()}
    parsed = parse_broker_config(written)
    assert parsed.warnings == ()
    return group_settings(parsed.config)


def test_what_is_not_set_is_what_the_coordinator_takes_for_granted() -> None:
    """Two lists of defaults that drift apart would make tests of machines worthless."""
    settings = _settings()

    assert settings.consumer_assignors == GroupSettings().consumer_assignors
    assert settings.consumer_migration_policy == GroupSettings().consumer_migration_policy
    assert settings.consumer_session_timeout_ms == GroupSettings().consumer_session_timeout_ms
    assert settings.consumer_heartbeat_interval_ms == 5_000
    assert settings.consumer_max_size == GroupSettings().consumer_max_size


@pytest.mark.parametrize(
    ("text", "assignors"),
    [
        ("range,uniform", ("range", "uniform")),
        (f"{JAVA}RangeAssignor, {JAVA}UniformAssignor", ("range", "uniform")),
        (f"uniform,{JAVA}UniformAssignor", ("uniform",)),
        ("range", ("range",)),
    ],
)
def test_assignors_are_known_by_their_classes_and_their_names(
    text: str, assignors: tuple[str, ...]
) -> None:
    """A properties file from Kafka names the classes; the first assignor is the default."""
    assert _settings(assignors=text).consumer_assignors == assignors


@pytest.mark.parametrize("policy", ["bidirectional", "disabled", "downgrade", "upgrade"])
def test_the_migration_policy_reaches_the_coordinator(policy: str) -> None:
    """An operator forbids conversions because one of the clients cannot handle them."""
    assert _settings(migration_policy=policy).consumer_migration_policy == policy


def test_times_and_sizes_reach_the_coordinator() -> None:
    """Within the bounds that are set beside them."""
    settings = _settings(
        min_session_timeout_ms="1000",
        session_timeout_ms="2000",
        min_heartbeat_interval_ms="100",
        heartbeat_interval_ms="500",
        max_size="7",
    )

    assert settings.consumer_session_timeout_ms == 2_000
    assert settings.consumer_heartbeat_interval_ms == 500
    assert settings.consumer_max_size == 7


@pytest.mark.parametrize(
    ("texts", "sentence"),
    [
        ({"session_timeout_ms": "44999"}, "group.consumer.session.timeout.ms is 44999"),
        ({"max_session_timeout_ms": "44999"}, "group.consumer.session.timeout.ms is 45000"),
        ({"heartbeat_interval_ms": "15001"}, "group.consumer.heartbeat.interval.ms is 15001"),
        ({"min_heartbeat_interval_ms": "5001"}, "group.consumer.heartbeat.interval.ms is 5000"),
        (
            {
                "min_session_timeout_ms": "1",
                "session_timeout_ms": "5000",
            },
            "is not less than group.consumer.session.timeout.ms",
        ),
        ({"assignors": ""}, "group.consumer.assignors names no assignor"),
        ({"assignors": "com.acme.Own"}, "group.consumer.assignors cannot be"),
        ({"migration_policy": "sometimes"}, "group.consumer.migration.policy cannot be"),
        ({"max_size": "0"}, "group.consumer.max.size cannot be"),
    ],
)
def test_what_cannot_be_is_refused_at_the_start(texts: dict[str, str], sentence: str) -> None:
    """As Kafka does: later, every group of the broker would live by it."""
    with pytest.raises(ConfigError) as refused:
        _settings(**texts)

    assert sentence in str(refused.value)
