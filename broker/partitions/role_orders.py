"""Validates one partition's entry of a LeaderAndIsr request.

Only a controller sends it, but any process that reaches the port can: a contradictory request must
be refused before a replica applies it, and an invalid topic name must not become a path.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ottla.broker.replica.leading import PartitionLeadership
from ottla.coordinator.controller.names import find_name_fault
from ottla.protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from ottla.protocol.ids import TopicPartition
    from ottla.protocol.messages.leader_and_isr import LeaderAndIsrPartitionState

logger = logging.getLogger("ottla.partitions")


def leadership_of(
    partition: TopicPartition, state: LeaderAndIsrPartitionState, node_id: int
) -> PartitionLeadership:
    """Return the role that this broker has to take. Raises KafkaError(INVALID_REQUEST)."""
    fault = _fault_of(partition, state, node_id)
    if fault is not None:
        logger.warning("invalid role of partition %d of %r: %s", partition[1], partition[0], fault)
        raise KafkaError(ErrorCode.INVALID_REQUEST, fault)
    return PartitionLeadership(
        leader=state.leader,
        leader_epoch=state.leader_epoch,
        partition_epoch=state.partition_epoch,
        isr=tuple(state.isr),
        replicas=tuple(state.replicas),
        eligible_leaders=tuple(state.eligible_leaders),
        controller_epoch=state.controller_epoch,
    )


def _fault_of(
    partition: TopicPartition, state: LeaderAndIsrPartitionState, node_id: int
) -> str | None:
    if partition.partition < 0:
        return f"there is no partition {partition.partition}"
    if state.leader_epoch < 0:
        return f"there is no leader epoch {state.leader_epoch}"
    if len(set(state.isr)) < len(state.isr):
        return f"the ISR {state.isr} names a broker twice"
    if state.leader == node_id and node_id not in state.isr:
        return f"the leader {node_id} is not in the ISR {state.isr}"
    return find_name_fault(partition.topic)
