"""Reads the pages about the cluster, topics and groups."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ottla.client.cluster.config_requests import ResourceType
from ottla.client.console.views.asked import whole_number
from ottla.client.console.views.cluster_views import (
    cluster_document,
    config_rows,
    sizes_of,
    topic_document,
    topic_row,
)
from ottla.client.console.views.failures import NOT_FOUND, Refused
from ottla.client.console.views.group_views import group_document, group_row
from ottla.client.console.views.paging import cut, selected
from ottla.client.fetching.positions import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from ottla.protocol.ids import TopicPartition
from ottla.wire.errors import ClientError, RequestRefused, UnsupportedByBroker

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ottla.client.admin import Admin
    from ottla.client.console.connections import ConsoleConnection
    from ottla.client.console.views.asked import Document, Question
    from ottla.client.fetching.offsets import OffsetAt
    from ottla.client.records.committed import Committed

# Number of groups whose positions are requested together.
GROUPS_AT_ONCE = 10


async def read_cluster(connection: ConsoleConnection, question: Question) -> Document:
    """Return the brokers and the cluster's problems."""
    admin = await connection.admin()
    cluster = await admin.describe_cluster()
    topics = await connection.topics(fresh=True)
    log_dirs, unreachable, features = await asyncio.gather(
        admin.brokers.log_dirs(), admin.unreachable(cluster.brokers), _features(admin)
    )
    document = cluster_document(cluster, topics, log_dirs, unreachable)
    return {**document, "features": features}


async def _features(admin: Admin) -> list[Document]:
    """Return the finalized feature levels; empty if the brokers do not return them."""
    try:
        found = await admin.features.describe_features()
    except ClientError:
        return []
    return [{"feature": one.name, "level": one.level, "level_max": one.level_max} for one in found]


async def read_broker(connection: ConsoleConnection, question: Question) -> Document:
    """Return one broker with its log directories and settings. Raises Refused if there is no such
    broker."""
    admin = await connection.admin()
    node_id = whole_number("broker", question.path["broker"])
    if node_id not in {one.node_id for one in (await admin.describe_cluster()).brokers}:
        raise Refused(NOT_FOUND, f"the cluster has no broker {node_id}")
    configs = await settings_of(admin, ResourceType.BROKER, str(node_id))
    found = (await admin.brokers.log_dirs([node_id]))[node_id]
    directories = [] if isinstance(found, ClientError) else found
    return {
        "broker": node_id,
        "log_dirs": [
            {
                "path": one.path,
                "replicas": len(one.replicas),
                "size_bytes": sum(replica.size_bytes for replica in one.replicas),
                "total_bytes": one.total_bytes if one.total_bytes >= 0 else None,
                "usable_bytes": one.usable_bytes if one.usable_bytes >= 0 else None,
                "error": None if one.error is None else str(one.error),
            }
            for one in directories
        ],
        "configs": configs,
    }


async def read_topics(connection: ConsoleConnection, question: Question) -> Document:
    """Return one page of the topics whose names match the search."""
    page = question.page()
    topics = await connection.topics()
    if not question.flag("internal"):
        topics = [view for view in topics if not view.is_internal]
    rows, facts = cut(selected(topics, page.search, lambda view: view.name), page)
    sizes: dict[str, int] = {}
    if rows:
        admin = await connection.admin()
        try:
            sizes = sizes_of(await admin.brokers.log_dirs(topics=[view.name for view in rows]))
        except RequestRefused:
            # A topic of the page was deleted meanwhile.
            connection.forget_topics()
    return {
        **facts,
        "internal": question.flag("internal"),
        "topics": [topic_row(view, sizes) for view in rows],
    }


async def read_topic(connection: ConsoleConnection, question: Question) -> Document:
    """Return one topic with its partitions, offsets, sizes and settings."""
    admin = await connection.admin()
    name = question.path["topic"]
    view = await admin.describe_topic(name)
    partitions = [TopicPartition(name, number) for number in sorted(view.partitions)]
    firsts, lasts, log_dirs, configs = await asyncio.gather(
        admin.list_offsets(dict.fromkeys(partitions, EARLIEST_TIMESTAMP)),
        admin.list_offsets(dict.fromkeys(partitions, LATEST_TIMESTAMP)),
        admin.brokers.log_dirs(topics=[name]),
        settings_of(admin, ResourceType.TOPIC, name),
    )
    return topic_document(view, firsts, lasts, log_dirs, configs)


async def settings_of(admin: Admin, resource: ResourceType, name: str) -> list[Document]:
    """Return settings with their documentation; without it from brokers before Kafka 2.6, and none
    if the visitor may not see them."""
    try:
        try:
            entries = await admin.describe_configs(resource, name, with_documentation=True)
        except UnsupportedByBroker:
            entries = await admin.describe_configs(resource, name)
    except RequestRefused:
        return []
    return config_rows(entries)


async def read_groups(connection: ConsoleConnection, question: Question) -> Document:
    """Return one page of the groups whose names match the search, with their lags."""
    admin = await connection.admin()
    page = question.page()
    listed = await admin.groups.list_all()
    rows, facts = cut(selected(listed, page.search, lambda one: one.group_id), page)
    gate = asyncio.Semaphore(GROUPS_AT_ONCE)

    async def positions(group_id: str) -> dict[TopicPartition, Committed] | None:
        async with gate:
            try:
                return await admin.groups.offsets(group_id)
            except ClientError:
                return None

    found = await asyncio.gather(*(positions(one.group_id) for one in rows))
    ends = await end_offsets(admin, {where for one in found if one for where in one})
    return {
        **facts,
        "groups": [group_row(*pair, ends) for pair in zip(rows, found, strict=True)],
    }


async def read_group(connection: ConsoleConnection, question: Question) -> Document:
    """Return one group with its members, positions and lags."""
    admin = await connection.admin()
    group_id = question.needed("id")
    view, offsets = await asyncio.gather(
        admin.groups.describe(group_id), admin.groups.offsets(group_id)
    )
    owned = {where for member in view.members for where in member.partitions or ()}
    ends = await end_offsets(admin, owned | offsets.keys())
    return group_document(view, offsets, ends)


async def end_offsets(
    admin: Admin, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition, OffsetAt | ClientError]:
    """Return the end offsets of partitions."""
    wanted = dict.fromkeys(partitions, LATEST_TIMESTAMP)
    return await admin.list_offsets(wanted) if wanted else {}
