"""Patterns before coordinators that know no expressions."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, cast

import pytest

from ottla.client.group.coordinator_link import REGEX_VERSION
from ottla.client.group.subscribed_topics import SubscribedTopics
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from tests.client.group.scene import ConsumerScene

if TYPE_CHECKING:
    from ottla.client.group.subscribed_topics import MembershipTopics
    from ottla.protocol.ports import Clock
    from ottla.wire.connection import Connection


class Coordinator:
    """A connection to one that speaks this version."""

    def __init__(self, version: int) -> None:
        self._version = version

    def version_of(self, _: object) -> int:
        return self._version


class Topics:
    """Knows of none."""

    def look_again(self) -> None:
        """There is nothing to look for."""

    def follow(self, topics: tuple[str, ...]) -> None:
        assert topics == ()


class Now:
    """A clock that does not advance."""

    def now_ms(self) -> float:
        return 0.0


def wish_of(scene: ConsumerScene) -> SubscribedTopics:
    return SubscribedTopics(
        scene.member, cast("MembershipTopics", Topics()), cast("Clock", Now()), lambda: None
    )


@pytest.mark.parametrize("version", [0, REGEX_VERSION])
def test_an_older_coordinator_hears_nothing_of_expressions(version: int) -> None:
    """Version 0 has no field for one, not even to say that there is none any more."""
    scene = ConsumerScene()
    wish, connection = wish_of(scene), cast("Connection", Coordinator(version))
    wish.set(re.compile("t.*"))
    request = scene.next(ConsumerGroupHeartbeatRequest)
    assert wish.is_understood(connection, request) is (version == REGEX_VERSION)
    scene.member.unanswered(request)
    request = scene.next(ConsumerGroupHeartbeatRequest)

    assert wish.is_understood(connection, request)
    is_told = request.subscribed_topic_regex is not None
    assert is_told is (version == REGEX_VERSION)


def test_who_has_the_protocol_switched_off_is_told_of_the_other_one() -> None:
    """Apache Kafka 3.9 answers so."""
    scene = ConsumerScene()
    scene.beat(ErrorCode.UNSUPPORTED_VERSION)

    assert scene.member.refusal is not None
    assert "group_protocol='classic'" in str(scene.member.refusal)
