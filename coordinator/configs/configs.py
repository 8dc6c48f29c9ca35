"""Effective configurations: which value counts, where it comes from, and typed for use.

A topic's own value comes first, then the broker's (set for it alone, set for all, from its file;
in each of them the strongest of the settings that mean the same), then the default. All values
here are text that was checked when it was set; what cannot be read all the same, because another
program wrote it, counts as not set: a bad node in the store must not stop a partition.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from ottla.coordinator.configs.broker_configs_table import BROKER_CONFIGS
from ottla.coordinator.configs.definitions import BadValue, ConfigType, Update, render
from ottla.coordinator.configs.topic_configs import TOPIC_CONFIGS, milliseconds_per_unit
from ottla.protocol.configs import ConfigSource
from ottla.protocol.data_classes import dataclass
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ottla.coordinator.configs.definitions import Definition, Value

_NOTHING: Mapping[str, str] = MappingProxyType({})


class ConfigSources(NamedTuple):
    """What is set for brokers, strongest first: for this one, for all, and in its file."""

    per_broker: Mapping[str, str] = _NOTHING
    cluster_wide: Mapping[str, str] = _NOTHING
    static: Mapping[str, str] = _NOTHING

    def __repr__(self) -> str:
        # Some of the values are passwords.
        return "ConfigSources(...)"

    def layers(self) -> tuple[tuple[ConfigSource, Mapping[str, str]], ...]:
        """The three with their ids, strongest first."""
        return (
            (ConfigSource.DYNAMIC_BROKER, self.per_broker),
            (ConfigSource.DYNAMIC_DEFAULT_BROKER, self.cluster_wide),
            (ConfigSource.STATIC_BROKER, self.static),
        )

    def text(self, name: str) -> str | None:
        """The text that counts for one broker setting, its default included."""
        for _source, texts in self.layers():
            if name in texts:
                return texts[name]
        definition = BROKER_CONFIGS.get(name)
        return None if definition is None else definition.default


class Synonym(NamedTuple):
    """One place where a value could come from, as DescribeConfigs v1 shows it."""

    name: str
    value: str | None
    source: ConfigSource


class EffectiveConfig(NamedTuple):
    """One setting as DescribeConfigs v1 to v4 and CreateTopics v5 show it."""

    name: str
    value: str | None
    source: ConfigSource
    is_read_only: bool
    is_sensitive: bool
    synonyms: tuple[Synonym, ...]
    config_type: ConfigType
    documentation: str

    @property
    def is_default(self) -> bool:
        """The only source that version 0 knows."""
        return self.source is ConfigSource.DEFAULT


def described(
    name: str, definition: Definition, default: str | None, own: str | None, source: ConfigSource
) -> EffectiveConfig:
    """A setting that has a default and perhaps a value of its own, from ``source``."""
    synonyms = [Synonym(name, default, ConfigSource.DEFAULT)]
    if own is not None:
        synonyms.insert(0, Synonym(name, own, source))
    return EffectiveConfig(
        name=name,
        value=synonyms[0].value,
        source=synonyms[0].source,
        is_read_only=False,
        is_sensitive=False,
        synonyms=tuple(synonyms),
        config_type=definition.config_type,
        documentation=definition.documentation,
    )


@dataclass(frozen=True, slots=True)
class TopicConfig:
    """A topic's effective configuration, typed; made again whenever something changes.

    Field names are the settings' with underscores; those of our own settings lack ``ottla.``."""

    cleanup_policy: tuple[str, ...]
    compression_gzip_level: int
    compression_lz4_level: int
    compression_type: str
    compression_zstd_level: int
    delete_retention_ms: int
    file_delete_delay_ms: int
    flush_messages: int
    flush_ms: int
    follower_replication_throttled_replicas: tuple[str, ...]
    index_interval_bytes: int
    leader_replication_throttled_replicas: tuple[str, ...]
    max_compaction_lag_ms: int
    max_message_bytes: int
    message_downconversion_enable: bool
    message_timestamp_after_max_ms: int
    message_timestamp_before_max_ms: int
    message_timestamp_type: str
    min_cleanable_dirty_ratio: float
    min_compaction_lag_ms: int
    min_insync_replicas: int
    preallocate: bool
    retention_bytes: int
    retention_ms: int
    segment_bytes: int
    segment_index_bytes: int
    segment_jitter_ms: int
    segment_ms: int
    unclean_leader_election_enable: bool
    flush_before_ack: bool
    keep_message_format: bool
    validate_records: str

    @property
    def is_compacted(self) -> bool:
        return "compact" in self.cleanup_policy

    @property
    def is_deleted(self) -> bool:
        """Whether old segments are deleted by time and size."""
        return "delete" in self.cleanup_policy


def setting_name(field_name: str, known: Mapping[str, Definition]) -> str:
    """The setting behind a field of ``TopicConfig`` or ``BrokerConfig``."""
    name = field_name.replace("_", ".")
    return name if name in known else f"ottla.{name}"


_TOPIC_FIELDS = tuple(
    (name, TOPIC_CONFIGS[setting_name(name, TOPIC_CONFIGS)]) for name in TopicConfig.__match_args__
)
_DIFFERENCE = "message.timestamp.difference.max.ms"
_DIFFERENCE_FIELDS = ("message_timestamp_after_max_ms", "message_timestamp_before_max_ms")


def topic_config(overrides: Mapping[str, str], sources: ConfigSources) -> TopicConfig:
    """What counts for a topic with these settings of its own."""
    values: dict[str, Any] = {
        field_name: _topic_value(definition, overrides, sources)
        for field_name, definition in _TOPIC_FIELDS
    }
    # KIP-937 split the older setting in two; it still holds for the halves that are not set.
    older = _topic_value(TOPIC_CONFIGS[_DIFFERENCE], overrides, sources)
    for field_name in _DIFFERENCE_FIELDS:
        definition = TOPIC_CONFIGS[setting_name(field_name, TOPIC_CONFIGS)]
        if values[field_name] == definition.parse(definition.default or ""):
            values[field_name] = older
    return TopicConfig(**values)


