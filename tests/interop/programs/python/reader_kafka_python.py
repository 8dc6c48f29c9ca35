"""One consumer of a group, step by step: kafka-python 2 and 3."""

from __future__ import annotations

import sys
import time
from functools import cache
from typing import Any

import kafka
from kafka import KafkaAdminClient, KafkaConsumer, OffsetAndMetadata, TopicPartition
from kafka.errors import KafkaError

from tests.interop.programs.python.steps import Step, run

WAIT_S = 90
IS_OLD = kafka.__version__.startswith("2.")


class Reader:
    """The consumer, and the record that came while it was waited for its first position."""

    def __init__(self) -> None:
        self.consumer: Any = None
        self.where: Any = None
        self.early: list[int] = []

    def hello(self, _step: Step) -> dict[str, Any]:
        return {"client": "kafka_python", "version": kafka.__version__}

    def open(self, step: Step) -> dict[str, Any]:
        self.consumer = KafkaConsumer(
            bootstrap_servers=sys.argv[1],
            group_id=step["group"],
            auto_offset_reset=step["reset"],
            enable_auto_commit=step["auto_commit_ms"] > 0,
            auto_commit_interval_ms=step["auto_commit_ms"] or 5_000,
        )
        self.where = TopicPartition(step["topic"], 0)
        self.consumer.subscribe([step["topic"]])
        # What it learns of a topic after it has joined makes it join again; if a poll ends while
        # it does, it never takes what it is given.
        self.consumer.partitions_for_topic(step["topic"])
        try:
            while not (self._take(1) or self.consumer.assignment()):
                pass
            start = self.early[0] if self.early else self.consumer.position(self.where)
        except KafkaError as error:
            # The module that has it is another one in each version.
            if type(error).__name__ != "NoOffsetForPartitionError":
                raise
            start = None
        return {"start": start}

    def _take(self, count: int) -> list[int]:
        found = self.consumer.poll(timeout_ms=200, max_records=count)
        self.early += [one.offset for one in found.get(self.where, ())]
        return self.early

    def poll(self, step: Step) -> dict[str, Any]:
        deadline = time.monotonic() + WAIT_S
        while len(self.early) < step["count"] and time.monotonic() < deadline:
            self._take(step["count"] - len(self.early))
        found, self.early = self.early, []
        return {"offsets": found}

    def idle(self, step: Step) -> dict[str, Any]:
        """Poll, since the client commits automatically only while it is polled."""
        deadline = time.monotonic() + step["seconds"]
        while time.monotonic() < deadline:
            self._take(1)
        return {}

    def seek(self, step: Step) -> dict[str, Any]:
        self.early = []
        self.consumer.seek(self.where, step["offset"])
        return {}

    def commit(self, step: Step) -> dict[str, Any]:
        if "offset" in step:
            parts = [step["offset"], step["metadata"]] + ([] if IS_OLD else [-1])
            self.consumer.commit({self.where: OffsetAndMetadata(*parts)})
        else:
            self.consumer.commit()
        return {}

    def committed(self, _step: Step) -> dict[str, Any]:
        found = self.consumer.committed(self.where, metadata=True)
        return {"offset": found.offset, "metadata": found.metadata}

    def close(self, _step: Step) -> dict[str, Any]:
        self.consumer.close()
        return {}

    def groups(self, _step: Step) -> dict[str, Any]:
        if IS_OLD:
            return {"groups": [name for name, _kind in _admin().list_consumer_groups()]}
        return {"groups": [one["group_id"] for one in _admin().list_groups()]}

    def describe_group(self, step: Step) -> dict[str, Any]:
        name = step["group"]
        if IS_OLD:
            (old,) = _admin().describe_consumer_groups([name])
            return {"state": old.state, "members": len(old.members)}
        found = _admin().describe_groups([name])[name]
        return {"state": str(found["group_state"]), "members": len(found["members"])}

    def delete_group(self, step: Step) -> dict[str, Any]:
        delete = _admin().delete_consumer_groups if IS_OLD else _admin().delete_groups
        return {"said": str(delete([step["group"]]))}


@cache
def _admin() -> Any:
    return KafkaAdminClient(bootstrap_servers=sys.argv[1])


if __name__ == "__main__":
    reader = Reader()
    run(
        {
            "hello": reader.hello,
            "open": reader.open,
            "poll": reader.poll,
            "idle": reader.idle,
            "seek": reader.seek,
            "commit": reader.commit,
            "committed": reader.committed,
            "close": reader.close,
            "groups": reader.groups,
            "describe_group": reader.describe_group,
            "delete_group": reader.delete_group,
        }
    )
