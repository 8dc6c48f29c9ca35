"""The error message that a user gets for a missing topic."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.client.cli.cluster.diagnosis import explained
from ottla.protocol.errors import ErrorCode
from ottla.wire.errors import RequestRefused
from tests.support.broker_process import BrokerProcess

if TYPE_CHECKING:
    from pathlib import Path


async def test_a_topic_that_is_not_there_is_told_with_the_command_that_makes_it(
    tmp_path: Path,
) -> None:
    """This client does not create topics from mistyped names, whatever the broker would do."""
    unknown = RequestRefused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, topic="t")
    with BrokerProcess(tmp_path / "data") as broker:
        error = await explained(broker.address, "t", unknown)

    assert str(error) == "topic 't' does not exist; 'ottla topics create t' makes it"


async def test_a_topic_that_cannot_be_made_is_told_with_the_reason(tmp_path: Path) -> None:
    """One broker cannot hold three replicas, which the defaults may ask for."""
    unknown = RequestRefused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, topic="t")
    with BrokerProcess(tmp_path / "data", options={"default.replication.factor": "3"}) as broker:
        error = await explained(broker.address, "t", unknown)

    assert str(error).startswith("topic 't' does not exist and cannot be made: ")
    assert "INVALID_REPLICATION_FACTOR" in str(error)
