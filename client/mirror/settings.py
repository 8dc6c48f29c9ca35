"""The settings of a mirror, from a file or from options."""

from __future__ import annotations

import re
from dataclasses import field
from typing import TYPE_CHECKING, Any, get_args

from ottla.client.settings.config import (
    ClientConfig,
    Compression,
    ConsumerConfig,
    ProducerConfig,
    parse_addresses,
)
from ottla.client.settings.spelling import one_of, suggestion
from ottla.protocol.data_classes import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping

CLIENT_ID = "ottla-mirror"
SAME_NAME = "{topic}"
# Names of mirrors and sources: the characters that names of topics and groups both allow.
ALIAS = re.compile(r"[A-Za-z0-9_-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorSource:
    """One cluster to read. ``topics`` are names, or regular expressions that begin with ``^``;
    ``exclude`` removes from them. ``rename`` forms the target's name from ``{topic}`` and
    ``{source}``. ``properties`` are settings of the clients by Kafka's names. Raises ValueError."""

    alias: str
    bootstrap: str
    topics: tuple[str, ...]
    exclude: tuple[str, ...] = ()
    rename: str = SAME_NAME
    properties: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not ALIAS.fullmatch(self.alias):
            raise ValueError(f"a source is named by letters, digits, _ and -, not {self.alias!r}")
        parse_addresses(self.bootstrap)
        _check_properties(f"source.{self.alias}.", self.properties)
        if not self.topics:
            raise ValueError(f"source {self.alias!r} has no topics: name some, or all with '^'")
        for one in (*self.topics, *self.exclude):
            _check_pattern(one)
        rest = self.rename.replace("{source}", self.alias)
        if rest.count(SAME_NAME) != 1 or "{" in rest.replace(SAME_NAME, ""):
            raise ValueError(
                f"rename is made of {{topic}}, once, and {{source}}: not {self.rename!r}"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorSettings:
    """All settings of one mirror; times are in milliseconds. Raises ValueError.

    A restarted mirror resumes by ``name``. ``mark`` adds a header with the source to every record.
    ``grow`` adds partitions to a target topic if a source has more. ``sync_groups`` are names or
    ``^`` patterns of groups whose positions are copied to the target. After ``session_timeout_ms``
    another process of the same name takes over from one that died. ``properties`` are settings of
    the clients of the target, by Kafka's names."""

    target: str
    sources: tuple[MirrorSource, ...]
    name: str = "mirror"
    exactly_once: bool = False
    mark: bool = False
    grow: bool = True
    compression: Compression = "none"
    replication_factor: int = -1
    sync_groups: tuple[str, ...] = ()
    refresh_ms: float = 30_000
    report_ms: float = 10_000
    commit_ms: float = 5_000
    session_timeout_ms: int = 45_000
    properties: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        parse_addresses(self.target)
        _check_properties("", self.properties)
        if not ALIAS.fullmatch(self.name):
            raise ValueError(f"a mirror is named by letters, digits, _ and -, not {self.name!r}")
        if not self.sources:
            raise ValueError("a mirror has at least one source")
        aliases = [source.alias for source in self.sources]
        for alias in aliases:
            if aliases.count(alias) > 1:
                raise ValueError(f"two sources are named {alias!r}")
        one_of("compression", self.compression, get_args(Compression))
        for one in self.sync_groups:
            _check_pattern(one)
        for name in ("refresh_ms", "report_ms", "commit_ms", "session_timeout_ms"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} has to be above 0")

    def group_of(self, source: MirrorSource) -> str:
        """The consumer group that reads that source; with ``exactly_once`` also the group on the
        target that keeps the positions."""
        return f"{self.name}.{source.alias}"


def _check_properties(where: str, properties: Mapping[str, str]) -> None:
    try:
        for config in (ProducerConfig(), ConsumerConfig()):
            config.with_properties(properties, ignore_others=True)
    except ValueError as error:
        raise ValueError(f"{where}properties: {error}") from error


def admin_config(cluster: MirrorSource | MirrorSettings) -> ClientConfig:
    """The settings of a mirror's Admin for a source, or for the target."""
    config = ClientConfig(client_id=CLIENT_ID)
    return config.with_properties(cluster.properties, ignore_others=True)


def _check_pattern(text: str) -> None:
    if not text:
        raise ValueError("a name has at least one character")
    if text.startswith("^"):
        try:
            re.compile(text)
        except re.error as error:
            raise ValueError(f"{text!r} is not a regular expression: {error}") from error


def matches(wanted: tuple[str, ...], name: str) -> bool:
    """Whether the name is listed, or matches a pattern at its beginning."""
    return any(
        re.match(one, name) is not None if one.startswith("^") else one == name for one in wanted
    )


# The keys of a settings file, and their types.
TOP_KEYS: dict[str, type | tuple[type, ...]] = {
    "target": str,
    "name": str,
    "exactly_once": bool,
    "mark": bool,
    "grow": bool,
    "compression": str,
    "replication_factor": int,
    "sync_groups": list,
    "refresh_ms": (int, float),
    "report_ms": (int, float),
    "commit_ms": (int, float),
    "session_timeout_ms": int,
    "properties": dict,
    "source": dict,
}
SOURCE_KEYS: dict[str, type | tuple[type, ...]] = {
    "bootstrap": str,
    "topics": list,
    "exclude": list,
    "rename": str,
    "properties": dict,
}


def from_document(document: Mapping[str, object]) -> MirrorSettings:
    """The settings from a parsed TOML file. Raises ValueError, naming what is wrong."""
    _check_keys("", document, TOP_KEYS)
    given = dict(document)
    sources = given.pop("source", {})
    assert isinstance(sources, dict)
    made = []
    for alias, table in sources.items():
        if not isinstance(table, dict):
            raise ValueError(f"[source.{alias}] has to be a table")
        _check_keys(f"source.{alias}.", table, SOURCE_KEYS)
        made.append(
            MirrorSource(**{"alias": alias, "bootstrap": "", "topics": (), **_tuples(table)})
        )
    settings: dict[str, Any] = {"target": "", **_tuples(given), "sources": tuple(made)}
    return MirrorSettings(**settings)


def _tuples(table: Mapping[str, object]) -> dict[str, Any]:
    return {key: tuple(one) if isinstance(one, list) else one for key, one in table.items()}


def _check_keys(
    place: str,
    table: Mapping[str, object],
    known: Mapping[str, type | tuple[type, ...]],
) -> None:
    for key, value in table.items():
        if key not in known:
            raise ValueError(f"there is no setting {place}{key}{suggestion(key, known)}")
        wanted = known[key]
        is_number_for_bool = isinstance(value, bool) and wanted is not bool
        if not isinstance(value, wanted) or is_number_for_bool:
            raise ValueError(f"{place}{key} cannot be {value!r}")
        if isinstance(value, list) and not all(isinstance(one, str) for one in value):
            raise ValueError(f"{place}{key} is a list of texts")
