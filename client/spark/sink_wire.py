"""The sink's requests to the cluster: entries of the ledger, and the end of open transactions.

An entry is a committed offset, because only offsets can be part of a transaction and be read by
name. Its group is named after the task; its partition exists in every cluster.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from ottla.client.cluster.cluster import ClusterClient
from ottla.client.cluster.config_requests import (
    DESCRIBE_CONFIGS,
    ResourceType,
    check_described,
    describe_request,
    entries_of,
)
from ottla.client.cluster.coordinators import Coordinators
from ottla.client.cluster.routing import Router
from ottla.client.group.requests import STABLE_OFFSET_FETCH, committed_offsets, fetch_request
from ottla.client.prepared_transaction import ResumedTransaction
from ottla.client.process.environment import real_environment
from ottla.client.producer import Producer
from ottla.client.records.committed import Committed, ConsumerGroupMetadata
from ottla.client.settings.config import parse_addresses
from ottla.client.spark.checkpoint import planned_at_ms
from ottla.client.spark.reaching import reached
from ottla.client.spark.sink_ledger import Entry, WriteRefused, read_entry
from ottla.protocol.ids import TopicPartition
from ottla.wire.errors import ClientError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable

    from ottla.client.prepared_transaction import PreparedTransaction
    from ottla.client.spark.sink_options import SinkOptions

logger = logging.getLogger(__name__)

LEDGER = TopicPartition("__consumer_offsets", 0)
RETENTION = "offsets.retention.minutes"
# Kafka's own default.
RETENTION_MINUTES = 7 * 24 * 60
MINUTE_MS = 60_000


def as_offset(entry: Entry) -> dict[TopicPartition, Committed]:
    """The entry as offsets to send to the transaction."""
    return {LEDGER: Committed(entry.batch_id + 1, metadata=entry.text)}


async def entry_of(cluster: ClusterClient, group_id: str, *, require_stable: bool) -> Entry | None:
    """The task's entry, or None. ``require_stable`` waits until a transaction that is being
    committed has updated it. Raises ClientError."""
    found = await Coordinators(Router(cluster)).ask(
        group_id,
        STABLE_OFFSET_FETCH,
        fetch_request(group_id, [LEDGER], require_stable=require_stable),
        lambda response, _, connection: committed_offsets(response, group_id, connection),
    )
    return None if LEDGER not in found else read_entry(found[LEDGER].metadata)


async def is_late(
    cluster: ClusterClient, options: SinkOptions, batch_id: int, looked_ms: float
) -> bool:
    """Whether this micro-batch was planned so long before its entry was looked up that an entry may
    have expired; False if the planning time is unknown.

    The duration of the attempt after the lookup does not matter: it has fenced all earlier ones."""
    at_ms = planned_at_ms(options.checkpoint, batch_id)
    if at_ms is None:
        return False
    # A task's fast clock must not make it late.
    looked_ms = min(looked_ms, cluster.environment.clock.wall_ms())
    age_minutes = (looked_ms - at_ms) / MINUTE_MS
    return age_minutes >= 1 and age_minutes >= await _retention_minutes(cluster)


async def _retention_minutes(cluster: ClusterClient) -> int:
    """How long the brokers keep entries, in minutes; Kafka's default if unknown."""
    node_id = min(cluster.metadata.brokers)
    request = describe_request(ResourceType.BROKER, str(node_id), [RETENTION])
    try:
        response = await Router(cluster).to_node(node_id, DESCRIBE_CONFIGS, request)
        check_described(response)
        (entry,) = entries_of(response)
        return int(entry.value or RETENTION_MINUTES)
    except (ClientError, ValueError) as error:
        logger.info("%s is not known: %s", RETENTION, error)
        return RETENTION_MINUTES


@asynccontextmanager
async def connected(options: SinkOptions) -> AsyncIterator[ClusterClient]:
    """A connected cluster client for the block."""
    cluster = ClusterClient(real_environment(), parse_addresses(options.servers), options.config)
    try:
        await reached(cluster.refresh, options.reach)
        yield cluster
    finally:
        cluster.close()


async def commit(
    cluster: ClusterClient, options: SinkOptions, prepared: PreparedTransaction
) -> None:
    """Commit the transaction that a task left open. Raises WriteRefused with the reason."""
    await _committed(ResumedTransaction(cluster, options.config, prepared), options, prepared)


async def commit_with_entry(
    cluster: ClusterClient, options: SinkOptions, prepared: PreparedTransaction, entry: Entry
) -> None:
    """Commit with another entry in place of the one that the task sent."""
    resumed = ResumedTransaction(cluster, options.config, prepared)
    try:
        group = ConsumerGroupMetadata(prepared.transactional_id)
        await resumed.send_offsets(as_offset(entry), group)
    except ClientError as error:
        raise _failed(options, prepared, error) from error
    await _committed(resumed, options, prepared)


async def _committed(
    resumed: ResumedTransaction, options: SinkOptions, prepared: PreparedTransaction
) -> None:
    try:
        await resumed.commit()
    except ClientError as error:
        raise _failed(options, prepared, error) from error


def _failed(
    options: SinkOptions, prepared: PreparedTransaction, error: ClientError
) -> WriteRefused:
    return WriteRefused(
        f"the transaction {prepared.transactional_id} cannot be committed: {error}; another "
        "attempt at its task has taken over (spark.speculation has to be off), or all tasks "
        "together took longer than "
        f"kafka.transaction.timeout.ms={options.config.transaction_timeout_ms}"
    )


async def commit_all(
    cluster: ClusterClient, options: SinkOptions, all_prepared: Iterable[PreparedTransaction]
) -> None:
    """Commit all concurrently; raises the first failure after all have ended."""
    ends = [commit(cluster, options, prepared) for prepared in all_prepared]
    results = await asyncio.gather(*ends, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result


async def abort_all(
    cluster: ClusterClient, options: SinkOptions, all_prepared: Iterable[PreparedTransaction]
) -> None:
    """Abort open transactions; those that cannot be aborted end at their timeout."""
    ends = [
        ResumedTransaction(cluster, options.config, prepared).abort() for prepared in all_prepared
    ]
    await asyncio.gather(*ends, return_exceptions=True)


async def fence_all(options: SinkOptions, names: Iterable[str]) -> None:
    """Abort transactions of killed tasks, so that readers need not wait for the transaction
    timeout; where that fails they do."""
    for name in names:
        config = replace(options.config, transactional_id=name)
        try:
            async with Producer[bytes, bytes](options.servers, config) as producer:
                await producer.init_transactions()
        except ClientError as error:
            logger.warning("the transaction %s is left to its timeout: %s", name, error)
