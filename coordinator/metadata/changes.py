"""Typed changes of the metadata, and how an UpdateMetadata request becomes a list of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.coordinator.metadata.image import (
    BrokerRegistration,
    Endpoint,
    Entity,
    MetadataImage,
    PartitionState,
    TopicImage,
)
from ottla.protocol.ids import ZERO_UUID, Uuid
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ottla.protocol.messages.update_metadata import (
        UpdateMetadataBroker,
        UpdateMetadataPartitionState,
        UpdateMetadataRequest,
        UpdateMetadataTopicState,
    )

# What stands for the leader of a partition whose topic is being deleted.
LEADER_DURING_DELETE = -2
# The request's type: it names every topic there is, so what it does not name is gone (KIP-866).
FULL_UPDATE = 2
INCREMENTAL_UPDATE = 1

SECURITY_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
"""By the number that stands for them on the wire."""


class ControllerChanged(NamedTuple):
    """Another controller, or the same one elected again."""

    node_id: int
    epoch: int


class BrokerChanged(NamedTuple):
    """A broker came, came back, or has other end points."""

    broker: BrokerRegistration


class BrokerGone(NamedTuple):
    """A broker is not live any more."""

    node_id: int


class TopicChanged(NamedTuple):
    """The whole topic, made or replaced."""

    topic: TopicImage


class TopicGone(NamedTuple):
    """The topic was deleted."""

    name: str


class PartitionChanged(NamedTuple):
    """One partition of a topic that is there already."""

    topic: str
    partition: int
    state: PartitionState


class ConfigChanged(NamedTuple):
    """All that is set for the entity now, which may be nothing."""

    entity: Entity
    values: Mapping[str, str]


class ConfigGone(NamedTuple):
    """The entity has no configuration any more, not even an empty one."""

    entity: Entity


Change = (
    ControllerChanged
    | BrokerChanged
    | BrokerGone
    | TopicChanged
    | TopicGone
    | PartitionChanged
    | ConfigChanged
    | ConfigGone
)


def changes_of_update(image: MetadataImage, request: UpdateMetadataRequest) -> list[Change]:
    """What the request says beyond the image; the caller has checked its controller epoch.

    A partition's state that is older than the known one of the same topic id is left out, so that
    leadership never goes back in time (C-21)."""
    changes: list[Change] = [ControllerChanged(request.controller_id, request.controller_epoch)]
    live = [_registration(broker) for broker in request.live_brokers]
    changes += [BrokerChanged(broker) for broker in live]
    ids = {broker.node_id for broker in live}
    changes += [BrokerGone(node_id) for node_id in sorted(image.brokers.keys() - ids)]
    for listed in request.topic_states:
        changes += _changes_of_topic(image, listed)
    if request.type == FULL_UPDATE:
        named = {listed.topic_name for listed in request.topic_states}
        changes += [TopicGone(name) for name in sorted(image.topics.keys() - named)]
    return changes


def _registration(broker: UpdateMetadataBroker) -> BrokerRegistration:
    endpoints = tuple(
        Endpoint(end.listener, end.host, end.port, _security_protocol(end.security_protocol))
        for end in broker.endpoints
    )
    return BrokerRegistration(broker.id, endpoints, broker.rack)


def _security_protocol(number: int) -> str:
    known = 0 <= number < len(SECURITY_PROTOCOLS)
    return SECURITY_PROTOCOLS[number] if known else str(number)


def _changes_of_topic(image: MetadataImage, listed: UpdateMetadataTopicState) -> list[Change]:
    name, topic_id = listed.topic_name, listed.topic_id
    known = image.topics.get(name)
    if any(state.leader == LEADER_DURING_DELETE for state in listed.partition_states):
        return [TopicGone(name)] if known is not None and _is_same(known, topic_id) else []
    states = {state.partition_index: _state(state) for state in listed.partition_states}
    if known is None or not _is_same(known, topic_id):
        return [TopicChanged(TopicImage(name, topic_id, states))]
    return [
        PartitionChanged(name, index, state)
        for index, state in states.items()
        if index not in known.partitions or not state.is_older_than(known.partitions[index])
    ]


def _is_same(known: TopicImage, topic_id: Uuid) -> bool:
    return topic_id in (known.topic_id, ZERO_UUID)


def _state(listed: UpdateMetadataPartitionState) -> PartitionState:
    return PartitionState(
        replicas=tuple(listed.replicas),
        leader=listed.leader,
        leader_epoch=listed.leader_epoch,
        isr=tuple(listed.isr),
        partition_epoch=listed.zk_version,
        eligible_leaders=tuple(listed.eligible_leaders),
        offline_replicas=tuple(listed.offline_replicas),
        controller_epoch=listed.controller_epoch,
    )
