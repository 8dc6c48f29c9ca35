"""Consume, transform, produce: every record of one topic once, upper-cased, in another.

    python examples/records/exactly_once.py [-b HOST:PORT] [--group NAME] IN OUT

The loop of Kafka's transactions design, in Python. Kill it whenever you like and start it again:
a reader of committed records finds each line in OUT exactly once. It runs until it is stopped;
with --to-end until it has reached what was the end of IN when it began. One instance per group:
it reads all partitions of IN, and its transactional id, made of the group's name, fences the last.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
from typing import TYPE_CHECKING, NamedTuple

import ottla

if TYPE_CHECKING:
    from collections.abc import Sequence

CONSUMER_POLL_TIMEOUT_MS = 500


class ProducerRecord(NamedTuple):
    """What is to be sent."""

    topic: str
    key: bytes | None
    value: bytes | None


class TransactionsExample:
    """One run of the loop."""

    def __init__(self, bootstrap: str, group: str, source: str, target: str) -> None:
        self.group = group
        self.source = source
        self.target = target
        # It is the application's name that makes a restarted instance the successor of the last.
        self.producer = ottla.Producer(bootstrap, transactional_id=f"{group}-{source}")
        # What another application aborts must not be transformed.
        self.consumer = ottla.Consumer(
            bootstrap, ottla.ConsumerConfig(isolation=ottla.Isolation.READ_COMMITTED)
        )
        self.uncommitted_offsets: dict[ottla.TopicPartition, int] = {}

    async def main(self, records_max: int, *, to_end: bool) -> int:
        """Return how many records were transformed."""
        done = 0
        async with self.consumer as consumer, self.producer as producer:
            # Fences an instance that may still be running, and ends what it has left open.
            await producer.init_transactions()
            await self.rewind()
            ends = await consumer.end_offsets(consumer.assignment)
            while not (to_end and self.has_reached(ends)):
                records = await consumer.poll(CONSUMER_POLL_TIMEOUT_MS, records_max)
                if not records:
                    continue
                try:
                    await producer.begin_transaction()
                    for record in self.process_records(records):
                        await producer.send(record.topic, record.value, record.key)
                    # The positions go with the records, not through the consumer.
                    await producer.send_offsets_to_transaction(
                        self.get_uncommitted_offsets(), self.group
                    )
                    await producer.commit_transaction()
                except ottla.ProducerUnusable:
                    # Fenced, not allowed, or records lost: nothing can be done but to end.
                    raise
                except ottla.AbortRequired:
                    await producer.abort_transaction()
                    # What was read in vain is read again.
                    await self.rewind()
                else:
                    done += len(records)
        return done

    def process_records(self, records: Sequence[ottla.ConsumerRecord]) -> list[ProducerRecord]:
        """The transformation; it also notes how far the input has been read."""
        output_records = []
        for record in records:
            where = ottla.TopicPartition(record.topic, record.partition)
            self.uncommitted_offsets[where] = record.offset + 1
            value = None if record.value is None else bytes(record.value).upper()
            key = None if record.key is None else bytes(record.key)
            output_records.append(ProducerRecord(self.target, key, value))
        return output_records

    def get_uncommitted_offsets(self) -> dict[ottla.TopicPartition, int]:
        """The next offset to read of each partition that this transaction has read from."""
        offsets, self.uncommitted_offsets = self.uncommitted_offsets, {}
        return offsets

    async def rewind(self) -> None:
        """Go where the group stands: to the beginning of what no transaction has committed."""
        self.uncommitted_offsets.clear()
        partitions = await self.consumer.partitions_of(self.source)
        committed = await self.consumer.committed(self.group, partitions)
        self.consumer.assign(partitions)
        self.consumer.seek_to_beginning()
        for partition, position in committed.items():
            self.consumer.seek(partition, position.offset)

    def has_reached(self, ends: dict[ottla.TopicPartition, int]) -> bool:
        """Whether everything before these offsets has been read."""
        return all((self.consumer.position(where) or 0) >= end for where, end in ends.items())


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description="Every record of IN once in OUT, upper-cased.")
    parser.add_argument("-b", "--bootstrap", default="127.0.0.1:9092", metavar="HOST:PORT")
    parser.add_argument("--group", default="exactly-once", metavar="NAME")
    parser.add_argument("--records", type=int, default=500, help="at most, per transaction")
    parser.add_argument("--to-end", action="store_true", help="stop at the present end of IN")
    parser.add_argument("source", metavar="IN")
    parser.add_argument("target", metavar="OUT")
    given = parser.parse_args()
    example = TransactionsExample(given.bootstrap, given.group, given.source, given.target)
    try:
        done = asyncio.run(example.main(given.records, to_end=given.to_end))
    except ottla.ClientError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    except KeyboardInterrupt:
        return 130
    sys.stdout.write(f"{done} records\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
