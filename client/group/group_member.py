"""One consumer as a member of its group: its membership, its listener, and what it holds.

The application's task carries out changes of the assignment here.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from typing import TYPE_CHECKING

from ottla.client.group.membership import Membership
from ottla.client.group.offsets import LEAVE_LIMIT_MS, GroupOffsets
from ottla.protocol.errors import ErrorCode
from ottla.wire.errors import ClientError, RequestRefused, UnsupportedByBroker

if TYPE_CHECKING:
    import re
    from collections.abc import Awaitable, Callable, Sequence

    from ottla.client.cluster.cluster import ClusterClient
    from ottla.client.fetching.consumed_positions import ConsumedPositions
    from ottla.client.fetching.fetcher import Fetcher
    from ottla.client.group.change import AssignmentChange
    from ottla.client.group.identity import GroupIdentity
    from ottla.client.group.rebalance_listener import RebalanceListener
    from ottla.client.settings.config import ConsumerConfig
    from ottla.protocol.ids import TopicPartition

    Tell = Callable[[Sequence[TopicPartition]], Awaitable[None] | None]

logger = logging.getLogger(__name__)


class GroupMember:
    """Owned by one consumer that has a ``group_id``; ``stop`` it in the end."""

    def __init__(
        self,
        cluster: ClusterClient,
        config: ConsumerConfig,
        fetcher: Fetcher,
        consumed: ConsumedPositions,
    ) -> None:
        self.is_subscribed = False
        self.offsets = GroupOffsets(cluster, config, fetcher, consumed)
        self._clock = cluster.environment.clock
        self._config = config
        self._fetcher = fetcher
        self._consumed = consumed
        self._listener: RebalanceListener | None = None
        self._companion: RebalanceListener | None = None
        self._membership = Membership(cluster, config, self, fetcher.crash)
        self._member = self._membership.member
        # Held while the assignment changes, by the task that changes it.
        self._changing = asyncio.Lock()
        self._changer: asyncio.Task[object] | None = None

    @property
    def identity(self) -> GroupIdentity:
        """The identity under which positions are stored."""
        return self._member.identity

    def subscribe(
        self, topics: Sequence[str] | re.Pattern[str], listener: RebalanceListener | None
    ) -> None:
        """Subscribe to these topics; the listener is called for changes of the assignment."""
        self.is_subscribed = True
        self._listener = listener
        self._membership.subscribe(topics)

    def attach(self, companion: RebalanceListener | None) -> None:
        """Call this listener before the application's, and leave all commits to it; None ends that.

        The companion is responsible for the records handed out in between."""
        self._companion = companion
        self.offsets.is_delegated = companion is not None
        self._consumed.returned.finish()

    def commit_if_due(self) -> None:
        """Start an automatic commit of what the application has processed."""
        if self._member.owned:
            self.offsets.commit_if_due(self._clock.now_ms(), self._member.identity)

    async def stop(self) -> None:
        """End without a request to the group."""
        await self._membership.stop()
        await self.offsets.stop()

    # While the application polls.

    def enter_poll(self) -> None:
        """Record that the application waits for records."""
        self._member.liveness.enter_poll()
        self._membership.nudge()

    def exit_poll(self) -> None:
        """Record that the application's poll has returned."""
        self._member.liveness.exit_poll(self._clock.now_ms())

    @property
    def has_news(self) -> bool:
        """Whether ``change`` has something to do."""
        return self._member.change is not None or self._member.refusal is not None

    @property
    def may_read(self) -> bool:
        """Whether the assigned partitions certainly belong to this member."""
        return not self._membership.is_doubtful

    async def change(self) -> None:
        """Carry out what the group has decided.

        Raises what the listener raises, and RequestRefused or UnsupportedByBroker if the group will
        never accept this member."""
        member = self._member
        async with self._changing:
            change = member.begin_change()
            if change is not None:
                await self._carry_out(change)
        refusal = member.refusal
        if refusal is not None and member.change is None:
            if refusal.code is ErrorCode.NONE:
                raise UnsupportedByBroker(refusal.text)
            raise RequestRefused(refusal.code, refusal.text)

    async def leave(self, *, is_closing: bool, has_failed: bool = False) -> None:
        """Give everything up and leave the group. ``has_failed``: records that the application is
        processing do not count as read. Raises what the listener raises."""
        if self._changer is not None and self._changer is asyncio.current_task():
            raise ClientError("a rebalance listener cannot end the subscription it listens to")
        async with self._changing:
            if has_failed:
                self._consumed.rewind()
            self._consumed.interrupt()
            change = self._member.leaving_change()
            try:
                if change is not None:
                    await self._carry_out(change)
            finally:
                self.is_subscribed = False
                self._listener = None
                limit_ms = min(self._config.request_timeout_ms, LEAVE_LIMIT_MS)
                await self._membership.leave(limit_ms, is_closing=is_closing)

    async def _carry_out(self, change: AssignmentChange) -> None:
        """Carry out one change; the poll timer runs while the listener does."""
        member, errors = self._member, list[Exception]()
        member.liveness.exit_poll(self._clock.now_ms())
        self._changer = asyncio.current_task()
        try:
            if change.lost:
                self.offsets.forget(change.lost)
                await self._tell("on_lost", change.lost, errors)
            if change.revoked:
                await self._give_up(change.revoked, errors)
        finally:
            self._apply(change)
            try:
                if change.assigned:
                    await self._tell("on_assigned", change.assigned, errors)
            finally:
                self._changer = None
                self.offsets.find()
                member.liveness.exit_poll(self._clock.now_ms())
        if errors:
            raise errors[0]

    async def _give_up(self, partitions: Sequence[TopicPartition], errors: list[Exception]) -> None:
        """Commit and call the listener; even if this is cancelled, forget the partitions' pending
        commits, which would move the next owner's positions back."""
        try:
            try:
                await self.offsets.commit_at_last(self._member.identity)
            finally:
                await self._tell("on_revoked", partitions, errors)
        finally:
            self.offsets.forget(partitions)

    def _apply(self, change: AssignmentChange) -> None:
        positions = self._fetcher.positions
        gone = {*change.lost, *change.revoked}
        kept = [where for where in positions.partitions if where not in gone]
        # In two steps: a partition of a recreated topic starts over.
        positions.assign(kept)
        positions.assign([*kept, *change.assigned], is_awaiting=True)
        self._fetcher.drop_stale_fetches()
        self._fetcher.wake()
        self._member.end_change()
        self._membership.wake()

    async def _tell(
        self, name: str, partitions: Sequence[TopicPartition], errors: list[Exception]
    ) -> None:
        for listener in (self._companion, self._listener):
            tell: Tell | None = getattr(listener, name, None)
            if tell is None:
                continue
            try:
                result = tell(partitions)
                if inspect.isawaitable(result):
                    await result
            except Exception as error:
                # The rest has to be done all the same, or the group and this member would disagree.
                errors.append(error)

    # Calls from the membership.

    def on_news(self) -> None:
        """Stop handing out records until the application has carried out the change."""
        self._consumed.interrupt()
        self._fetcher.arrived.set()

    def on_identity(self, identity: GroupIdentity) -> None:
        """Continue under this identity, with what the member holds."""
        self.offsets.renew(identity)

    def on_tick(self) -> bool:
        """Commit if due. Returns whether the application has taken records since the last tick."""
        self.commit_if_due()
        return self._consumed.returned.has_progressed()
