"""One consumer of a group, step by step: confluent-kafka (librdkafka)."""

from __future__ import annotations

import sys
import time
from functools import cache
from typing import Any

import confluent_kafka
from confluent_kafka import Consumer, KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.interop.programs.python.steps import Step, run

WAIT_S = 90


class Reader:
    """The consumer, and the record that came while it was waited for its first position."""

    def __init__(self) -> None:
        self.consumer: Any = None
        self.where: Any = None
        self.early: list[int] = []

    def hello(self, _step: Step) -> dict[str, Any]:
        return {"client": "confluent_kafka", "version": confluent_kafka.__version__}

    def open(self, step: Step) -> dict[str, Any]:
        settings: dict[str, Any] = {
            "bootstrap.servers": sys.argv[1],
            "group.id": step["group"],
            "auto.offset.reset": "error" if step["reset"] == "none" else step["reset"],
            "enable.auto.commit": step["auto_commit_ms"] > 0,
            # The end-of-partition event gives its position where there is no record.
            "enable.partition.eof": True,
        }
        if step["auto_commit_ms"]:
            settings["auto.commit.interval.ms"] = step["auto_commit_ms"]
        if step["protocol"] == "consumer":
            settings["group.protocol"] = "consumer"
        self.consumer, self.early = Consumer(settings), []
        self.where = TopicPartition(step["topic"], 0)
        self.consumer.subscribe([step["topic"]])
        message = self.consumer.poll(WAIT_S)
        if message.error() is None:
            self.early = [message.offset()]
        elif message.error().code() == KafkaError._AUTO_OFFSET_RESET:
            return {"start": None}
        return {"start": message.offset()}

    def poll(self, step: Step) -> dict[str, Any]:
        found, self.early = self.early, []
        deadline = time.monotonic() + WAIT_S
        while len(found) < step["count"] and time.monotonic() < deadline:
            messages = self.consumer.consume(step["count"] - len(found), 0.2)
            found += [one.offset() for one in messages if one.error() is None]
        return {"offsets": found}

    def idle(self, step: Step) -> dict[str, Any]:
        time.sleep(step["seconds"])
        return {}

    def seek(self, step: Step) -> dict[str, Any]:
        self.early = []
        self.consumer.seek(TopicPartition(self.where.topic, 0, step["offset"]))
        return {}

    def commit(self, step: Step) -> dict[str, Any]:
        if "offset" in step:
            wanted = TopicPartition(self.where.topic, 0, step["offset"], step["metadata"])
            self.consumer.commit(offsets=[wanted], asynchronous=False)
        else:
            self.consumer.commit(asynchronous=False)
        return {}

    def committed(self, _step: Step) -> dict[str, Any]:
        (found,) = self.consumer.committed([self.where], WAIT_S)
        return {"offset": found.offset, "metadata": found.metadata}

    def close(self, _step: Step) -> dict[str, Any]:
        self.consumer.close()
        return {}

    def groups(self, _step: Step) -> dict[str, Any]:
        found = _admin().list_consumer_groups().result(WAIT_S)
        assert not found.errors, found.errors
        return {"groups": [one.group_id for one in found.valid]}

    def describe_group(self, step: Step) -> dict[str, Any]:
        name = step["group"]
        found = _admin().describe_consumer_groups([name])[name].result(WAIT_S)
        return {"state": found.state.name.capitalize(), "members": len(found.members)}

    def delete_group(self, step: Step) -> dict[str, Any]:
        name = step["group"]
        _admin().delete_consumer_groups([name])[name].result(WAIT_S)
        return {}


@cache
def _admin() -> Any:
    """One for all steps; futures end with the client that made them."""
    return AdminClient({"bootstrap.servers": sys.argv[1]})


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
