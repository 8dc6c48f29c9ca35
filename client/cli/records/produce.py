"""``ottla produce TOPIC``: sends lines of standard input or of files as records."""

from __future__ import annotations

import os
import sys
from collections import deque
from typing import TYPE_CHECKING

from ottla.client.cli.cluster.diagnosis import explained
from ottla.client.cli.lines import read_lines, read_whole
from ottla.client.cli.output import json_document, write
from ottla.client.cli.progress import ProgressLine
from ottla.client.cli.records.parsed_records import Outgoing, from_json, from_line
from ottla.client.cli.run import FAILED, CommandError, UsageError, run, sentence
from ottla.client.cli.settings import ACKS, producer_config
from ottla.client.producer import Producer
from ottla.wire.errors import ClientError, RequestRefused

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator, Sequence

    from ottla.client.records.delivery import Delivery

STANDARD_INPUT = 0


def main(arguments: argparse.Namespace) -> int:
    """Run the command."""
    return run(perform, arguments, is_busy=True)


async def perform(arguments: argparse.Namespace) -> int:
    """Send until the input ends or a record fails; then waits for records in flight."""
    if arguments.same_partitions and not arguments.from_json:
        raise UsageError("--same-partitions needs --from-json: only there a record names one")
    config = producer_config(ACKS[arguments.acks], arguments.compression)
    try:
        async with Producer(arguments.bootstrap, config) as producer:
            await producer.partition_count(arguments.topic)
            feed = Feed(producer, arguments)
            try:
                await send_input(feed, arguments)
            except (ClientError, CommandError, OSError):
                # Deliver earlier records; after Ctrl-C this is skipped.
                await feed.finish()
                raise
            await feed.finish()
    except RequestRefused as error:
        raise await explained(arguments.bootstrap, arguments.topic, error) from None
    if feed.failure is not None:
        return await report_failure(feed, arguments)
    if arguments.format == "json":
        write(json_document({"topic": arguments.topic, "records": feed.record_count}))
    return 0


async def report_failure(feed: Feed, arguments: argparse.Namespace) -> int:
    """Write how many records are not delivered, and the error of the first of them."""
    failure: Exception | None = feed.failure
    if isinstance(failure, RequestRefused):
        failure = await explained(arguments.bootstrap, arguments.topic, failure)
    assert failure is not None
    reason = sentence(failure)
    if arguments.format == "json":
        document = {
            "topic": arguments.topic,
            "records": feed.record_count - feed.failed_count,
            "failed": feed.failed_count,
            "error": reason,
        }
        write(json_document(document))
    records = "1 record is" if feed.failed_count == 1 else f"{feed.failed_count} records are"
    of_all = f"{records} not delivered, of {feed.record_count} that were sent"
    sys.stderr.write(f"ottla: {of_all}: {reason}\n")
    return FAILED


async def send_input(feed: Feed, arguments: argparse.Namespace) -> None:
    """Send all of the input, file by file. Raises OSError for a file that cannot be read."""
    with ProgressLine("bytes", total_bytes(arguments.files)) as progress:
        for descriptor in inputs(arguments.files):
            if arguments.whole:
                whole = await read_whole(descriptor)
                await feed.send([whole])
                progress.add(len(whole))
                continue
            async for lines in read_lines(descriptor, arguments.delimiter):
                await feed.send(lines)
                progress.add(sum(map(len, lines)) + len(lines))
                if feed.failure is not None:
                    return


def total_bytes(files: Sequence[str]) -> int | None:
    """The size of the input in bytes; None if standard input is part of it. Raises OSError."""
    return sum(map(os.path.getsize, files)) if files and "-" not in files else None


def inputs(files: Sequence[str]) -> Iterator[int]:
    """The descriptors to read, one after the other."""
    for name in files or ["-"]:
        if name == "-":
            yield STANDARD_INPUT
        else:
            with open(name, "rb", buffering=0) as file:
                yield file.fileno()


class Feed:
    """Sends records to one topic. Keeps one delivery per batch, not per record.

    ``failure`` is the first failed record's error; the records after it in its batch have failed,
    too."""

    def __init__(self, producer: Producer, arguments: argparse.Namespace) -> None:
        self.record_count = 0
        self.failed_count = 0
        self.failure: ClientError | None = None
        self._producer = producer
        self._topic: str = arguments.topic
        self._partition: int | None = arguments.partition
        self._parse = _parser_for(arguments)
        # Each batch, and how many of its records were counted.
        self._pending: deque[tuple[Delivery, int]] = deque()

    async def send(self, lines: list[bytes]) -> None:
        """Send lines as records. Raises CommandError for an invalid line."""
        if self._parse is None:
            sent = await self._producer.send_batch(self._topic, lines, partition=self._partition)
            self.record_count += len(lines)
            self._pending += [(part, part.record_count) for part in sent.parts]
        else:
            for line in lines:
                await self._send_one(self._parse(line))
        while self._pending and self._pending[0][0].done:
            await self._settle()

    async def _send_one(self, record: Outgoing) -> None:
        partition = self._partition if self._partition is not None else record.partition
        delivery = await self._producer.send(
            self._topic,
            record.value,
            record.key,
            partition=partition,
            timestamp=record.timestamp,
            headers=record.headers,
        )
        self.record_count += 1
        if self._pending and self._pending[-1][0].is_together_with(delivery):
            last, count = self._pending.pop()
            self._pending.append((last, count + 1))
        else:
            self._pending.append((delivery, 1))

    async def _settle(self) -> None:
        delivery, count = self._pending.popleft()
        try:
            await delivery
        except ClientError as error:
            self.failed_count += count
            self.failure = self.failure or error

    async def finish(self) -> None:
        """Wait until everything has been acknowledged or has failed."""
        await self._producer.flush()
        while self._pending:
            await self._settle()


def _parser_for(arguments: argparse.Namespace) -> Callable[[bytes], Outgoing] | None:
    """The function that parses a line; None if each line is just a value."""
    if arguments.from_json:
        return from_json(arguments)
    if (
        arguments.key_separator is None
        and arguments.key is None
        and not arguments.header
        and not arguments.tombstones
    ):
        return None
    return from_line(arguments)
