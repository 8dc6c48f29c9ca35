"""A command for a controllership: a function that builds the event, and the caller's future."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Awaitable, Callable

    from ottla.coordinator.controller.events import Event
    from ottla.protocol.errors import KafkaError


class ControllerCommand(NamedTuple):
    """The event is built when the command's turn comes."""

    prepare: Callable[[], Awaitable[Event]]
    reply: asyncio.Future[Any]


def fail(reply: asyncio.Future[Any], error: KafkaError) -> None:
    """Answer with that error, unless the caller has an answer already."""
    if not reply.done():
        reply.set_exception(error)
        # The caller may have stopped waiting, which needs no warning.
        reply.exception()
