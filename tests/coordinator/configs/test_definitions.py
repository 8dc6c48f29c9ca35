"""The tables of settings, and the values that each type takes."""

from __future__ import annotations

import re

import pytest

from ottla.coordinator.configs.broker_configs_table import BROKER_CONFIGS
from ottla.coordinator.configs.definitions import (
    AT_START_NOTE,
    BadValue,
    ConfigType,
    Definition,
    Update,
    render,
)
from ottla.coordinator.configs.topic_configs import TOPIC_CONFIGS, milliseconds_per_unit
from tests.support.broker_process import ROOT

EVERY: list[Definition] = [*TOPIC_CONFIGS.values(), *BROKER_CONFIGS.values()]


def test_tables_are_sorted_and_complete() -> None:
    """3.9 has 36 settings of topics and 314 of brokers, beside those it does not document,
    one of 0.8 that old files still have, one of librdkafka and two of Kafka's authorizers."""
    for table in (TOPIC_CONFIGS, BROKER_CONFIGS):
        kafka = [name for name in table if not name.startswith("ottla.")]
        assert kafka == sorted(kafka)
    assert len([name for name in TOPIC_CONFIGS if not name.startswith("ottla.")]) == 36
    assert len([name for name in BROKER_CONFIGS if not name.startswith("ottla.")]) == 325


@pytest.mark.parametrize("definition", EVERY, ids=lambda definition: definition.name)
def test_every_definition_holds_together(definition: Definition) -> None:
    """A default must be legal, and the sentence must be one."""
    if definition.default is not None:
        assert render(definition.parse(definition.default)) in (
            definition.default,
            render(float("1.7976931348623157E308")),
        )
    assert definition.documentation.endswith(".")
    assert definition.documentation[0].isupper()
    assert definition.is_sensitive == (definition.config_type is ConfigType.PASSWORD)


def test_what_topics_inherit_exists_and_agrees() -> None:
    """An inherited setting must have the same meaning, hence the same kind and default."""
    for definition in TOPIC_CONFIGS.values():
        for name in definition.inherits:
            broker = BROKER_CONFIGS[name]
            unit_ms = milliseconds_per_unit(name)
            if unit_ms == 1:
                kinds = {definition.config_type, broker.config_type}
                assert len(kinds) == 1 or kinds == {ConfigType.INT, ConfigType.LONG}
            if broker.default is not None and name == definition.inherits[-1]:
                value = broker.parse(broker.default)
                inherited = value * unit_ms if isinstance(value, int) else value
                assert inherited == definition.parse(definition.default or "")


@pytest.mark.parametrize(
    ("name", "unit_ms"),
    [("log.retention.hours", 3_600_000), ("log.retention.minutes", 60_000), ("log.roll.ms", 1)],
)
def test_units_follow_the_name(name: str, unit_ms: int) -> None:
    """An hour taken for a millisecond deletes a week of data."""
    assert milliseconds_per_unit(name) == unit_ms


def test_updates_are_known() -> None:
    """DescribeConfigs tells a console which settings it may offer for change."""
    assert BROKER_CONFIGS["log.retention.ms"].update is Update.CLUSTER_WIDE
    assert BROKER_CONFIGS["listeners"].update is Update.PER_BROKER
    assert BROKER_CONFIGS["broker.id"].update is Update.READ_ONLY


