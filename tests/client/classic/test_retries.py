"""How often the classic producer tries to send."""

from __future__ import annotations

import pytest

import ottla
import ottla.sync
from ottla.classic import Producer, ProducerData
from ottla.wire.errors import RequestRefused


@pytest.mark.requirement("PRD-22")
def test_a_send_to_a_dead_partition_is_tried_three_further_times() -> None:
    """By default: the fourth refusal is final. A producer without retries shows that the refusal
    after that one is still to come."""
    with ottla.Cluster() as cluster:
        cluster.create_topic("dead", partitions=1)
        properties = {"broker.list": cluster.bootstrap_servers, "producer.type": "sync"}
        message = ProducerData("dead", None, [b"x"])
        with (
            Producer({**properties, "retry.backoff.ms": 1}) as producer,
            Producer({**properties, "message.send.max.retries": 0}) as impatient,
        ):
            producer.send(message)
            cluster.faults.fail_request("PRODUCE", "LEADER_NOT_AVAILABLE", 3)
            producer.send(message)
            cluster.faults.fail_request("PRODUCE", "LEADER_NOT_AVAILABLE", 1 + 3 + 1)
            with pytest.raises(RequestRefused, match="LEADER_NOT_AVAILABLE"):
                producer.send(message)
            with pytest.raises(RequestRefused, match="LEADER_NOT_AVAILABLE"):
                impatient.send(message)
            impatient.send(message)
        with ottla.sync.Consumer(cluster.bootstrap_servers) as consumer:
            stored = sum(consumer.end_offsets(consumer.partitions_of("dead")).values())

    assert stored == 3
