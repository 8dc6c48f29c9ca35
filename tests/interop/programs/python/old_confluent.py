"""librdkafka as a client of an older Kafka: writes, reads back, commits, prints one line.

Arguments: address, version of Kafka that it is to speak to, codec, topic, number of records.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

_WAIT_S = 60


def main() -> None:
    address, version, codec, topic, count = sys.argv[1:6]
    common = {
        "bootstrap.servers": address,
        "api.version.request": False,
        "broker.version.fallback": version,
    }
    wanted = [(f"k{n}".encode(), f"v{n}".encode() * 10) for n in range(int(count))]
    offsets: list[int] = []

    def delivered(error: Any, message: Any) -> None:
        assert error is None, error
        offsets.append(message.offset())

    producer = Producer({**common, "compression.codec": codec, "linger.ms": 20})
    for key, value in wanted:
        producer.produce(topic, key=key, value=value, partition=0, on_delivery=delivered)
    producer.flush(_WAIT_S)
    consumer = Consumer(
        {
            **common,
            "group.id": f"group-{topic}",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    if version.startswith("0.8"):
        consumer.assign([TopicPartition(topic, 0, 0)])
    else:
        consumer.subscribe([topic])
    found: list[Any] = []
    while len(found) < len(wanted):
        message = consumer.poll(_WAIT_S)
        assert message is not None, f"only {len(found)} records came"
        if message.error() is None:
            found.append((message.offset(), message.key(), message.value()))
    consumer.commit(offsets=[TopicPartition(topic, 0, int(count) // 2)], asynchronous=False)
    (committed,) = consumer.committed([TopicPartition(topic, 0)], timeout=_WAIT_S)
    consumer.close()
    same = found == [(offset, *each) for offset, each in zip(offsets, wanted, strict=True)]
    sys.stdout.write(json.dumps({"same": same, "committed": committed.offset}) + "\n")


if __name__ == "__main__":
    main()
