"""The pages about transactions, reassignments and security, as JSON documents. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.protocol.acls import spelled

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ottla.client.administration.brokers import LogDirView
    from ottla.client.administration.placements import ReplicaMove
    from ottla.client.administration.quotas import QuotaView
    from ottla.client.administration.transaction_requests import TransactionListing
    from ottla.client.administration.transaction_search import FoundTransaction
    from ottla.client.administration.users import UserView
    from ottla.client.console.views.asked import Document
    from ottla.client.fetching.offsets import OffsetAt
    from ottla.protocol.acls import AclRule
    from ottla.protocol.ids import TopicPartition
    from ottla.wire.errors import ClientError

    Offsets = Mapping[TopicPartition, OffsetAt | ClientError]
    LogDirs = Mapping[int, list[LogDirView] | ClientError]


def held_back(ends: Offsets, stable: Offsets) -> dict[TopicPartition, int]:
    """Return how far the last stable offset is behind the high watermark, if known."""
    behind = {}
    for where, end in ends.items():
        last = stable.get(where)
        if isinstance(end, Exception) or last is None or isinstance(last, Exception):
            continue
        if last.offset < end.offset:
            behind[where] = end.offset - last.offset
    return behind


def blocking_row(
    one: FoundTransaction, behind: Mapping[TopicPartition, int], wall_ms: int
) -> Document:
    """One open transaction in one partition, and how long it has been open."""
    known = one.transaction
    start_ms = None if known is None else known.start_time_ms
    return {
        "topic": one.partition.topic,
        "partition": one.partition.partition,
        "first_offset": one.first_offset,
        "held_back": behind.get(one.partition),
        "standing": one.standing.value,
        "transactional_id": None if known is None else known.transactional_id,
        "producer_id": one.producer.producer_id,
        "producer_epoch": one.producer.producer_epoch,
        "open_ms": None if start_ms is None else max(0, wall_ms - start_ms),
        "timeout_ms": None if known is None else known.timeout_ms,
    }


def transaction_row(one: TransactionListing) -> Document:
    """One transactional id."""
    return {
        "transactional_id": one.transactional_id,
        "state": one.state,
        "producer_id": one.producer_id,
        "coordinator": one.coordinator_id,
    }


def move_rows(moves: Mapping[TopicPartition, ReplicaMove], log_dirs: LogDirs) -> list[Document]:
    """Return the reassignments in progress; progress is the size of each new replica divided by
    that of the largest one."""
    sizes: dict[tuple[TopicPartition, int], int] = {}
    for node_id, found in log_dirs.items():
        for directory in found if isinstance(found, list) else ():
            for replica in directory.replicas:
                if not replica.is_future:
                    sizes[replica.partition, node_id] = replica.size_bytes
    rows = []
    for where, move in sorted(moves.items()):
        held = [sizes.get((where, node_id), 0) for node_id in move.replicas]
        largest = max(held, default=0)
        copied = [min(largest, sizes.get((where, node_id), 0)) for node_id in move.adding]
        wanted = largest * len(move.adding)
        rows.append(
            {
                "topic": where.topic,
                "partition": where.partition,
                "replicas": list(move.replicas),
                "adding": list(move.adding),
                "removing": list(move.removing),
                "copied_bytes": sum(copied),
                "wanted_bytes": wanted,
                "percent": None if not wanted else round(100 * sum(copied) / wanted, 1),
            }
        )
    return rows


def rule_rows(rules: Iterable[AclRule]) -> list[Document]:
    """Access rules in Kafka's words."""
    return [
        {
            "principal": rule.principal,
            "permission": spelled(rule.permission),
            "operation": spelled(rule.operation),
            "resource_type": spelled(rule.pattern.resource_type),
            "name": rule.pattern.name,
            "pattern_type": spelled(rule.pattern.pattern_type),
            "host": rule.host,
        }
        for rule in rules
    ]


def user_rows(users: Iterable[UserView]) -> list[Document]:
    """Users that log in with SCRAM, with the iterations of each mechanism."""
    return [{"user": one.name, "mechanisms": dict(one.mechanisms)} for one in users]


def quota_rows(quotas: Iterable[QuotaView]) -> list[Document]:
    """Return entities with their quotas; a name of null stands for the default."""
    return [{"entity": dict(one.entity), "quotas": dict(one.quotas)} for one in quotas]
