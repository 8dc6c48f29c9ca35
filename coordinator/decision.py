"""The result type of the controller's state machine, and the order in which callers execute it.

``handle(event, now_ms)`` and ``on_deadline(now_ms)`` return a ``Decision`` and change nothing
durable; ``replay(record)`` is the only mutator of durable state. The caller makes the records
durable, replays each, and only then sends the messages and the reply: no client or broker may see
a change that a crash could still undo. If a record cannot be made durable, the caller discards the
machine and rebuilds it from the durable records; there is no rollback.
"""

from __future__ import annotations

from typing import Generic, TypeVar

from ottla.protocol.data_classes import dataclass

Record = TypeVar("Record")
Message = TypeVar("Message")
Reply = TypeVar("Reply")


@dataclass(frozen=True)
class Decision(Generic[Record, Message, Reply]):
    """Records to make durable, messages to send after that, the reply, and why (for the trace)."""

    records: tuple[Record, ...] = ()
    messages: tuple[Message, ...] = ()
    reply: Reply | None = None
    reason: str = ""
