"""Topics that a broker needs made by a controller elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import pytest

from ottla.broker.administration.cluster_admin import ClusterAdmin, TopicResult, TopicSpec
from ottla.broker.administration.topic_creation import TopicCreation
from ottla.broker.metadata.metadata import MetadataCache
from ottla.coordinator.metadata.image import MetadataImage
from ottla.protocol.errors import ErrorCode
from ottla.protocol.ports import Address
from ottla.wire.errors import BrokerUnreachable, UnsupportedByBroker
from tests.broker.support.node import HandClock

if TYPE_CHECKING:
    from ottla.broker.membership.peers import Peers


class _NotHere:
    """The cluster's administration at a broker that is not the controller."""

    async def create_topics(self, specs: list[TopicSpec], **_how: object) -> list[TopicResult]:
        return [TopicResult(spec.name, ErrorCode.NOT_CONTROLLER) for spec in specs]


class _NoWay:
    """Peers of which none can be asked."""

    node_id = 1

    def __init__(self, error: Exception) -> None:
        self._error = error

    async def connect(self, _node_id: int, **_how: object) -> None:
        raise self._error


@pytest.mark.parametrize(
    "error",
    [BrokerUnreachable(Address("127.0.0.1", 1), "refused"), UnsupportedByBroker("no CreateTopics")],
)
async def test_a_controller_that_cannot_be_asked_is_no_crash(error: Exception) -> None:
    """The offsets topic is asked for in the background: an error there would stop the broker."""
    clock = HandClock()
    metadata = MetadataCache(clock)
    metadata.image = MetadataImage("", controller_id=2)
    making = TopicCreation(
        cast("ClusterAdmin", _NotHere()), cast("Peers", _NoWay(error)), metadata, clock
    )
    (result,) = await making.make([TopicSpec("t")], timeout_ms=1_000)

    assert (result.name, result.error_code) == ("t", ErrorCode.REQUEST_TIMED_OUT)
