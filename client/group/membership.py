"""Runs one consumer's membership of its group: one task that talks to the coordinator.

The protocol objects (``ClassicMember``, ``ConsumerMember``) decide what to send and what answers
mean. The application carries out changes of its assignment in its own task, while it polls.
"""

from __future__ import annotations

import asyncio
import base64
import logging
from typing import TYPE_CHECKING, Any, Protocol

from ottla.client.cluster.upkeep import Upkeep
from ottla.client.group.assignors.registry import make_assignors
from ottla.client.group.change import MemberSettings, MembershipPhase, NextAction
from ottla.client.group.classic_protocol import ClassicMember
from ottla.client.group.consumer_protocol import SERVED_BY_ALL, ConsumerMember
from ottla.client.group.coordinator_link import MembershipLink
from ottla.client.group.subscribed_topics import MembershipTopics, SubscribedTopics
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ottla.protocol.messages.join_group import JoinGroupRequest
from ottla.protocol.messages.sync_group import SyncGroupRequest
from ottla.wire.clock import TimeLimit
from ottla.wire.errors import ClientError, RequestRefused, TransportError, UnsupportedByBroker

if TYPE_CHECKING:
    import re
    from collections.abc import Callable, Sequence

    from ottla.client.cluster.cluster import ClusterClient
    from ottla.client.group.identity import GroupIdentity
    from ottla.client.settings.config import ConsumerConfig
    from ottla.protocol.ports import Random
    from ottla.wire.connection import Connection

logger = logging.getLogger(__name__)

# The coordinator answers a join at the latest when the slowest member's rebalance timeout ends.
JOIN_GRACE_MS = 5_000.0
MEMBER_ID_BYTES = 16
# How long the task sleeps when nothing is due.
IDLE_MS = 1_000.0


class MembershipOwner(Protocol):
    """The consumer's side of a membership."""

    def on_news(self) -> None:
        """Called when the application has a change to carry out, or may read again."""

    def on_identity(self, identity: GroupIdentity) -> None:
        """Called when the member has a new identity."""

    def on_tick(self) -> bool:
        """Called at intervals; returns whether the application has been alive since."""


