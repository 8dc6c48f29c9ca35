"""State of a member of a KIP-848 group, whose coordinator divides the partitions. Pure.

    OUT      nothing subscribed          subscribe                         -> JOINING
    JOINING  a heartbeat with epoch 0    answered: an epoch                -> STABLE
    STABLE   heartbeats with the epoch   forgotten, or fenced              -> JOINING

One request does everything. It has the fields that changed since the last answered one, or all if
that is not sure; the answer has an assignment if it changed. The member gives up what is missing
from it, and only then reports that: so the coordinator never gives a partition to two members.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.client.group.change import MembershipPhase, NextAction, change_of
from ottla.client.group.identity import NO_GENERATION, GroupIdentity
from ottla.client.group.member_state import ALIVE, MOVED, MemberProtocol, names
from ottla.protocol.errors import ErrorCode, error_code
from ottla.protocol.ids import TopicPartition, Uuid
from ottla.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ottla.client.group.change import AssignmentChange, MemberSettings

JOIN_EPOCH = 0
LEAVE_EPOCH = -1
# A static member that will return: its partitions stay reserved until its session ends.
PAUSE_EPOCH = -2
SERVED_BY_ALL = "group_protocol='classic' is served by all brokers"
FORGOTTEN = frozenset({ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH})


class ConsumerMember(MemberProtocol):
    """Owned by one membership. ``generation`` is the member's epoch."""

    def __init__(
        self, settings: MemberSettings, member_id: str, remote_assignor: str | None
    ) -> None:
        """``member_id`` is chosen by the client, for the consumer's whole life (KIP-1082)."""
        super().__init__(settings)
        assert member_id
        self.member_id = member_id
        self.topics: tuple[str, ...] | None = None
        self.regex: str | None = None
        self._remote_assignor = remote_assignor
        self._interval_ms = float(settings.heartbeat_interval_ms)
        self._has_told_regex = False
        # Whether the next heartbeat has all fields, and is sent at once.
        self._has_news = False
        self._target: dict[Uuid, tuple[int, ...]] | None = None
        self._names: dict[Uuid, str] = {}
        # The id under which each topic is owned: a recreated topic is another topic.
        self._ids: dict[str, Uuid] = {}
        self._leaving: tuple[int, MembershipPhase] = (LEAVE_EPOCH, MembershipPhase.OUT)

    # The application's side.

    def subscribe(self, topics: Sequence[str], now_ms: float, *, regex: str | None = None) -> None:
        """Subscribe to these topics, or to those whose whole name matches an RE2 expression."""
        wanted = tuple(sorted(set(topics)))
        if (wanted, regex) == (
            self.topics,
            self.regex,
        ) and self.phase is not MembershipPhase.FAILED:
            return
        self.topics, self.regex = wanted, regex
        self._has_news = True
        if self.phase in (MembershipPhase.OUT, MembershipPhase.FAILED, MembershipPhase.LEAVING):
            self.liveness.progress(now_ms)
        if self.phase in (MembershipPhase.OUT, MembershipPhase.FAILED):
            self.refusal = None
            self.phase = MembershipPhase.JOINING

    def leave(self, reason: str, *, is_closing: bool) -> None:
        self.topics = self.regex = None
        super().leave(reason, is_closing=is_closing)

    def _leave(self, reason: str, then: MembershipPhase, *, is_closing: bool = False) -> None:
        self._target = None
        if self.phase in (MembershipPhase.OUT, MembershipPhase.FAILED):
            self.phase = then
            return
        is_static = self.settings.instance_id is not None
        stays = is_static and (is_closing or then is MembershipPhase.SILENT)
        self._leaving = (PAUSE_EPOCH if stays else LEAVE_EPOCH, then)
        self.phase = MembershipPhase.LEAVING

    def _left(self) -> None:
        self.generation = NO_GENERATION
        _, self.phase = self._leaving
        if self.phase is MembershipPhase.OUT and self.topics is not None:
            # The application subscribed again while the member was leaving.
            self.phase = MembershipPhase.JOINING

    def _changed(self, change: AssignmentChange) -> None:
        # The coordinator waits to hear what has been given up.
        self._has_news = True

    # The task's side.

    def advance(self, now_ms: float) -> ConsumerGroupHeartbeatRequest | None:
        self._check_silence(now_ms)
        match self.phase:
            case MembershipPhase.LEAVING:
                epoch, _ = self._leaving
                return ConsumerGroupHeartbeatRequest(
                    self.settings.group_id, self.member_id, epoch, self.settings.instance_id
                )
            case MembershipPhase.JOINING if not self._is_waiting:
                return self._heartbeat(JOIN_EPOCH, now_ms, is_full=True)
            case MembershipPhase.STABLE:
                self._reconcile()
                if self._has_news or now_ms >= self._next_heartbeat_ms:
                    return self._heartbeat(self.generation, now_ms, is_full=self._has_news)
        return None

    def _heartbeat(
        self, epoch: int, now_ms: float, *, is_full: bool
    ) -> ConsumerGroupHeartbeatRequest:
        settings = self.settings
        self._next_heartbeat_ms = now_ms + self._interval_ms
        self._has_news = False
        request = ConsumerGroupHeartbeatRequest(
            settings.group_id, self.member_id, epoch, settings.instance_id
        )
        if is_full:
            assert self.topics is not None
            request.rack_id = settings.rack or None
            request.rebalance_timeout_ms = settings.rebalance_timeout_ms
            request.subscribed_topic_names = list(self.topics)
            request.server_assignor = self._remote_assignor
            if self.regex is not None or self._has_told_regex:
                # Null would leave an earlier expression in force.
                request.subscribed_topic_regex = self.regex or ""
                self._has_told_regex = True
            request.topic_partitions = self._owned_by_id()
        return request

    def _owned_by_id(self) -> list[TopicPartitions]:
        numbers: dict[Uuid, list[int]] = {}
        for where in sorted(self.owned):
            numbers.setdefault(self._ids[where.topic], []).append(where.partition)
        return [TopicPartitions(*item) for item in numbers.items()]

    def unanswered(self, request: Any) -> None:
        if self.phase is MembershipPhase.LEAVING and request.member_epoch < 0:
            self._left()
        else:
            # The coordinator may or may not have received it.
            self._has_news = True

    # Topics come by id.

    @property
    def unnamed(self) -> frozenset[Uuid]:
        """Ids of assigned topics whose names are still to be looked up."""
        return frozenset(self._target or ()) - frozenset(self._names)

    def name_topics(self, names: Mapping[Uuid, str]) -> None:
        """Take the names of these ids."""
        for topic_id in self.unnamed:
            if topic_id in names:
                self._names[topic_id] = names[topic_id]

    def _reconcile(self) -> None:
        """Let the application move towards the target; topics without a name have to wait."""
        if self._target is None or self._is_waiting:
            return
        target: set[TopicPartition] = set()
        ids: dict[str, Uuid] = {}
        for topic_id, numbers in self._target.items():
            name = self._names.get(topic_id)
            if name is not None:
                ids[name] = topic_id
                target.update(TopicPartition(name, number) for number in numbers)
        replaced = {
            where
            for where in self.owned
            if where.topic in ids and ids[where.topic] != self._ids[where.topic]
        }
        if not self.unnamed:
            self._target = None
        change = change_of(
            revoked=(self.owned - target) | replaced, assigned=target - (self.owned - replaced)
        )
        if change is None:
            return
        self._note(
            f"epoch {self.generation}, member {self.member_id}: gives up {names(change.revoked)}, "
            f"gets {names(change.assigned)}"
        )
        # Both are reported together afterwards, the new ids with the new partitions.
        self._ids.update(ids)
        self._offer(change)

    # Answers.

    def answered(self, request: Any, response: Any, sent_ms: float) -> NextAction:
        assert isinstance(request, ConsumerGroupHeartbeatRequest)
        assert isinstance(response, ConsumerGroupHeartbeatResponse)
        code = error_code(response.error_code)
        if request.member_epoch < JOIN_EPOCH:
            if code in MOVED:
                return NextAction.ELSEWHERE
            if self.phase is MembershipPhase.LEAVING:
                self._left()
            return NextAction.GO_ON
        awaited = JOIN_EPOCH if self.phase is MembershipPhase.JOINING else self.generation
        if self.phase not in ALIVE or request.member_epoch != awaited:
            return NextAction.GO_ON
        if code is not ErrorCode.NONE:
            return self._refused(request, code, response.error_message)
        settings = self.settings
        self.liveness.contact(sent_ms)
        if request.subscribed_topic_regex == "":
            self._has_told_regex = False
        # A broker that speaks version 0 may have chosen another id.
        self.member_id = response.member_id or self.member_id
        self.generation = response.member_epoch
        self.identity = GroupIdentity(
            settings.group_id, self.member_id, self.generation, settings.instance_id
        )
        if response.heartbeat_interval_ms > 0:
            self._interval_ms = float(response.heartbeat_interval_ms)
        self._next_heartbeat_ms = sent_ms + self._interval_ms
        if response.assignment is not None:
            self._target = {
                topic.topic_id: tuple(topic.partitions)
                for topic in response.assignment.topic_partitions
            }
        self.phase = MembershipPhase.STABLE
        return NextAction.GO_ON

    def _refused(
        self, request: ConsumerGroupHeartbeatRequest, code: ErrorCode, text: str | None
    ) -> NextAction:
        if code in FORGOTTEN:
            self._note(f"the coordinator has forgotten the member: {text or code.text}")
            self._target = None
            self._lose(keep_member_id=True)
            self.phase = MembershipPhase.JOINING
            return NextAction.AGAIN if request.member_epoch == JOIN_EPOCH else NextAction.GO_ON
        self.unanswered(request)
        if code in MOVED:
            return NextAction.ELSEWHERE
        if code.retriable or code is ErrorCode.UNKNOWN_SERVER_ERROR:
            return NextAction.AGAIN
        if code is ErrorCode.UNSUPPORTED_VERSION:
            # Brokers before 4.0 know the request but have the protocol disabled.
            text = f"{text or code.text}: {SERVED_BY_ALL}"
        return self._fail(code, text)
