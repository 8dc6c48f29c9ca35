"""``ottla produce TOPIC``: sends lines of standard input or of files as records."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from ottla.client.cli.cluster.diagnosis import explained
from ottla.client.cli.lines import read_lines, read_whole
from ottla.client.cli.output import json_document, write
from ottla.client.cli.progress import ProgressLine
from ottla.client.cli.records.feed import Feed
from ottla.client.cli.records.line_format import line_format
from ottla.client.cli.records.parsed_records import Outgoing, from_json, from_line
from ottla.client.cli.records.schemas import encoded, schemas_of
from ottla.client.cli.run import FAILED, CommandError, UsageError, run, sentence
from ottla.client.cli.settings import ACKS, producer_config
from ottla.client.producer import Producer
from ottla.wire.errors import ClientError, RequestRefused

if TYPE_CHECKING:
    import argparse
    from collections.abc import AsyncIterator, Callable, Iterator, Sequence

    from ottla.client.cli.records.schemas import SchemaChoice

STANDARD_INPUT = 0


def main(arguments: argparse.Namespace) -> int:
    """Run the command."""
    return run(perform, arguments, is_busy=True)


async def perform(arguments: argparse.Namespace) -> int:
    """Send until the input ends or a record fails; then waits for records in flight."""
    if arguments.same_partitions and not arguments.from_json:
        raise UsageError("--same-partitions needs --from-json: only there a record names one")
    config = producer_config(ACKS[arguments.acks], arguments.compression, arguments.timeout)
    topic, parse = arguments.topic, _parser_for(arguments)
    schemas = await schemas_of(arguments)
    if schemas is not None:
        parse = with_schemas(schemas, parse)
    try:
        async with Producer(arguments.bootstrap, config) as producer:
            await producer.partition_count(topic)
            feed = Feed(producer, topic, arguments.partition, parse, arguments.from_line)
            try:
                await send_input(feed, arguments)
            except (ClientError, CommandError, OSError) as error:
                # Deliver earlier records; after Ctrl-C this is skipped.
                await feed.finish()
                if isinstance(error, UsageError):
                    raise
                if feed.failure is None:
                    raise await _with_place(feed, arguments, error) from None
            await feed.finish()
    except RequestRefused as error:
        raise await explained(arguments.bootstrap, topic, error) from None
    if feed.failure is not None:
        return await report_failure(feed, arguments)
    if arguments.format == "json":
        write(json_document({"topic": topic, "records": feed.record_count}))
    return 0


async def _with_place(feed: Feed, arguments: argparse.Namespace, error: Exception) -> CommandError:
    """The error, and the line at which to go on when what it says is mended."""
    if isinstance(error, RequestRefused):
        error = await explained(arguments.bootstrap, arguments.topic, error)
    reason = sentence(error)
    if feed.next_line == 1:
        return CommandError(reason)
    return CommandError(
        f"{reason}; all before line {feed.next_line} is delivered: go on with "
        f"--from-line {feed.next_line}"
    )


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
            "from_line": feed.next_line,
            "stored_after": feed.stored_after,
        }
        write(json_document(document))
    records = "1 record is" if feed.failed_count == 1 else f"{feed.failed_count} records are"
    of_all = f"{records} not delivered, of {feed.record_count} that were sent"
    again = f", which sends {feed.stored_after} records again" if feed.stored_after else ""
    place = f"go on with --from-line {feed.next_line}{again}"
    sys.stderr.write(f"ottla: {of_all}: {reason}; {place}\n")
    return FAILED


async def send_input(feed: Feed, arguments: argparse.Namespace) -> None:
    """Send the input from ``--from-line`` on, file by file.

    Raises OSError for a file that cannot be read, and UsageError if there is no such line."""
    passed_over = arguments.from_line - 1
    with ProgressLine("bytes", total_bytes(arguments.files)) as progress:
        for descriptor in inputs(arguments.files):
            async for lines in _pieces(descriptor, arguments):
                progress.add(sum(map(len, lines)) + len(lines))
                if passed_over:
                    cut = min(passed_over, len(lines))
                    passed_over -= cut
                    lines = lines[cut:]
                if lines:
                    await feed.send(lines)
                if feed.failure is not None:
                    return
    if passed_over:
        count = arguments.from_line - 1 - passed_over
        raise UsageError(f"--from-line {arguments.from_line}: the input ends after line {count}")


async def _pieces(descriptor: int, arguments: argparse.Namespace) -> AsyncIterator[list[bytes]]:
    """Records as they arrive: lines, or all of the file as one."""
    if arguments.whole:
        yield [await read_whole(descriptor)]
        return
    async for lines in read_lines(descriptor, arguments.delimiter):
        yield lines


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


def with_schemas(
    schemas: SchemaChoice, parse: Callable[[bytes], Outgoing] | None
) -> Callable[[bytes], Outgoing]:
    """The function that parses a line, and puts key and value into the wire format."""

    def parse_and_encode(line: bytes) -> Outgoing:
        record = Outgoing(None, line) if parse is None else parse(line)
        if schemas.key is not None:
            record = record._replace(key=encoded(schemas.key, record.key, "key"))
        return record._replace(value=encoded(schemas.value, record.value))

    return parse_and_encode


def _parser_for(arguments: argparse.Namespace) -> Callable[[bytes], Outgoing] | None:
    """The function that parses a line; None if each line is just a value. Raises UsageError."""
    if arguments.line is not None:
        if arguments.key is not None or arguments.key_separator is not None or arguments.tombstones:
            raise UsageError("-f says where the key is: leave -k, -K and -Z out")
        form = line_format(arguments.line, tuple(arguments.header))
        arguments.delimiter = form.delimiter
        return form.parse
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