LEGAL: list[tuple[str, str, object]] = [
    ("retention.ms", " -1 ", -1),
    ("retention.ms", "+5", 5),
    ("retention.ms", "9223372036854775807", 2**63 - 1),
    ("preallocate", "TRUE", True),
    ("preallocate", " false", False),
    ("min.cleanable.dirty.ratio", "1", 1.0),
    ("min.cleanable.dirty.ratio", ".5e-1", 0.05),
    ("cleanup.policy", "compact , delete", ("compact", "delete")),
    ("cleanup.policy", "", ()),
    ("compression.type", "zstd", "zstd"),
    ("compression.gzip.level", "-1", -1),
    ("compression.gzip.level", "9", 9),
    ("compression.zstd.level", "-131072", -131072),
    ("leader.replication.throttled.replicas", "*", ("*",)),
    ("leader.replication.throttled.replicas", "0:1,12:345", ("0:1", "12:345")),
    ("segment.bytes", "14", 14),
]
ILLEGAL = [
    ("retention.ms", "-2"),
    ("retention.ms", "9223372036854775808"),
    ("retention.ms", ""),
    ("retention.ms", "1_000"),
    ("retention.ms", "\u0661"),
    ("retention.ms", "1.0"),
    ("retention.ms", "7d"),
    ("preallocate", "yes"),
    ("preallocate", ""),
    ("min.cleanable.dirty.ratio", "1.01"),
    ("min.cleanable.dirty.ratio", "nan"),
    ("min.cleanable.dirty.ratio", "inf"),
    ("cleanup.policy", "compact,,delete"),
    ("cleanup.policy", "compress"),
    ("compression.type", "brotli"),
    ("compression.gzip.level", "0"),
    ("compression.gzip.level", "10"),
    ("compression.lz4.level", "18"),
    ("leader.replication.throttled.replicas", "0:1,*"),
    ("leader.replication.throttled.replicas", "0"),
    ("segment.bytes", "13"),
    ("segment.bytes", "2147483648"),
    ("min.insync.replicas", "0"),
]


@pytest.mark.parametrize(("name", "text", "value"), LEGAL)
def test_legal_values(name: str, text: str, value: object) -> None:
    """Every value that Kafka's parser accepts is accepted."""
    assert TOPIC_CONFIGS[name].parse(text) == value
    assert TOPIC_CONFIGS[name].problem(text) is None


@pytest.mark.parametrize(("name", "text"), ILLEGAL)
def test_illegal_values_get_a_sentence(name: str, text: str) -> None:
    """Each is a step away from a legal one; the client reads name, value and reason."""
    definition = TOPIC_CONFIGS[name]

    with pytest.raises(BadValue):
        definition.parse(text)
    problem = definition.problem(text)
    assert problem is not None
    assert name in problem
    assert repr(text) in problem


def test_a_setting_that_a_broker_reads_has_an_effect() -> None:
    """A broker warns of a setting without one, and an operator removes it then."""
    read = {
        name
        for room in ("broker", "coordinator")
        for path in (ROOT / room).rglob("*.py")
        if path.parent.name != "configs"
        for found in re.findall(r'\.(\w+)|"([a-z0-9.]+)"', path.read_text("utf-8"))
        for name in found
    }

    wrong = [
        definition.name
        for definition in EVERY
        if not definition.has_effect
        and {definition.name, definition.name.replace(".", "_")} & read
        # With the rules of Kafka 0.8 alone.
        and definition.name != "replica.lag.max.messages"
    ]
    assert wrong == []


def test_a_setting_that_is_read_at_the_start_says_so() -> None:
    """Kafka's tools may set it at any time, and it would be described as if it were in force."""
    assert BROKER_CONFIGS["num.replica.fetchers"].is_read_at_start
    assert BROKER_CONFIGS["num.replica.fetchers"].documentation.endswith(AT_START_NOTE)
    assert not BROKER_CONFIGS["log.retention.ms"].is_read_at_start


def test_a_setting_that_can_be_changed_is_read_while_the_broker_runs() -> None:
    """A change that is stored, described as in force and obeyed by no broker misleads operators."""
    words = set()
    for room in ("broker", "coordinator", "wire"):
        for path in (ROOT / room).rglob("*.py"):
            text = path.read_text("utf-8")
            if path.name == "broker_configs.py":
                # What it reads of the file alone stands there as a field.
                words |= set(re.findall(r'sources\.\w+\("([a-z0-9.]+)"', text))
            elif path.name != "broker_configs_table.py":
                words |= set(re.findall(r'"([a-z0-9.]+)"', text))
    inherited = {name for one in TOPIC_CONFIGS.values() for name in one.inherits}
    unread = [
        one.name
        for one in BROKER_CONFIGS.values()
        if one.update is not Update.READ_ONLY
        and one.has_effect
        and not one.is_read_at_start
        and one.name not in words | inherited
    ]
    assert unread == []


def test_a_secret_never_shows_in_a_problem() -> None:
    """Sentences end in logs and in other people's terminals."""
    secret = BROKER_CONFIGS["ssl.key.password"]
    assert secret.is_sensitive
    assert secret.problem("hunter2") is None
    assert secret.parse(" spaces count ") == " spaces count "