class Membership:
    """Owned by one consumer. ``on_crash`` gets the exception that ended the task."""

    def __init__(
        self,
        cluster: ClusterClient,
        config: ConsumerConfig,
        owner: MembershipOwner,
        on_crash: Callable[[BaseException], None],
    ) -> None:
        assert config.group_id is not None
        self._cluster = cluster
        self._config = config
        self._clock = cluster.environment.clock
        self._random = cluster.environment.random.child("membership")
        self._owner = owner
        self.member = make_member(config, self._random)
        self._identity = self.member.identity
        self._has_doubts = False
        self._link = MembershipLink(cluster, config.group_id)
        self._upkeep = Upkeep(cluster, self.wake, on_crash)
        self._topics = MembershipTopics(cluster, self._upkeep)
        self._subscribed = SubscribedTopics(self.member, self._topics, self._clock, self.wake)
        self._wake = asyncio.Event()
        self._out = asyncio.Event()
        self._is_running = False
        longest_ms = config.effective_rebalance_timeout_ms + JOIN_GRACE_MS
        self._join_timeout_ms = max(longest_ms, config.request_timeout_ms)
        self._failures = 0

    # The consumer's side.

    def subscribe(self, topics: Sequence[str] | re.Pattern[str]) -> None:
        """Subscribe to these topics; joins the group if needed. Returns at once."""
        self._subscribed.set(topics)
        if not self._is_running:
            self._is_running = True
            self._upkeep.run(self._run(), "membership")
        self.wake()

    async def leave(self, limit_ms: float, *, is_closing: bool) -> None:
        """Leave the group, after what ``member.leaving_change`` demands.

        Never raises: without an answer in time the session has to run out."""
        self._subscribed.clear()
        reason = "the consumer is closed" if is_closing else "the consumer has unsubscribed"
        self.member.leave(reason, is_closing=is_closing)
        if not self._is_running or self.member.phase is MembershipPhase.OUT:
            return
        self._out.clear()
        self.wake()
        try:
            async with TimeLimit(self._clock, limit_ms):
                await self._out.wait()
        except TimeoutError:
            logger.warning(
                "group %r: the coordinator has not heard that the member leaves; it will notice "
                "when the session ends",
                self._config.group_id,
            )

    async def stop(self) -> None:
        """End the task and the connection without a request to the group."""
        await self._upkeep.stop()
        self._link.close()

    def wake(self) -> None:
        """Let the task check what there is to do."""
        self._wake.set()

    def nudge(self) -> None:
        """Record that the application polls."""
        if self.member.phase is MembershipPhase.SILENT:
            self._wake.set()

    @property
    def is_doubtful(self) -> bool:
        """Whether the partitions held may already belong to another member."""
        member = self.member
        return bool(member.owned) and member.liveness.is_doubtful(self._clock.now_ms())

    # The task.

    async def _run(self) -> None:
        while True:
            self._wake.clear()
            member, now_ms = self.member, self._clock.now_ms()
            if self._owner.on_tick():
                member.liveness.progress(now_ms)
            self._subscribed.tend(now_ms)
            if isinstance(member, ClassicMember) and member.has_to_assign:
                await self._assign(member)
                continue
            request = member.advance(now_ms)
            self._tell()
            if request is None:
                next_ms = member.next_ms()
                await self._sleep(IDLE_MS if next_ms is None else min(IDLE_MS, next_ms - now_ms))
            else:
                await self._perform(request)
                self._tell()

    def _tell(self) -> None:
        member = self.member
        for note in member.notes:
            logger.log(logging.WARNING if note.is_warning else logging.INFO, "%s", note.text)
        member.notes.clear()
        if member.identity != self._identity:
            self._identity = member.identity
            self._owner.on_identity(self._identity)
        has_doubts = self.is_doubtful
        if has_doubts and not self._has_doubts:
            logger.warning(
                "group %r: no answer from the coordinator for session_timeout_ms; nothing is read "
                "until it says whether this member is still in the group",
                self._config.group_id,
            )
        has_news = member.change is not None or member.refusal is not None
        if has_news or has_doubts != self._has_doubts:
            self._owner.on_news()
        self._has_doubts = has_doubts
        if member.phase is MembershipPhase.OUT:
            self._out.set()

    async def _assign(self, member: ClassicMember) -> None:
        """Assign partitions as the group's leader; the group waits for it."""
        leadership = member.leadership
        assert leadership is not None
        self._topics.follow(leadership.topics.union(member.topics or ()))
        try:
            await self._cluster.refresh_if_stale()
        except ClientError as error:
            logger.info("cannot look at the topics of the group: %s", error)
            await self._pause()
            return
        member.assign(self._topics.counts(), self._topics.details())

    async def _perform(self, request: Any) -> None:
        member = self.member
        try:
            connection = await self._link.connection()
            if not self._subscribed.is_understood(connection, request):
                member.unanswered(request)
                return
            sent_ms = self._clock.now_ms()
            response = await self._answer(connection, request)
        except TransportError as error:
            logger.info("group %r: %s", self._config.group_id, error)
            self._link.forget()
            member.unanswered(request)
            await self._pause()
            return
        except RequestRefused as error:
            # No coordinator is known, or the client may not use the group.
            member.unanswered(request)
            if not error.retriable:
                member.refuse(error.code, str(error))
            await self._pause()
            return
        except UnsupportedByBroker as error:
            is_newer = isinstance(request, ConsumerGroupHeartbeatRequest)
            member.refuse(ErrorCode.NONE, f"{error}: {SERVED_BY_ALL}" if is_newer else str(error))
            return
        verdict = member.answered(request, response, sent_ms)
        if member.refusal is not None and self._subscribed.refused(member.refusal.code):
            return
        if verdict is NextAction.GO_ON:
            self._failures = 0
            return
        if verdict is NextAction.ELSEWHERE:
            self._link.forget()
        await self._pause()

    async def _answer(self, connection: Connection, request: Any) -> Any:
        """Send and wait; if the member leaves, a pending join is dropped with its connection."""
        waits_for_others = isinstance(request, JoinGroupRequest | SyncGroupRequest)
        timeout_ms = None
        if waits_for_others:
            timeout_ms = self._join_timeout_ms
        future = self._link.send(connection, request, timeout_ms)
        future.add_done_callback(lambda _: self._wake.set())
        while not future.done():
            if waits_for_others:
                # Until it answers the coordinator waits as well, and expires no member.
                self.member.liveness.contact(self._clock.now_ms())
                if self.member.phase is MembershipPhase.LEAVING:
                    connection.close("the member leaves while it joins")
            self._wake.clear()
            if not future.done():
                await self._sleep(IDLE_MS)
        return future.result()

    async def _sleep(self, limit_ms: float) -> None:
        """Sleep until a wake-up, at most for that time."""
        try:
            async with TimeLimit(self._clock, limit_ms):
                await self._wake.wait()
        except TimeoutError:
            return

    async def _pause(self) -> None:
        self._failures += 1
        self._tell()
        chance = self._random.random()
        await self._clock.sleep(self._config.retry_backoff.delay_ms(self._failures, chance))


def make_member(config: ConsumerConfig, random: Random) -> ClassicMember | ConsumerMember:
    """Create the protocol object for the configuration. Raises ValueError for unknown assignors."""
    assert config.group_id is not None
    settings = MemberSettings(
        config.group_id,
        config.group_instance_id,
        config.rack or None,
        config.session_timeout_ms,
        config.heartbeat_interval_ms,
        config.effective_rebalance_timeout_ms,
        config.max_poll_interval_ms,
    )
    if config.group_protocol == "classic":
        return ClassicMember(settings, make_assignors(config.assignors))
    token = base64.urlsafe_b64encode(random.token(MEMBER_ID_BYTES)).rstrip(b"=").decode()
    return ConsumerMember(settings, token, config.remote_assignor)