def _topic_value(
    definition: Definition, overrides: Mapping[str, str], sources: ConfigSources
) -> Value:
    return definition.parse(_usable(definition, overrides, sources)[0].value or "")


def _usable(
    definition: Definition, overrides: Mapping[str, str], sources: ConfigSources
) -> list[Synonym]:
    """The candidates that can be read, in the topic's units; the default always can."""
    usable = []
    for candidate in _topic_candidates(definition, overrides, sources):
        try:
            text = render(definition.parse(_in_topic_units(candidate)))
        except BadValue:
            continue
        usable.append(candidate._replace(value=text))
    assert usable, f"{definition.name} has no legal default"
    return usable


def _topic_candidates(
    definition: Definition, overrides: Mapping[str, str], sources: ConfigSources
) -> Iterator[Synonym]:
    """Every value that is set for a topic's setting, the strongest first, the default last."""
    if definition.name in overrides:
        yield Synonym(definition.name, overrides[definition.name], ConfigSource.TOPIC)
    yield from _set_for_brokers(definition.inherits, sources)
    for name in definition.inherits:
        default = BROKER_CONFIGS[name].default
        if default is not None:
            yield Synonym(name, default, ConfigSource.DEFAULT)
            return
    yield Synonym(definition.name, definition.default, ConfigSource.DEFAULT)


def _set_for_brokers(names: tuple[str, ...], sources: ConfigSources) -> Iterator[Synonym]:
    for source, texts in sources.layers():
        for name in names:
            if name in texts:
                yield Synonym(name, texts[name], source)


def _in_topic_units(candidate: Synonym) -> str:
    """Text of a candidate as the topic's setting writes it: hours become milliseconds."""
    unit_ms = milliseconds_per_unit(candidate.name)
    if unit_ms == 1:
        return candidate.value or ""
    value = BROKER_CONFIGS[candidate.name].parse(candidate.value or "")
    assert isinstance(value, int)
    # Any negative number of hours means no limit, which in milliseconds is -1.
    return str(value * unit_ms if value >= 0 else -1)


def describe_topic(overrides: Mapping[str, str], sources: ConfigSources) -> list[EffectiveConfig]:
    """Every setting of a topic, sorted by name."""
    return [
        _describe_topic_setting(definition, overrides, sources)
        for definition in TOPIC_CONFIGS.values()
    ]


def _describe_topic_setting(
    definition: Definition, overrides: Mapping[str, str], sources: ConfigSources
) -> EffectiveConfig:
    usable = _usable(definition, overrides, sources)
    as_set = {
        (candidate.name, candidate.source): candidate
        for candidate in _topic_candidates(definition, overrides, sources)
    }
    return EffectiveConfig(
        name=definition.name,
        value=usable[0].value,
        source=usable[0].source,
        is_read_only=False,
        is_sensitive=definition.is_sensitive,
        synonyms=tuple(
            as_set[candidate.name, candidate.source]
            for candidate in _topic_synonyms(definition, usable)
        ),
        config_type=definition.config_type,
        documentation=definition.documentation,
    )


def _topic_synonyms(definition: Definition, usable: list[Synonym]) -> list[Synonym]:
    """Synonyms show hours as hours. A default without a broker setting is not a synonym, and
    neither is a value listed before the broker's setting of the same name, as in Kafka."""
    own = [one for one in usable if one.source is ConfigSource.TOPIC]
    found = usable[len(own) :]
    while found and not (definition.inherits and found[0].name == definition.inherits[0]):
        del found[0]
    return own + found


def _families() -> Mapping[str, tuple[str, ...]]:
    """Broker settings that mean the same in different units, by each of their names."""
    return MappingProxyType(
        {
            name: definition.inherits
            for definition in TOPIC_CONFIGS.values()
            for name in definition.inherits
        }
    )


_FAMILIES = _families()


def describe_broker(sources: ConfigSources) -> list[EffectiveConfig]:
    """Every setting of a broker, sorted by name, and those that are set for one listener."""
    prefixed = {
        name for _source, texts in sources.layers() for name in texts if name not in BROKER_CONFIGS
    }
    return [
        _describe_broker_setting(name, sources) for name in sorted({*BROKER_CONFIGS, *prefixed})
    ]


def _describe_broker_setting(name: str, sources: ConfigSources) -> EffectiveConfig:
    definition = BROKER_CONFIGS.get(name)
    # A name with a prefix may hide a secret, so its value is hidden unless its type is known.
    is_sensitive = definition is None or definition.is_sensitive
    family = _FAMILIES.get(name, (name,))
    found = list(_set_for_brokers(family, sources))
    for member in family:
        known = BROKER_CONFIGS.get(member)
        if known is not None and known.default is not None:
            found.append(Synonym(member, known.default, ConfigSource.DEFAULT))
    while found and found[0].name != name:
        del found[0]
    value = None if is_sensitive else sources.text(name)
    return EffectiveConfig(
        name=name,
        value=value,
        source=found[0].source if found else ConfigSource.DEFAULT,
        is_read_only=definition is not None and definition.update is Update.READ_ONLY,
        is_sensitive=is_sensitive,
        synonyms=tuple(
            synonym._replace(value=None) if is_sensitive else synonym for synonym in found
        ),
        config_type=ConfigType.PASSWORD if definition is None else definition.config_type,
        documentation="" if definition is None else definition.documentation,
    )
