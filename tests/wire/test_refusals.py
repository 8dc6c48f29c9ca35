"""The texts of refusals say each thing once."""

from __future__ import annotations

from ottla.protocol.errors import ErrorCode
from ottla.wire.errors import RequestRefused

CODE = ErrorCode.TOPIC_ALREADY_EXISTS


def test_a_topic_that_the_message_names_is_not_named_twice() -> None:
    """Brokers begin some messages with the topic, and others leave it out."""
    named = RequestRefused(CODE, "topic 'good' exists already", topic="good")
    bare = RequestRefused(CODE, "it exists", topic="good")
    other = RequestRefused(CODE, "topic 'goods' exists already", topic="good")

    assert str(named) == "topic 'good' exists already [TOPIC_ALREADY_EXISTS]"
    assert str(bare) == "topic 'good': it exists [TOPIC_ALREADY_EXISTS]"
    assert str(other).startswith("topic 'good': topic 'goods' exists")
