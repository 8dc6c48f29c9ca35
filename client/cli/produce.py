"""``ottla produce TOPIC``: each line of standard input becomes a record."""

from __future__ import annotations

import os
from collections import deque
from functools import partial
from typing import TYPE_CHECKING

from ottla.client.cli.arguments import Parser, add_client_options, checked, natural
from ottla.client.cli.diagnosis import explained
from ottla.client.cli.lines import read_lines
from ottla.client.cli.output import json_document, write
from ottla.client.cli.run import run
from ottla.client.cli.settings import producer_config
from ottla.client.errors import RequestRefused
from ottla.client.producer import Producer

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from ottla.client.config import Acks
    from ottla.client.delivery import Delivery
    from ottla.client.state.batch import Headers

STANDARD_INPUT = 0
ACKS: dict[str, Acks] = {"0": 0, "1": 1, "all": "all", "-1": "all"}
# What cannot be typed as it is; everything else is taken literally.
ESCAPES = {"\\t": "\t", "\\0": "\0"}


def main(argv: Sequence[str]) -> int:
    """Run the command."""
    arguments = parser().parse_args(argv)
    return run(partial(perform, arguments))


def parser() -> Parser:
    """The command line, as ``ottla produce --help`` shows it."""
    made = Parser(
        prog="ottla produce",
        description="Send the lines of standard input to a topic, one record each.",
        allow_abbrev=False,
    )
    add_client_options(made, is_outer=True)
    made.add_argument("topic", metavar="TOPIC")
    made.add_argument(
        "-K",
        "--key-separator",
        metavar="SEP",
        help="what stands before the first SEP of a line is the key",
    )
    made.add_argument("-p", "--partition", type=checked(natural), help="send all to this partition")
    made.add_argument(
        "-H",
        "--header",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        type=checked(header),
        help="a header for every record",
    )
    made.add_argument(
        "--acks",
        choices=tuple(ACKS),
        default="all",
        help="who has to have a record before it counts as sent (default all)",
    )
    made.add_argument(
        "-z",
        "--compression",
        choices=("none", "gzip", "snappy", "lz4", "zstd"),
        default="none",
        help="how to compress batches (default none)",
    )
    return made


def header(text: str) -> tuple[str, bytes]:
    """Read ``name=value``. Raises ValueError."""
    name, equals, value = text.partition("=")
    if not equals:
        raise ValueError(f"{text!r} is not of the form name=value")
    return name, os.fsencode(value)


async def perform(arguments: argparse.Namespace) -> int:
    """Send until the input ends, and stop at the first record that fails."""
    config = producer_config(ACKS[arguments.acks], arguments.compression)
    try:
        async with Producer(arguments.bootstrap, config) as producer:
            await producer.partitions_of(arguments.topic)
            feed = Feed(producer, arguments)
            async for lines in read_lines(STANDARD_INPUT):
                await feed.send(lines)
            await feed.finish()
    except RequestRefused as error:
        raise await explained(arguments.bootstrap, arguments.topic, error) from None
    if arguments.format == "json":
        write(json_document({"topic": arguments.topic, "records": feed.record_count}))
    return 0


class Feed:
    """Lines on their way to one topic. Keeps one delivery per batch, not per record."""

    def __init__(self, producer: Producer, arguments: argparse.Namespace) -> None:
        self.record_count = 0
        self._producer = producer
        self._topic: str = arguments.topic
        self._partition: int | None = arguments.partition
        self._headers: Headers = tuple(arguments.header)
        separator = arguments.key_separator
        self._separator = None if not separator else os.fsencode(ESCAPES.get(separator, separator))
        self._pending: deque[Delivery] = deque()

    async def send(self, lines: list[bytes]) -> None:
        """Send them; raises the ClientError of an earlier one that has failed meanwhile."""
        self.record_count += len(lines)
        if self._separator is None and not self._headers:
            self._pending += await self._producer.send_values(
                self._topic, lines, partition=self._partition
            )
        else:
            for line in lines:
                await self._send_one(line)
        while self._pending and self._pending[0].done:
            await self._pending.popleft()

    async def _send_one(self, line: bytes) -> None:
        key: bytes | None = None
        value = line
        if self._separator is not None:
            before, found, after = line.partition(self._separator)
            if found:
                key, value = before, after
        delivery = await self._producer.send(
            self._topic, value, key, partition=self._partition, headers=self._headers
        )
        if not self._pending or not self._pending[-1].is_together_with(delivery):
            self._pending.append(delivery)

    async def finish(self) -> None:
        """Return when everything is acknowledged; raises the first ClientError."""
        await self._producer.flush()
        while self._pending:
            await self._pending.popleft()
