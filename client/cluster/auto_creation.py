"""Finds out whether brokers create topics on demand, which Metadata answers do not say."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.client.cluster.config_requests import (
    DESCRIBE_CONFIGS,
    ResourceType,
    check_described,
    describe_request,
    entries_of,
)
from ottla.wire.errors import ClientError

if TYPE_CHECKING:
    from ottla.client.settings.config import ClientConfig
    from ottla.wire.connection import Connection

SETTING = "auto.create.topics.enable"
NOT_ASKED = "there is no such topic: create it, or have brokers do so by allow_auto_create=True"
NOT_MADE = f"there is no such topic, and the brokers make none ({SETTING}=false): create it first"


def advice_on_missing(config: ClientConfig, *, may_pass: bool) -> str | None:
    """Return advice about a missing topic."""
    if not config.allow_auto_create:
        return NOT_ASKED
    return None if may_pass else NOT_MADE


async def makes_topics(connection: Connection, node_id: int) -> bool:
    """Ask that broker. True also if it does not say, for instance for lack of rights."""
    request = describe_request(ResourceType.BROKER, str(node_id), [SETTING])
    try:
        response = await connection.send(DESCRIBE_CONFIGS, request)
        check_described(response)
    except ClientError:
        return True
    return "false" not in [one.value for one in entries_of(response) if one.name == SETTING]
