"""The settings that one group may have of its own (KIP-848), and what they are where it has none.

A group's value must lie within the bounds that the broker's settings draw for all groups.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from ottla.coordinator.configs.configs import ConfigSources, EffectiveConfig, described
from ottla.coordinator.configs.definitions import BadValue, Definition, Update, define, read_table
from ottla.protocol.configs import ConfigSource
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

SESSION = "consumer.session.timeout.ms"
INTERVAL = "consumer.heartbeat.interval.ms"

_TABLE = """
consumer.heartbeat.interval.ms | int | 5000 | >=1 | yes | group.consumer.heartbeat.interval.ms
    Time between heartbeats that the group's members are given.
consumer.session.timeout.ms | int | 45000 | >=1 | yes | group.consumer.session.timeout.ms
    Silence after which a member leaves the group.
"""


def _read() -> Mapping[str, Definition]:
    definitions = [
        define(columns, words, Update.CLUSTER_WIDE) for columns, words in read_table(_TABLE)
    ]
    return MappingProxyType({definition.name: definition for definition in definitions})


GROUP_CONFIGS = _read()


class GroupTimes(NamedTuple):
    """What counts for one group, in milliseconds."""

    session_timeout_ms: int
    heartbeat_interval_ms: int


def group_times(overrides: Mapping[str, str], sources: ConfigSources) -> GroupTimes:
    """What counts for a group with these settings of its own.

    What is beyond the bounds, which may have been drawn anew since it was set, counts as the bound;
    what cannot be read counts as not set."""
    return GroupTimes(
        _effective(SESSION, overrides, sources), _effective(INTERVAL, overrides, sources)
    )


def _effective(name: str, overrides: Mapping[str, str], sources: ConfigSources) -> int:
    try:
        value = GROUP_CONFIGS[name].parse(overrides[name])
    except (KeyError, BadValue):
        return _of_brokers(name, "", sources)
    assert isinstance(value, int)
    low, high = (_of_brokers(name, bound, sources) for bound in ("min.", "max."))
    return max(low, min(value, high))


def _of_brokers(name: str, bound: str, sources: ConfigSources) -> int:
    """The broker's setting for all groups, or the bound that it draws."""
    return int(sources.text(_setting_of_brokers(name, bound)) or 0)


def _setting_of_brokers(name: str, bound: str = "") -> str:
    return f"group.consumer.{bound}{name.removeprefix('consumer.')}"


def contradiction(values: Mapping[str, str], sources: ConfigSources) -> str | None:
    """One sentence on what is wrong with settings that are legal by themselves."""
    numbers = {
        name: int(values[name]) if name in values else _of_brokers(name, "", sources)
        for name in GROUP_CONFIGS
    }
    for name in GROUP_CONFIGS.keys() & values.keys():
        low, high = (_of_brokers(name, bound, sources) for bound in ("min.", "max."))
        if not low <= numbers[name] <= high:
            return (
                f"{name} is {numbers[name]}, which is not between "
                f"{_setting_of_brokers(name, 'min.')} ({low}) and "
                f"{_setting_of_brokers(name, 'max.')} ({high})"
            )
    if numbers[INTERVAL] >= numbers[SESSION]:
        return f"{INTERVAL} ({numbers[INTERVAL]}) is not less than {SESSION} ({numbers[SESSION]})"
    return None


def describe_group(overrides: Mapping[str, str], sources: ConfigSources) -> list[EffectiveConfig]:
    """Every setting of a group, sorted by name. What brokers say counts as a default."""
    return [
        described(
            name,
            definition,
            str(_of_brokers(name, "", sources)),
            overrides.get(name),
            ConfigSource.GROUP,
        )
        for name, definition in GROUP_CONFIGS.items()
    ]
