"""What the machine of a coordinator and its shell say to each other.

The shell hands in a request with a ``Ticket``; the machine gives back effects. An ``Append`` goes
to the internal partition in the very same step, so that no rebalance slips between a check and its
record (hazard G-02). What it means becomes visible when the shell reports it committed, and an
``SendResponse`` that depends on it leaves only then (hazard G-03).
"""

from __future__ import annotations

from typing import Any

from ottla.protocol.named_tuples import NamedTuple

Ticket = int
"""The shell's name for one request that waits for its answer; never reused."""

Token = int
"""The machine's name for one append; never reused within a shard."""


class Moment(NamedTuple):
    """Now. Deadlines live on the monotonic clock, what is written to the log on the wall clock.

    While ``is_wall_trusted`` is False the wall clock may have jumped: nothing is old enough then to
    be forgotten (hazard S-18)."""

    now_ms: float
    wall_ms: int
    is_wall_trusted: bool = True


class RequestOrigin(NamedTuple):
    """Who asks: what group members are described with, and how the answer must be shaped.

    What has come over the same ``connection_id`` was sent in the order in which it came; "" is no
    connection."""

    client_id: str
    client_host: str
    api_version: int
    connection_id: str = ""


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

    The shell then reports exactly one of ``committed(token)``, when the high watermark has passed
    them, and ``failed(token, error)``. Before that it may report ``overdue(token)`` once: the
    outcome is still open, but the request has waited for offsets.commit.timeout.ms (GRP-05)."""

    token: Token
    records: tuple[LogRecord, ...]
    writer: Writer = NOBODY


Effect = SendResponse | Append
Effects = list[Effect]
