"""Topics for tests, made by a client: loaded when the first one is wanted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.client.admin import Admin
from ottla.client.admin_requests import NewTopic

if TYPE_CHECKING:
    from collections.abc import Mapping


async def create_topic(
    bootstrap_servers: str,
    name: str,
    partitions: int,
    replication_factor: int,
    configs: Mapping[str, str],
) -> None:
    """Make a topic. Raises RequestRefused."""
    async with Admin(bootstrap_servers) as admin:
        await admin.create_topic(
            NewTopic(name, partitions, replication_factor, configs=dict(configs))
        )
