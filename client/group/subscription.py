"""Passes a subscription, by name or by pattern, to the member's protocol object.

The coordinator applies a pattern if it can (KIP-848). The client applies it in classic groups, with
older brokers, and for expressions that only Python supports.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ottla.client.group.change import MembershipPhase
from ottla.client.group.consumer_protocol import ConsumerMember
from ottla.client.group.coordinator_link import CONSUMER_GROUP_HEARTBEAT, REGEX_VERSION
from ottla.client.group.patterns import re2_of
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ottla.client.group.classic_protocol import ClassicMember
    from ottla.client.group.subscribed_topics import MembershipTopics
    from ottla.protocol.ports import Clock
    from ottla.wire.connection import Connection


class SubscribedTopics:
    """Owned by one membership, whose task is woken with ``wake``."""

    def __init__(
        self,
        member: ClassicMember | ConsumerMember,
        topics: MembershipTopics,
        clock: Clock,
        wake: Callable[[], None],
    ) -> None:
        self._member = member
        self._topics = topics
        self._clock = clock
        self._wake = wake
        self._pattern: re.Pattern[str] | None = None
        # The pattern as the coordinator receives it; None if the client matches.
        self._regex: str | None = None

    def set(self, topics: Sequence[str] | re.Pattern[str]) -> None:
        """Subscribe to these."""
        self.clear()
        member = self._member
        if not isinstance(topics, re.Pattern):
            self._want(tuple(topics))
            return
        self._pattern = topics
        if isinstance(member, ConsumerMember):
            self._regex = re2_of(topics)
            if self._regex is not None:
                member.subscribe([], self._clock.now_ms(), regex=self._regex)
                self._wake()

    def clear(self) -> None:
        """End the subscription."""
        self._pattern = self._regex = None
        self._topics.look_again()

    def tend(self) -> None:
        """Check whether other topics match by now."""
        if self._pattern is None or self._regex is not None:
            return
        if self._member.phase is not MembershipPhase.FAILED:
            self._topics.look_for(self._pattern, self._found)

    def _found(self, topics: tuple[str, ...]) -> None:
        if self._pattern is not None and self._regex is None:
            self._want(topics)

    def _want(self, topics: tuple[str, ...]) -> None:
        self._topics.follow(topics)
        self._member.subscribe(topics, self._clock.now_ms())
        self._wake()

    def is_understood(self, connection: Connection, request: object) -> bool:
        """Return whether this coordinator supports the request; else the client matches now."""
        if not isinstance(request, ConsumerGroupHeartbeatRequest):
            return True
        if connection.version_of(CONSUMER_GROUP_HEARTBEAT) >= REGEX_VERSION:
            return True
        if self._regex is None:
            # The broker cannot be told to drop an expression, and has never received one.
            request.subscribed_topic_regex = None
            return True
        self._match_here()
        return False

    def refused(self, code: ErrorCode) -> bool:
        """Return whether matching in the client avoids the refusal, and switch to that if so."""
        if self._regex is None or code is not ErrorCode.INVALID_REGULAR_EXPRESSION:
            return False
        self._match_here()
        return True

    def _match_here(self) -> None:
        self._regex = None
        self._topics.look_again()
        # The member must subscribe to something until the matches are known; nothing is enough.
        self._want(())
