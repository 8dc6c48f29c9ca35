"""``ottla consume TOPIC``: records to standard output, one line each."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from ottla.client.cli.arguments import Parser, add_client_options, checked, natural, positive
from ottla.client.cli.output import write_bytes
from ottla.client.cli.records import formatter
from ottla.client.cli.run import CommandError, run
from ottla.client.cli.settings import consumer_config
from ottla.client.cli.start_offset import BEGINNING, END, Start, read_start, resolve
from ottla.client.consumer import Consumer
from ottla.protocol.ids import TopicPartition

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence

    from ottla.client.chunk import ConsumerRecord

RECORDS_PER_WRITE_MAX = 5_000
POLL_MS = 1_000.0


def main(argv: Sequence[str]) -> int:
    """Run the command."""
    arguments = parser().parse_args(argv)
    return run(partial(perform, arguments))


def parser() -> Parser:
    """The command line, as ``ottla consume --help`` shows it."""
    made = Parser(
        prog="ottla consume",
        description="Write the records of a topic to standard output.",
        allow_abbrev=False,
    )
    add_client_options(made, is_outer=True)
    made.add_argument("topic", metavar="TOPIC")
    where = made.add_mutually_exclusive_group()
    where.add_argument(
        "--from-beginning",
        dest="start",
        action="store_const",
        const=BEGINNING,
        help="begin at the first record",
    )
    where.add_argument(
        "-o",
        "--offset",
        dest="start",
        metavar="WHERE",
        type=checked(read_start),
        help="begin at: N, -N from the end, beginning, end, @MS or @TIME in ISO 8601 "
        "(UTC unless it says otherwise); default end",
    )
    made.add_argument("-p", "--partition", type=checked(natural), help="this partition only")
    made.add_argument(
        "-e", "--exit", action="store_true", help="stop at what is the end now, do not wait"
    )
    made.add_argument("-n", "--count", type=checked(positive), help="stop after that many records")
    made.add_argument(
        "-f",
        "--line",
        metavar="FORMAT",
        default="%v\\n",
        help="%%t topic, %%p partition, %%o offset, %%T timestamp, %%k key, %%v value, "
        "%%h headers, %%%% a percent sign, \\n, \\t and \\\\; default %%v\\n",
    )
    made.add_argument(
        "--read-committed", action="store_true", help="leave out open and aborted transactions"
    )
    made.set_defaults(start=END)
    return made


async def perform(arguments: argparse.Namespace) -> int:
    """Write until told to stop."""
    render = formatter(arguments.format, arguments.line)
    config = consumer_config(read_committed=arguments.read_committed)
    async with Consumer(arguments.bootstrap, config) as consumer:
        partitions = await consumer.partitions_of(arguments.topic)
        if arguments.partition is not None:
            wanted = TopicPartition(arguments.topic, arguments.partition)
            if wanted not in partitions:
                raise CommandError(
                    f"topic {arguments.topic!r} has no partition {arguments.partition}; "
                    f"it has {len(partitions)}, counted from 0"
                )
            partitions = [wanted]
        start: Start = arguments.start
        starts, ends = await resolve(consumer.offsets_at, partitions, start)
        consumer.assign(partitions)
        for partition, offset in starts.items():
            consumer.seek(partition, offset)
        await copy(consumer, render, ends if arguments.exit else None, arguments.count)
    return 0


async def copy(
    consumer: Consumer,
    render: Callable[[ConsumerRecord], bytes],
    ends: dict[TopicPartition, int] | None,
    count: int | None,
) -> None:
    """Write records until each partition has reached its end, and at most that many."""
    left = count
    while True:
        if ends is not None:
            ends = {where: end for where, end in ends.items() if is_before(consumer, where, end)}
            if not ends:
                return
        wanted = RECORDS_PER_WRITE_MAX if left is None else min(left, RECORDS_PER_WRITE_MAX)
        records = await consumer.poll(POLL_MS, wanted)
        if ends is not None:
            records = [
                record for record in records if record.offset < ends.get(partition_of(record), 0)
            ]
        if records:
            write_bytes(b"".join(map(render, records)))
        if left is not None:
            left -= len(records)
            if left == 0:
                return


def is_before(consumer: Consumer, where: TopicPartition, end: int) -> bool:
    """Whether the partition is still to be read; pauses it otherwise."""
    position = consumer.position(where)
    if position is None or position < end:
        return True
    consumer.pause(where)
    return False


def partition_of(record: ConsumerRecord) -> TopicPartition:
    """Where the record comes from."""
    return TopicPartition(record.topic, record.partition)
