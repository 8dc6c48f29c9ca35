"""kafka-python 2.0.2 as a client of an older Kafka: writes, reads back, commits, prints one line.

Arguments: address, version of Kafka that it is to speak to, codec, topic, number of records.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from kafka import KafkaConsumer, KafkaProducer, OffsetAndMetadata, TopicPartition

_FIRST_WITH_GROUPS = (0, 9)
_FIRST_WITH_COMMITS = (0, 8, 1)


def main() -> None:
    address, named, codec, topic, count = sys.argv[1:6]
    version: Any = tuple(map(int, named.split(".")))
    where = TopicPartition(topic, 0)
    wanted = [(f"k{n}".encode(), f"v{n}".encode() * 10) for n in range(int(count))]
    producer = KafkaProducer(
        bootstrap_servers=address,
        api_version=version,
        compression_type=None if codec == "none" else codec,
        acks="all",
        linger_ms=20,
    )
    sent = [producer.send(topic, key=key, value=value, partition=0) for key, value in wanted]
    producer.flush(60)
    offsets = [one.get(60).offset for one in sent]
    producer.close()
    commits = version >= _FIRST_WITH_COMMITS
    consumer = KafkaConsumer(
        bootstrap_servers=address,
        api_version=version,
        group_id=f"group-{topic}" if commits else None,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        consumer_timeout_ms=60_000,
    )
    if version >= _FIRST_WITH_GROUPS:
        consumer.subscribe([topic])
    else:
        consumer.assign([where])
    found = [next(consumer) for _ in wanted]
    committed = None
    if commits:
        consumer.commit({where: OffsetAndMetadata(int(count) // 2, "")})
        committed = consumer.committed(where)
    consumer.close()
    same = [(one.offset, one.key, one.value) for one in found] == [
        (offset, *each) for offset, each in zip(offsets, wanted, strict=True)
    ]
    has_times = all(one.timestamp > 0 for one in found if one.timestamp is not None)
    sys.stdout.write(json.dumps({"same": same, "times": has_times, "committed": committed}) + "\n")


if __name__ == "__main__":
    main()
