"""Stores and fetches the positions of a member of a group.

``commit_state`` decides what to send, and in which order; this module sends it to the group's
coordinator and retries until it succeeds or the time limit ends.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from ottla.client.cluster.coordinators import Coordinators
from ottla.client.group.commit_requests import (
    MEMBER_OFFSET_COMMIT,
    codes_by_partition,
    member_commit_request,
)
from ottla.client.group.commit_state import CommitLedger
from ottla.client.group.commit_verdict import CommitVerdict, judge_commit
from ottla.client.group.stable_positions import fetch_positions
from ottla.client.process.errors import CommitFailed
from ottla.client.process.tasks import ClientTasks
from ottla.protocol.errors import ErrorCode
from ottla.wire.clock import TimeLimit
from ottla.wire.errors import (
    ClientClosed,
    ClientError,
    RequestRefused,
    TransportError,
    UnsupportedByBroker,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Mapping

    from ottla.client.cluster.routing import Router
    from ottla.client.group.commit_state import Flight, Ticket
    from ottla.client.group.identity import GroupIdentity
    from ottla.client.records.committed import Committed
    from ottla.protocol.ids import TopicPartition
    from ottla.protocol.ports import Clock

# Codes of this client for requests that no coordinator has answered.
WITHOUT_ANSWER = frozenset({ErrorCode.NETWORK_EXCEPTION, ErrorCode.UNSUPPORTED_VERSION})


class Commits:
    """Owned by one group member, which reports what it reads, what it holds, and its identity."""

    def __init__(
        self,
        router: Router,
        group_id: str,
        clock: Clock,
        *,
        coordinators: Coordinators | None = None,
        interval_ms: float | None = None,
        on_failure: Callable[[ClientError], object] | None = None,
        on_stored: Callable[[Mapping[TopicPartition, int]], object] | None = None,
    ) -> None:
        """``interval_ms`` is that of automatic commits, None for none. ``on_failure``
        gets the error of a failed automatic commit, ``on_stored`` the stored offsets."""
        self._router = router
        self._group_id = group_id
        self._clock = clock
        self._coordinators = coordinators or Coordinators(router)
        self._ledger: CommitLedger[GroupIdentity] = CommitLedger(interval_ms)
        self._waiting: dict[Ticket, asyncio.Future[None]] = {}
        self._unattended: list[Ticket] = []
        self._on_failure = on_failure
        self._on_stored = on_stored
        self._last_error: ClientError | None = None
        self._crash: BaseException | None = None
        self._is_closed = False
        self._tasks = ClientTasks(self._on_crash)

    # What was read, and what the member has.

    def consumed(self, partition: TopicPartition, next_offset: int, leader_epoch: int = -1) -> None:
        """Record that the application is done with everything before that offset.

        Called when the application comes back for the next record."""
        self._ledger.consumed(partition, next_offset, leader_epoch)

    def uncommitted(self) -> dict[TopicPartition, Committed]:
        """Return what was consumed and not yet asked to be stored."""
        return self._ledger.uncommitted()

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """Fail the pending commits of revoked or lost partitions with CommitFailed."""
        self._ledger.forget(partitions)
        self._settle()

    def renew(self, member: GroupIdentity) -> None:
        """Continue under this identity, with all partitions that were not forgotten."""
        self._ledger.renew(member)

    # Storing.

    async def commit(
        self,
        offsets: Mapping[TopicPartition, Committed],
        member: GroupIdentity,
        timeout_ms: float | None = None,
    ) -> None:
        """Store positions: each the offset of the next record to be read.

        Later calls win over earlier ones that are still in flight. Raises CommitFailed if the
        member was replaced; RequestRefused or TransportError if it did not succeed within
        ``timeout_ms`` (default ``call_timeout_ms``): after a timeout the positions may be stored
        all the same."""
        if offsets:
            await self._wait(self._ask(offsets, member), timeout_ms)

    def due(self, now_ms: float) -> bool:
        """Return whether an automatic commit is due; asked before records are handed out."""
        return self._ledger.due(now_ms)

    def start_commit(self, member: GroupIdentity) -> None:
        """Store what was consumed, without waiting. The next automatic commit retries."""
        offsets = self._ledger.uncommitted()
        if not offsets:
            return
        ticket = self._ask(offsets, member)
        # One ticket for all that is pending, or tickets would pile up while a coordinator is away.
        self._ledger.join(ticket)
        for older in self._unattended:
            self._ledger.abandon(older)
        self._unattended = [ticket]

    async def finish(self, member: GroupIdentity, timeout_ms: float) -> ClientError | None:
        """Store what was consumed before partitions are given up, and wait for all pending commits.

        Returns the error instead of raising it: the partitions are given up in any case."""
        try:
            ticket = self._ask(self._ledger.uncommitted(), member)
            self._ledger.join(ticket)
            await self._wait(ticket, timeout_ms)
        except ClientError as error:
            return error
        return None

    def fetch(
        self, partitions: Iterable[TopicPartition]
    ) -> Coroutine[Any, Any, dict[TopicPartition, Committed]]:
        """Return the group's positions; partitions without one are left out. Raises GroupRefused.

        Waits for transactions that are about to move a position (KIP-447)."""
        return fetch_positions(self._coordinators, self._group_id, partitions, require_stable=True)

    async def stop(self) -> None:
        """End without waiting; pending calls raise ClientClosed."""
        self._is_closed = True
        await self._tasks.stop()
        for done in self._waiting.values():
            if not done.done():
                done.set_exception(ClientClosed("the consumer is closed"))

    # The one request in flight.

    def _ask(self, offsets: Mapping[TopicPartition, Committed], member: GroupIdentity) -> Ticket:
        if self._is_closed:
            raise ClientClosed("the consumer is closed")
        if self._crash is not None:
            raise self._crash
        ticket = self._ledger.ask(offsets, member)
        self._tasks.start_once("ottla-commits", self._send_all, lambda: None)
        return ticket

    async def _wait(self, ticket: Ticket, timeout_ms: float | None) -> None:
        if ticket.is_done:
            return
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[ticket] = done
        limit_ms = self._router.cluster.config.call_timeout_ms if timeout_ms is None else timeout_ms
        try:
            async with TimeLimit(self._clock, limit_ms):
                await done
        except TimeoutError:
            ticket.failed.update(self._ledger.abandon(ticket))
        finally:
            del self._waiting[ticket]
            self._ledger.abandon(ticket)
        failure = self._failure(ticket)
        if failure is not None:
            raise failure

    async def _send_all(self) -> None:
        failures = 0
        while (flight := self._ledger.depart()) is not None:
            verdict = self._ledger.arrived(await self._send(flight))
            self._settle()
            if verdict is CommitVerdict.DONE:
                failures = 0
                continue
            if verdict is CommitVerdict.ELSEWHERE:
                self._coordinators.forget(self._group_id)
            failures += 1
            await self._router.cluster.pause(failures)

    async def _send(self, flight: Flight[GroupIdentity]) -> dict[TopicPartition, ErrorCode]:
        """Make one attempt; a failure of the whole request becomes one code for every partition."""
        try:
            connection = await self._coordinators.connection(self._group_id)
            request = member_commit_request(flight.member, flight.offsets)
            response = await connection.send(MEMBER_OFFSET_COMMIT, request)
        except TransportError as error:
            self._last_error = error
            code = ErrorCode.NETWORK_EXCEPTION
        except RequestRefused as error:
            code = error.code
        except UnsupportedByBroker as error:
            self._last_error = error
            code = ErrorCode.UNSUPPORTED_VERSION
        else:
            codes = codes_by_partition(response)
            self._tell_stored(flight, codes)
            return codes
        return dict.fromkeys(flight.offsets, code)

    def _tell_stored(
        self, flight: Flight[GroupIdentity], codes: Mapping[TopicPartition, ErrorCode]
    ) -> None:
        if self._on_stored is None:
            return
        stored = {
            where: position.offset
            for where, position in flight.offsets.items()
            if codes.get(where) is ErrorCode.NONE
        }
        if stored:
            self._on_stored(stored)

    def _settle(self) -> None:
        for ticket, done in self._waiting.items():
            if ticket.is_done and not done.done():
                done.set_result(None)
        for ticket in [ticket for ticket in self._unattended if ticket.is_done]:
            self._unattended.remove(ticket)
            failure = self._failure(ticket)
            if failure is not None and self._on_failure is not None:
                self._on_failure(failure)

    def _failure(self, ticket: Ticket) -> ClientError | None:
        """Return the error of a finished ticket, None if it succeeded; fencing comes first."""
        if not ticket.failed:
            return None
        fenced = {
            partition: code
            for partition, code in ticket.failed.items()
            if judge_commit(code) is CommitVerdict.FENCED
        }
        if fenced:
            return CommitFailed(self._group_id, next(iter(fenced.values())), fenced)
        partition, code = next(iter(ticket.failed.items()))
        error = self._last_error
        if code in WITHOUT_ANSWER and error is not None:
            return error
        if code is ErrorCode.NONE:
            code = ErrorCode.REQUEST_TIMED_OUT
        return RequestRefused.for_partition(code, partition)

    def _on_crash(self, error: BaseException) -> None:
        """Fail all waiting calls: a bug here must not leave callers waiting."""
        self._crash = error
        for done in self._waiting.values():
            if not done.done():
                done.set_exception(error)
