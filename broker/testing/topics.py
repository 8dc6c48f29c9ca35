"""The test cluster's own client for topics; imported on first use."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from ottla.client.admin import Admin
from ottla.client.administration.topic_requests import NewTopic
from ottla.wire.errors import ClientError

if TYPE_CHECKING:
    from collections.abc import Mapping

logger = logging.getLogger("ottla.testing")

UNUSED_ID = "unused"


async def make_internal_topics(bootstrap_servers: str, security: Mapping[str, object]) -> None:
    """Create the topics of committed offsets and of transactions, as their first use would.

    They need all the replicas that they are configured with, and so all brokers."""
    async with Admin(bootstrap_servers, security=security) as admin:
        outcomes = await asyncio.gather(
            admin.groups.offsets(UNUSED_ID),
            admin.transactions.describe_transactions([UNUSED_ID]),
            return_exceptions=True,
        )
    for outcome in outcomes:
        if isinstance(outcome, ClientError):
            logger.warning("the internal topics could not be made: %s", outcome)
        elif isinstance(outcome, BaseException):
            raise outcome


def open_admin(bootstrap_servers: str, security: Mapping[str, object]) -> Admin:
    """A client for changes of users and access rules."""
    return Admin(bootstrap_servers, security=security)


async def create_topic(
    bootstrap_servers: str,
    security: Mapping[str, object],
    name: str,
    counts: tuple[int, int],
    configs: Mapping[str, str],
) -> None:
    """Create a topic. Raises RequestRefused."""
    async with Admin(bootstrap_servers, security=security) as admin:
        await admin.create_topic(NewTopic(name, *counts, configs=dict(configs)))
