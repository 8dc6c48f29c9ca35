"""Explains why a cluster has no coordinator of groups, which a timeout does not say."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.client.cli.run import CommandError
from ottla.client.cluster.config_requests import ResourceType
from ottla.wire.errors import ClientError

if TYPE_CHECKING:
    from ottla.client.admin import Admin

OFFSETS_TOPIC = "__consumer_offsets"
REPLICATION_FACTOR = "offsets.topic.replication.factor"


async def with_reason(admin: Admin, error: ClientError) -> ClientError | CommandError:
    """The error, or what keeps the topic of committed offsets from being created.

    Args:
        admin: The admin client whose call failed.
        error: Its error.
    """
    try:
        brokers = [one.node_id for one in (await admin.describe_cluster()).brokers]
        if any(topic.name == OFFSETS_TOPIC for topic in await admin.list_topics()):
            return error
        entries = await admin.describe_configs(
            ResourceType.BROKER, str(min(brokers)), [REPLICATION_FACTOR]
        )
        wanted = max((int(entry.value or 0) for entry in entries), default=0)
    except (ClientError, ValueError):
        return error
    if wanted <= len(brokers):
        return error
    are = "1 broker is" if len(brokers) == 1 else f"{len(brokers)} brokers are"
    return CommandError(
        f"no offset can be committed: {REPLICATION_FACTOR} is {wanted}, and {are} there to hold "
        f"{OFFSETS_TOPIC}; start more brokers, or start them with -o {REPLICATION_FACTOR}="
        f"{len(brokers)}"
    )
