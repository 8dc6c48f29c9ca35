"""The values that a coordinator's shard and the broker code that runs it exchange.

The caller passes a request with a ``Ticket``; the shard returns effects. An ``Append`` goes to the
internal partition in the same step, so that no rebalance comes between a check and its record
(hazard G-02). It takes effect when the caller reports it committed, and a ``SendResponse`` that
depends on it is sent only then (hazard G-03).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

Ticket = int
"""The shell's name for one request that waits for its answer; never reused."""

Token = int
"""The machine's name for one append; never reused within a shard."""


class Moment(NamedTuple):
    """Now, on the monotonic clock for deadlines and on the wall clock for what the log stores.

    While ``is_wall_trusted`` is False the wall clock may have jumped: nothing may expire then
    (hazard S-18)."""

    now_ms: float
    wall_ms: int
    is_wall_trusted: bool = True


def every_topic(_name: str) -> bool:
    """What a sender may describe where no access rules are."""
    return True


class RequestOrigin(NamedTuple):
    """The sender of a request: describes group members and determines the response's version.

    Requests with the same ``connection_id`` arrive in the order in which they were sent; "" is no
    connection. ``may_describe`` tells whether the sender may describe a topic."""

    client_id: str
    client_host: str
    api_version: int
    connection_id: str = ""
    may_describe: Callable[[str], bool] = every_topic


class LogRecord(NamedTuple):
    """One record of the internal partition, to write or as it was read; None is a tombstone."""

    key: bytes
    value: bytes | None


class Writer(NamedTuple):
    """The producer of a transactional batch; -1, -1 outside of transactions."""

    producer_id: int = -1
    producer_epoch: int = -1

    @property
    def is_transactional(self) -> bool:
        return self.producer_id >= 0


NOBODY = Writer()


class SendResponse(NamedTuple):
    """Send this response to the request of the ticket; each ticket is answered once."""

    ticket: Ticket
    response: Any


class Append(NamedTuple):
    """Append these records as one batch, at once.

    The caller then reports exactly one of ``committed(token)``, when the high watermark has passed
    them, and ``failed(token, error)``. Before that it may report ``overdue(token)`` once: the
    outcome is still open, but the request has waited for offsets.commit.timeout.ms (GRP-05)."""

    token: Token
    records: tuple[LogRecord, ...]
    writer: Writer = NOBODY


Effect = SendResponse | Append
Effects = list[Effect]
