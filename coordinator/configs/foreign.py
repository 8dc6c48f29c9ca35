"""Settings that operators bring from Kafka and that mean nothing, or another cluster, here. Pure.

A plug-in of Kafka is Java code, so its settings can have no effect; the broker warns and starts.
A setting by which a broker of Kafka would join other machines is an error where this broker would
be a cluster of its own instead: its records would be on one machine only.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

# Plug-ins, and features that are missing here: whatever the name is, nothing depends on its value.
_WITHOUT_EFFECT = (
    "client.quota.callback.static.",
    "confluent.",
    "controller.quorum.",
    "cruise.control.metrics.",
    "group.share.",
    "group.streams.",
    "kafka.metrics.",
    "metrics.jmx.",
    "remote.log.",
    "rlmm.config.",
    "rsm.config.",
    "share.",
    "strimzi.",
)
_LATER = frozenset(
    {
        "group.consumer.assignment.interval.ms",
        "group.consumer.regex.refresh.interval.ms",
        "group.coordinator.append.max.buffer.size",
        "group.coordinator.cached.buffer.max.bytes",
        "internal.metadata.delete.delay.millis",
        "metadata.log.segment.min.bytes",
        "producer.id.expiration.check.interval.ms",
        "remote.list.offsets.request.timeout.ms",
        "server.max.startup.time.ms",
    }
)
_ADVICE = (
    "there is no KRaft here, and this broker would be a cluster of its own; give all brokers of "
    "the cluster the same zookeeper.connect, or write process.roles=broker,controller and one "
    "voter for a cluster of one broker"
)
_VOTER = re.compile(r"([0-9]+)@\S+")
_LISTENER = re.compile(r"([^:/\s]+)://.*?:([0-9]+)")


def is_without_effect(name: str) -> bool:
    """Whether a setting that the table lacks is one of a plug-in or of a feature missing here."""
    return name.startswith(_WITHOUT_EFFECT) or name in _LATER


def kraft_problems(static: Mapping[str, str]) -> Iterator[str]:
    """Sentences about settings of KRaft that would silently make another cluster."""
    roles = set(_items(static, "process.roles"))
    if roles == {"controller"}:
        yield (
            "process.roles is controller: there are no controllers apart from brokers here; leave "
            "this process out, brokers with the same zookeeper.connect elect one of themselves"
        )
        return
    if static.get("zookeeper.connect", "").strip():
        return
    if roles == {"broker"}:
        yield f"process.roles is broker: {_ADVICE}"
        return
    voters = _items(static, "controller.quorum.voters")
    if len(voters) > 1:
        yield f"controller.quorum.voters names {len(voters)} voters: {_ADVICE}"
    elif voters and _is_another(voters[0], static):
        yield f"controller.quorum.voters names another process, {voters[0]}: {_ADVICE}"
    servers = _items(static, "controller.quorum.bootstrap.servers")
    if len(servers) > 1:
        yield f"controller.quorum.bootstrap.servers names {len(servers)} controllers: {_ADVICE}"
    elif servers and roles and servers[0].rpartition(":")[2] not in _controller_ports(static):
        yield f"controller.quorum.bootstrap.servers names another process, {servers[0]}: {_ADVICE}"


def _items(static: Mapping[str, str], name: str) -> list[str]:
    return [item for item in map(str.strip, static.get(name, "").split(",")) if item]


def _is_another(voter: str, static: Mapping[str, str]) -> bool:
    """Whether the only voter has another number than this broker."""
    match = _VOTER.fullmatch(voter)
    own = static.get("node.id", static.get("broker.id", "")).strip()
    return match is not None and own != "" and int(match[1]) != int(own)


def _controller_ports(static: Mapping[str, str]) -> set[str]:
    """The ports of this process that Kafka's controller would listen on."""
    names = {name.upper() for name in _items(static, "controller.listener.names")}
    found = map(_LISTENER.fullmatch, _items(static, "listeners"))
    return {match[2] for match in found if match is not None and match[1].upper() in names}
