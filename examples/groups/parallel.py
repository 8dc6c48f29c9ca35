"""Handle many records at once, each key in order; what fails goes to another topic.

    python examples/groups/parallel.py [-b HOST:PORT] [--count N] [--at-once N] GROUP TOPIC DEAD

The handler pretends to call a service that takes ten milliseconds, and fails on records whose value
is empty. Ends after N records, or never.
"""

from __future__ import annotations

import argparse
import asyncio
from typing import TYPE_CHECKING

import ottla

if TYPE_CHECKING:
    from ottla import ConsumerRecord

CALL_S = 0.01
LOOK_S = 0.1


async def call_service(record: ConsumerRecord[bytes, bytes]) -> None:
    """Stands for whatever takes time: a database, a web service."""
    if not record.value:
        raise ValueError("there is nothing in it")
    await asyncio.sleep(CALL_S)


async def stop_after(working: ottla.ParallelRun, count: int) -> None:
    """Look now and then how far it is."""
    while True:
        await asyncio.sleep(LOOK_S)
        if working.counts.handled + working.counts.skipped >= count:
            working.stop()
            return


async def run(options: argparse.Namespace) -> None:
    """Until enough is done."""
    async with (
        ottla.Producer(options.bootstrap) as producer,
        ottla.Consumer[bytes, bytes](
            options.bootstrap, group_id=options.group, offset_reset="earliest"
        ) as consumer,
    ):
        await consumer.subscribe([options.topic])

        working = consumer.parallel(
            call_service,
            concurrency=options.at_once,
            on_error=ottla.Retry(count=2, then=ottla.DeadLetter(producer, options.dead_topic)),
        )
        async with asyncio.TaskGroup() as tasks:
            if options.count:
                tasks.create_task(stop_after(working, options.count))
            await working
        print(f"{working.counts.handled} done, {working.counts.skipped} dead letters")


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("-b", "--bootstrap", default="127.0.0.1:9092")
    parser.add_argument("--count", type=int, default=0, help="stop after so many records")
    parser.add_argument("--at-once", type=int, default=32, help="handlers at once")
    parser.add_argument("group")
    parser.add_argument("topic")
    parser.add_argument("dead_topic")
    asyncio.run(run(parser.parse_args()))


if __name__ == "__main__":
    main()
