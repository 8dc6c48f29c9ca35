"""Subscriptions to metrics of clients (KIP-714): the settings of resources of type 16."""

from __future__ import annotations

import re
from types import MappingProxyType
from typing import TYPE_CHECKING

from ottla.coordinator.configs.config_changes import ConfigAlteration, change_known, check_known
from ottla.coordinator.configs.configs import EffectiveConfig, described
from ottla.coordinator.configs.definitions import (
    BadValue,
    Definition,
    Update,
    define,
    read_table,
    unknown,
)
from ottla.coordinator.patterns import compile_pattern
from ottla.protocol.configs import ConfigOperation, ConfigSource
from ottla.protocol.data_classes import dataclass
from ottla.protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

INT32_MAX = 2**31 - 1
_INT32 = re.compile(r"[+-]?[0-9]{1,10}", re.ASCII)
METRICS = "metrics"
INTERVAL = "interval.ms"
MATCH = "match"

_TABLE = """
interval.ms | int | 300000 | 100..3600000 | yes | -
    Time in milliseconds between two pushes of a client.
match | list | "" | - | yes | -
    Which clients push: attribute=expression, for client_id, client_instance_id, \
client_software_name, client_software_version, client_source_address, client_source_port.
metrics | list | "" | - | yes | -
    Beginnings of the names of the metrics that are pushed; * is each metric, empty is none.
"""
ATTRIBUTES = (
    "client_instance_id",
    "client_id",
    "client_software_name",
    "client_software_version",
    "client_source_address",
    "client_source_port",
)


def _read() -> Mapping[str, Definition]:
    definitions = [
        define(columns, words, Update.CLUSTER_WIDE)
        for columns, words in read_table(_TABLE.replace("\\\n", ""))
    ]
    return MappingProxyType({definition.name: definition for definition in definitions})


CLIENT_METRICS_CONFIGS = _read()


@dataclass(frozen=True, slots=True)
class MetricsSubscription:
    """One subscription, typed. ``patterns``: predicates of attributes, all of which must hold."""

    metrics: tuple[str, ...]
    interval_ms: int
    patterns: Mapping[str, Callable[[str], bool]]

    def matches(self, attributes: Mapping[str, str]) -> bool:
        """Whether a client with these attributes is meant; each pattern covers the whole text."""
        return all(holds(attributes.get(name, "")) for name, holds in self.patterns.items())


def metrics_subscription(values: Mapping[str, str]) -> MetricsSubscription:
    """The subscription that the texts describe. Raises BadValue with one sentence."""
    interval = _value(INTERVAL, values)
    assert isinstance(interval, int)
    return MetricsSubscription(_items(METRICS, values), interval, _patterns(_items(MATCH, values)))


def _value(name: str, values: Mapping[str, str]) -> object:
    definition = CLIENT_METRICS_CONFIGS[name]
    return definition.parse(values.get(name, definition.default or ""))


def _items(name: str, values: Mapping[str, str]) -> tuple[str, ...]:
    found = _value(name, values)
    assert isinstance(found, tuple)
    return tuple(item for item in found if item)


def _patterns(items: Sequence[str]) -> Mapping[str, Callable[[str], bool]]:
    found = {}
    for item in items:
        name, equals, expression = (part.strip() for part in item.partition("="))
        if not equals or name not in ATTRIBUTES:
            known = ", ".join(ATTRIBUTES)
            raise BadValue(
                f"{MATCH} holds {item!r}: write attribute=expression with one of {known}"
            )
        try:
            found[name] = compile_pattern(expression)
        except ValueError as error:
            raise BadValue(f"{MATCH}: the expression {expression!r} is illegal: {error}") from None
    return MappingProxyType(found)


class ClientMetricsRules:
    """What the settings of a subscription may be. Functions that are loaded together."""

    @staticmethod
    def check(values: Mapping[str, str | None]) -> dict[str, str]:
        """The whole set, as AlterConfigs brings it. Raises KafkaError."""
        _refuse_as_kafka(values)
        checked = check_known(values, CLIENT_METRICS_CONFIGS, "client metrics")
        _check_together(checked)
        return checked

    @staticmethod
    def change(current: Mapping[str, str], changes: Sequence[ConfigAlteration]) -> dict[str, str]:
        """The settings after an incremental change. Raises KafkaError."""
        wanted = [one for one in changes if one.operation != ConfigOperation.DELETE]
        _refuse_as_kafka({one.name: one.value for one in wanted})
        changed = change_known(current, changes, CLIENT_METRICS_CONFIGS, "client metrics")
        _check_together(changed)
        return changed

    @staticmethod
    def describe(stored: Mapping[str, str]) -> list[EffectiveConfig]:
        """Every setting of the subscription, sorted by name."""
        source = ConfigSource.CLIENT_METRICS
        return [
            described(name, definition, definition.default, stored.get(name), source)
            for name, definition in CLIENT_METRICS_CONFIGS.items()
        ]


def _refuse_as_kafka(values: Mapping[str, str | None]) -> None:
    """Kafka answers INVALID_REQUEST, not INVALID_CONFIG, for an unknown name and for an interval
    outside of its range; a text that is no number, and a bad ``match``, are INVALID_CONFIG."""
    for name in values:
        if name not in CLIENT_METRICS_CONFIGS:
            text = unknown(name, "client metrics", CLIENT_METRICS_CONFIGS)
            raise KafkaError(ErrorCode.INVALID_REQUEST, text)
    interval = (values.get(INTERVAL) or "").strip()
    problem = CLIENT_METRICS_CONFIGS[INTERVAL].problem(interval)
    if problem is not None and _INT32.fullmatch(interval) and abs(int(interval)) <= INT32_MAX:
        raise KafkaError(ErrorCode.INVALID_REQUEST, problem)


def _check_together(values: Mapping[str, str]) -> None:
    try:
        metrics_subscription(values)
    except BadValue as error:
        raise KafkaError(ErrorCode.INVALID_CONFIG, str(error)) from None
