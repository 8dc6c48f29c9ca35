"""Replicas of node 1 in the roles that tests need."""

from __future__ import annotations

from ottla.broker.replica.history import ReplicaHistory
from ottla.broker.replica.leading import PartitionLeadership, ReplicaLimits
from ottla.broker.replica.partition import Replica
from ottla.broker.replica.progress import FollowerFetch
from ottla.broker.replica.roles import LogBounds


def replica_of(
    log_end_offset: int = 0,
    *,
    start: int = 0,
    watermark: int | None = None,
    limits: ReplicaLimits | None = None,
) -> Replica:
    bounds = LogBounds(start, log_end_offset, watermark)
    return Replica(1, ReplicaHistory(), limits or ReplicaLimits(), bounds)


def led_by(
    leader: int,
    leader_epoch: int = 0,
    *,
    isr: tuple[int, ...] = (1,),
    replicas: tuple[int, ...] | None = None,
    partition_epoch: int = 0,
) -> PartitionLeadership:
    return PartitionLeadership(leader, leader_epoch, partition_epoch, isr, replicas or isr)


def leader_of(*isr: int, log_end_offset: int = 0, min_insync: int = 1) -> Replica:
    """Node 1 leading in epoch 0 with that ISR, which is also the assignment."""
    replica = replica_of(log_end_offset, limits=ReplicaLimits(min_insync))
    replica.become_leader(led_by(1, isr=isr), now_ms=0)
    return replica


def fetch(node_id: int, offset: int, *, last_epoch: int = 0, epoch: int = 0) -> FollowerFetch:
    return FollowerFetch(node_id, 70 + node_id, offset, last_epoch, epoch, 0)
