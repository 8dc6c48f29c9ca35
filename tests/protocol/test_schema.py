"""Declarations: what the decorators make of a class."""

from __future__ import annotations

import pytest

from ottla.protocol.messages.fetch import FetchRequest, ReplicaState
from ottla.protocol.messages.list_groups import ListGroupsRequest
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from ottla.protocol.messages.produce import ProduceRequest
from ottla.protocol.schema import EVERY_VERSION, Versions, int8, schema_of, versions_of


@pytest.mark.parametrize(
    ("text", "versions"),
    [
        ("3+", Versions(3, EVERY_VERSION)),
        ("0-7", Versions(0, 7)),
        ("2", Versions(2, 2)),
        ("10-12", Versions(10, 12)),
    ],
)
def test_ranges_are_written_as_kafka_writes_them(text: str, versions: Versions) -> None:
    """Declarations are compared with Kafka's by eye too, so they keep its notation."""
    assert versions_of(text) == versions


def test_a_message_starts_with_the_defaults_of_its_schema() -> None:
    """A handler sets what it knows; all else must mean "nothing said" at every version."""
    request = FetchRequest()

    assert request.max_bytes == 0x7FFFFFFF
    assert request.session_epoch == -1
    assert request.cluster_id is None
    assert request.replica_state == ReplicaState(-1, -1)
    assert request.topics == []


def test_every_instance_has_its_own_lists_and_structs() -> None:
    """A shared default list would carry one client's topics into another's answer."""
    first, second = FetchRequest(), FetchRequest()
    first.topics.append(first.topics)  # type: ignore[arg-type]
    first.replica_state.replica_id = 5

    assert second.topics == []
    assert second.replica_state.replica_id == -1


def test_fields_are_given_by_position_or_name() -> None:
    """The order is the descriptor's."""
    by_name = MetadataRequest(topics=[MetadataRequestTopic(name="t")])

    assert by_name == MetadataRequest([MetadataRequestTopic(bytes(16), "t")], True)


def test_a_misspelt_field_is_refused() -> None:
    """Slots and a fixed signature: a typing slip is an error, not a lost value."""
    with pytest.raises(TypeError):
        ProduceRequest(timeout=1)  # type: ignore[call-arg]
    with pytest.raises(AttributeError):
        ProduceRequest().timeout = 1  # type: ignore[attr-defined]


def test_messages_are_compared_by_their_values() -> None:
    """Two classes with equal fields are still two messages."""
    other: object = ReplicaState()

    assert ProduceRequest(acks=1) == ProduceRequest(acks=1)
    assert ProduceRequest(acks=1) != ProduceRequest(acks=-1)
    assert MetadataRequestTopic() != other


def test_a_message_shows_its_fields() -> None:
    """A log line or a failed assertion has to say what was in it."""
    assert repr(ReplicaState(3)) == "ReplicaState(replica_id=3, replica_epoch=-1)"


def test_null_and_empty_are_different_defaults() -> None:
    """Null asks Metadata for all topics, empty for none."""
    assert MetadataRequest().topics == []
    assert ListGroupsRequest().states_filter == []
    assert schema_of(ProduceRequest).fields["transactional_id"].default is None


def test_an_unknown_option_is_refused_when_the_class_is_made() -> None:
    """A misspelt ``nullable`` would silently declare another layout."""
    with pytest.raises(AssertionError, match="nulable"):
        int8("1+", nulable="1+")
