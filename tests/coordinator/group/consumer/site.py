"""A group with its log and a clock: what the shell is to it, without a shell."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.coordinator.effects import Append, LogRecord, Moment, RequestOrigin, SendResponse
from ottla.coordinator.failures import Skipped
from ottla.coordinator.group.common.records import (
    decode_record,
)
from ottla.coordinator.group.common.scope import GroupScope
from ottla.coordinator.group.common.settings import GroupSettings
from ottla.coordinator.group.consumer.context import ConsumerContext
from ottla.coordinator.group.consumer.group import ConsumerGroup
from ottla.coordinator.metadata.image import MetadataImage, PartitionState, TopicImage
from ottla.coordinator.patterns import compile_pattern
from ottla.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ottla.protocol.errors import ErrorCode
    from ottla.protocol.ids import Uuid
    from ottla.protocol.messages.consumer_group_describe import DescribedGroup

CALLER = RequestOrigin("client", "/127.0.0.1", 1)
STARTED_WALL_MS = 1_700_000_000_000


def topic_id_of(name: str, incarnation: int = 0) -> Uuid:
    """The id that a topic has in these tests."""
    return name.encode().ljust(15, b".")[:15] + bytes([incarnation])


def image_of(partition_counts: Mapping[str, int], incarnation: int = 0) -> MetadataImage:
    """Metadata with these topics."""
    topics = {
        name: TopicImage(
            name,
            topic_id_of(name, incarnation),
            {index: PartitionState((1,)) for index in range(count)},
        )
        for name, count in partition_counts.items()
    }
    return MetadataImage(
        "cluster", topics=topics, names={topic.topic_id: name for name, topic in topics.items()}
    )


class Site:
    """``log`` is what was appended. While ``is_committing``, appends commit at once."""

    def __init__(
        self,
        partition_counts: Mapping[str, int] | None = None,
        settings: GroupSettings | None = None,
    ) -> None:
        self.image = image_of(partition_counts or {"t": 4})
        self.scope = GroupScope(settings or GroupSettings(), new_id=self._new_id)
        self.context = ConsumerContext(
            self.scope, lambda: self.image, compile_pattern, lambda _group_id, _value: None
        )
        self.group = ConsumerGroup("g", self.context)
        self.log: list[LogRecord] = []
        self.answers: dict[int, Any] = {}
        self.is_committing = True
        self.uncommitted: list[int] = []
        self._last_ticket = 0
        self._last_id = 0
        self.set_time(0)

    def _new_id(self) -> str:
        self._last_id += 1
        return f"made-{self._last_id}"

    def set_time(self, now_ms: float) -> None:
        self.scope.moment = Moment(now_ms, STARTED_WALL_MS + int(now_ms))

    @property
    def now_ms(self) -> float:
        return self.scope.moment.now_ms

    def set_topics(self, partition_counts: Mapping[str, int], incarnation: int = 0) -> None:
        self.image = image_of(partition_counts, incarnation)

    def ticket(self) -> int:
        self._last_ticket += 1
        return self._last_ticket

    def carry_out(self) -> None:
        """Do what the group wants done, as the shell would."""
        while effects := self.scope.outbox.take():
            for effect in effects:
                match effect:
                    case SendResponse(ticket, response):
                        assert ticket not in self.answers, "a ticket is answered once"
                        self.answers[ticket] = response
                    case Append(token, records, _writer):
                        self.log.extend(records)
                        self.uncommitted.append(token)
            if self.is_committing:
                self.commit()

    def commit(self) -> None:
        """The high watermark reaches the end of the log."""
        tokens, self.uncommitted = self.uncommitted, []
        for token in tokens:
            self.scope.outbox.committed(token)
        for effect in self.scope.outbox.take():
            assert isinstance(effect, SendResponse), "a committed record caused another write"
            assert effect.ticket not in self.answers, "a ticket is answered once"
            self.answers[effect.ticket] = effect.response

    def fail(self, error: ErrorCode) -> None:
        """The log refuses everything that is open."""
        tokens, self.uncommitted = self.uncommitted, []
        for token in tokens:
            self.scope.outbox.failed(token, error)
        self.carry_out()

    def ask(
        self, request: ConsumerGroupHeartbeatRequest, caller: RequestOrigin = CALLER
    ) -> ConsumerGroupHeartbeatResponse:
        """Send a heartbeat and take its answer."""
        ticket = self.ticket()
        self.group.heartbeat(request, caller, ticket)
        self.carry_out()
        response = self.answers[ticket]
        assert isinstance(response, ConsumerGroupHeartbeatResponse)
        return response

    def described(self) -> DescribedGroup:
        """The group as ConsumerGroupDescribe shows it; all that was appended is committed."""
        shown: list[DescribedGroup] = []
        self.group.describe(shown.append)
        (only,) = shown
        return only

    def pass_time(self, duration_ms: float) -> None:
        """Let time pass, with every deadline at its moment."""
        end_ms = self.now_ms + duration_ms
        deadlines = self.scope.deadlines
        while (next_ms := deadlines.next_deadline_ms()) is not None and next_ms <= end_ms:
            self.set_time(max(next_ms, self.now_ms))
            for _group_id, rest in deadlines.expired(next_ms):
                self.group.on_deadline(rest)
            self.carry_out()
        self.set_time(end_ms)

    def reloaded(self) -> Site:
        """Another coordinator that has read the same log."""
        other = Site(settings=self.scope.settings)
        other.image = self.image
        other.log = list(self.log)
        other.set_time(self.now_ms)
        skipped = Skipped()
        for record in self.log:
            understood = decode_record(record, skipped)
            assert understood is not None, skipped
            other.group.replay(understood)
        other.group.on_loaded(other.scope.moment)
        return other


def join(
    member_id: str, *topics: str, instance_id: str | None = None, regex: str | None = None
) -> ConsumerGroupHeartbeatRequest:
    """The first heartbeat of a member; it subscribes to ``t`` unless told otherwise."""
    return ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id=member_id,
        member_epoch=0,
        instance_id=instance_id,
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=list(topics) or (["t"] if regex is None else []),
        subscribed_topic_regex=regex,
        topic_partitions=[],
    )


def beat(
    member_id: str,
    member_epoch: int,
    owned: Mapping[str, list[int]] | None = None,
    instance_id: str | None = None,
) -> ConsumerGroupHeartbeatRequest:
    """A heartbeat that says nothing new, but for what the member owns, if that is given."""
    return ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id=member_id,
        member_epoch=member_epoch,
        instance_id=instance_id,
        topic_partitions=None
        if owned is None
        else [TopicPartitions(topic_id_of(name), parts) for name, parts in owned.items()],
    )


def told(response: ConsumerGroupHeartbeatResponse) -> dict[str, list[int]] | None:
    """The assignment in an answer, by topic name; None where there is none."""
    if response.assignment is None:
        return None
    return {
        entry.topic_id[:15].rstrip(b".").decode(): entry.partitions
        for entry in response.assignment.topic_partitions
    }
