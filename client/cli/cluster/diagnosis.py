"""Explains why a topic cannot be written to, beyond the error code.

The code only says "unknown topic" for one that does not exist, or cannot be created now. A
validate-only request to create it returns the reason in words.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.client.admin import Admin
from ottla.client.administration.topic_requests import NewTopic
from ottla.client.cli.run import CommandError, sentence
from ottla.client.cli.settings import command_config
from ottla.protocol.errors import ErrorCode
from ottla.wire.errors import ClientError, RequestRefused

if TYPE_CHECKING:
    from ottla.client.settings.config import ClientConfig

TRIAL_TIMEOUT_MS = 2_000
# The error of a request for a producer id while no controller is reachable.
NO_PRODUCER_ID = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


async def explained(
    bootstrap: str, topic: str, error: RequestRefused, config: ClientConfig | None = None
) -> ClientError | CommandError:
    """The producer's error, or a more helpful one."""
    is_unknown = error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and error.partition is None
    if not is_unknown and error.code is not NO_PRODUCER_ID:
        return error
    config = config or command_config(TRIAL_TIMEOUT_MS)
    try:
        async with Admin(bootstrap, config) as admin:
            await admin.create_topic(NewTopic(topic), validate_only=True)
    except RequestRefused as found:
        if found.code is ErrorCode.TOPIC_ALREADY_EXISTS:
            return error
        if not is_unknown and found.code is not ErrorCode.NOT_CONTROLLER:
            return error
        lack = f"topic {topic!r} does not exist and cannot be made"
        return CommandError(
            f"{lack if is_unknown else 'no producer id is available'}: {told(found)}"
        )
    except ClientError:
        return error
    if not is_unknown:
        return error
    return CommandError(f"topic {topic!r} does not exist; 'ottla topics create {topic}' makes it")


def told(refused: RequestRefused) -> str:
    """The refusal as a sentence without the topic's name."""
    return sentence(RequestRefused(refused.code, refused.message, broker=refused.broker))
