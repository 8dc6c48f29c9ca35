"""Converts payloads of the store to parts of an image."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ottla.coordinator.metadata.image import (
    BrokerRegistration,
    Endpoint,
    PartitionState,
    TopicImage,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ottla.coordinator.store.paths import BrokerPayload, StatePayload, TopicPayload
    from ottla.protocol.ids import Uuid


def registration_of(node_id: int, payload: BrokerPayload, czxid: int) -> BrokerRegistration:
    """A live broker; without a generation in its payload its znode's czxid serves as one."""
    endpoints = tuple(Endpoint(*end) for end in payload.endpoints)
    generation = payload.generation if payload.generation >= 0 else czxid
    return BrokerRegistration(
        node_id, endpoints, payload.rack, generation, payload.clean_stop_epoch
    )


def state_of(
    replicas: tuple[int, ...], payload: StatePayload | None, version: int
) -> PartitionState:
    """A partition; without payload it has no state yet."""
    if payload is None:
        return PartitionState(replicas)
    return PartitionState(
        replicas,
        payload.leader,
        payload.leader_epoch,
        payload.isr,
        version,
        payload.eligible_leaders,
        controller_epoch=payload.controller_epoch,
        is_recovering=payload.is_recovering,
    )


def topic_of(
    name: str,
    topic_id: Uuid,
    payload: TopicPayload,
    states: Mapping[int, tuple[StatePayload, int]],
) -> TopicImage:
    """A topic from its assignment and from the states, with versions, of its partitions."""
    partitions = {}
    for index, replicas in payload.partitions.items():
        found = states.get(index)
        state = state_of(replicas, *(found or (None, -1)))
        adding, removing = payload.adding.get(index, ()), payload.removing.get(index, ())
        if adding or removing:
            state = replace(state, adding=adding, removing=removing)
        partitions[index] = state
    return TopicImage(name, topic_id, partitions)
