"""Idempotence: answers get lost, the producer sends again, and nothing is stored twice.

    python examples/records/idempotence.py

It starts a cluster of its own, whose answers it loses. Lines with ``# ->`` are what it prints.
"""

from __future__ import annotations

import ottla
import ottla.sync

# %% A cluster in this process.
cluster = ottla.Cluster().start()
servers = cluster.bootstrap_servers
cluster.create_topic("payments")
where = ottla.TopicPartition("payments", 0)


def stored() -> list[bytes | None]:
    """The values of the topic, as they are now."""
    with ottla.sync.Consumer(servers, offset_reset="earliest") as consumer:
        consumer.assign([where])
        end = consumer.end_offsets([where])[where]
        values: list[bytes | None] = []
        while len(values) < end:
            values += [record.value for record in consumer.poll()]
    return values


# %% The brokers store the next three requests and lose their answers. The producer cannot know: it
# sends again, with the same numbers, and the broker knows the records by those. This is how every
# producer works, as long as acks is "all" and five batches or fewer are in flight.
with ottla.sync.Producer(servers) as producer:
    cluster.faults.lose_reply("Produce", count=3)
    for number in range(5):
        producer.send("payments", b"payment %d" % number).result()
print(stored())
# -> [b'payment 0', b'payment 1', b'payment 2', b'payment 3', b'payment 4']
assert len(stored()) == 5

# %% Without idempotence the same accident doubles a record.
with ottla.sync.Producer(servers, idempotent=False) as producer:
    cluster.faults.lose_reply("Produce")
    producer.send("payments", b"payment 5").result()
print(stored().count(b"payment 5"), "times")
# -> 2 times

# %% Errors that pass are tried again as well, for delivery_timeout_ms in all.
with ottla.sync.Producer(servers) as producer:
    cluster.faults.fail_request("Produce", "NOT_LEADER_OR_FOLLOWER", count=2)
    print(producer.send("payments", b"payment 6").result().offset)
    # -> 7

# %% After that the producer gives up, and says whether the record may be stored all the same.
with ottla.sync.Producer(
    servers, delivery_timeout_ms=300, request_timeout_ms=200, linger_ms=0
) as producer:
    cluster.faults.fail_request("Produce", "NOT_ENOUGH_REPLICAS", count=1_000)
    try:
        producer.send("payments", b"payment 7").result()
    except ottla.DeliveryTimedOut as error:
        print(error.last_answer.name, "-", error.can_retry)
        # -> NOT_ENOUGH_REPLICAS - it is not stored, so it can be sent again
    cluster.faults.clear()
assert b"payment 7" not in stored()
cluster.stop()
