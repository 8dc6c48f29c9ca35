"""Holds requests to add partitions that arrive a moment too early, instead of refusing them.

A producer of version 2 gets the verdict before the markers are written, and begins again at once;
its records go to several brokers, which all add their partitions. Refused with
CONCURRENT_TRANSACTIONS, each would retry after a pause longer than the one it is held for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.coordinator.transaction.scope import Alarm
from ottla.protocol.errors import ErrorCode
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from ottla.coordinator.transaction.replies import AddReply
    from ottla.coordinator.transaction.requests import AddToTransaction
    from ottla.coordinator.transaction.scope import TransactionScope

HELD_MS_MAX = 20.0
"""The pause of brokers and producers before they retry: holding a request for longer is no better
than refusing it. One request of a broker may concern many producers, which all wait."""

HELD_NEXT_MS_MAX = 100.0
"""The same if only the producer itself waits, which otherwise has to retry."""

HELD_PER_ID_MAX = 100


class WaitingRequest(NamedTuple):
    """A held request and its reply. ``is_next``: its producer sent it after the end of the
    transaction that is being completed, so it belongs to the next one."""

    request: AddToTransaction
    reply: AddReply
    due_ms: float
    is_next: bool


class WaitingRequests:
    """One per shard. The holder of a request re-checks it when its id has moved."""

    def __init__(self, scope: TransactionScope) -> None:
        self._scope = scope
        self._held: dict[str, list[WaitingRequest]] = {}

    def asked(self, request: AddToTransaction, reply: AddReply, *, is_next: bool) -> WaitingRequest:
        """A request that arrives now, with its time limit."""
        held_ms = HELD_NEXT_MS_MAX if is_next else HELD_MS_MAX
        return WaitingRequest(request, reply, self._scope.moment.now_ms + held_ms, is_next)

    def hold(self, asked: WaitingRequest) -> None:
        """Hold it until the id has moved or its time is over; refuse it if too many are held."""
        transactional_id = asked.request.transactional_id
        held = self._held.setdefault(transactional_id, [])
        if len(held) >= HELD_PER_ID_MAX or asked.due_ms <= self._scope.moment.now_ms:
            asked.reply.refuse(ErrorCode.CONCURRENT_TRANSACTIONS)
            return
        held.append(asked)
        due_ms = min(one.due_ms for one in held)
        self._scope.deadlines.set((transactional_id, Alarm.WAITING), due_ms)

    def take(self, transactional_id: str) -> list[WaitingRequest]:
        """Take all requests held for an id, in order of arrival."""
        return self._held.pop(transactional_id, [])

    def on_alarm(self, transactional_id: str) -> None:
        """Refuse the requests whose time is over; hold the others again."""
        for asked in self.take(transactional_id):
            self.hold(asked)

    def refuse_all(self, error: ErrorCode) -> None:
        """Answer all held requests with the error; the shard ends."""
        while self._held:
            for asked in self.take(next(iter(self._held))):
                asked.reply.refuse(error)
