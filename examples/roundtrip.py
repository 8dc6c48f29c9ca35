"""Send the lines of real files through a broker, read them back, and compare both ends.

    python examples/roundtrip.py [-b HOST:PORT] [FILE or DIRECTORY ...]

The broker is that of -b, else of OTTLA_BOOTSTRAP, else 127.0.0.1:9092. Without files it takes the
sources of Python's own standard library. Prints count, bytes and checksum of what was sent and of
what came back; the exit status is 0 if they are equal.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import os
import sys
import uuid
from pathlib import Path
from typing import TYPE_CHECKING

import ottla

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


class Tally:
    """Count, bytes and checksum of a stream of lines."""

    def __init__(self) -> None:
        self.count = 0
        self.size_bytes = 0
        self._hash = hashlib.sha256()

    def add(self, line: bytes) -> None:
        """Count one line, without its line end."""
        self.count += 1
        self.size_bytes += len(line)
        self._hash.update(line + b"\n")

    def __str__(self) -> str:
        checksum = self._hash.hexdigest()[:16]
        return f"{self.count:>9,} records {self.size_bytes:>12,} bytes  sha256 {checksum}"


def lines_of(places: Iterable[Path]) -> Iterator[bytes]:
    """Every line of every file, directories included, in the order of their names."""
    for place in places:
        files = sorted(place.rglob("*.py")) if place.is_dir() else [place]
        for file in files:
            if "site-packages" in file.relative_to(place).parts:
                continue  # What pip has installed is no part of the standard library.
            yield from file.read_bytes().split(b"\n")


async def send(topic: str, bootstrap: str, lines: Iterable[bytes]) -> Tally:
    """Produce every line, wait until all are acknowledged."""
    sent = Tally()
    async with ottla.Producer(bootstrap) as producer:
        pending: list[bytes] = []
        for line in lines:
            sent.add(line)
            pending.append(line)
            if len(pending) == 1000:
                await producer.send_values(topic, pending)
                pending = []
        await producer.send_values(topic, pending)
        await producer.flush()
    return sent


async def read(topic: str, bootstrap: str) -> Tally:
    """Read the topic's only partition from its beginning to its end as of now."""
    received = Tally()
    partition = ottla.TopicPartition(topic, 0)
    async with ottla.Consumer(bootstrap) as consumer:
        end = (await consumer.end_offsets([partition]))[partition]
        consumer.assign([partition])
        consumer.seek(partition, 0)
        while received.count < end:
            for record in await consumer.poll():
                received.add(bytes(record.value or b""))
    return received


async def roundtrip(bootstrap: str, places: list[Path]) -> bool:
    """Make a topic, send, read, delete it again; whether both ends agree."""
    topic = f"roundtrip-{uuid.uuid4().hex[:8]}"
    async with ottla.Admin(bootstrap) as admin:
        await admin.create_topic(ottla.NewTopic(topic, 1, 1))
        try:
            sent = await send(topic, bootstrap, lines_of(places))
            received = await read(topic, bootstrap)
        finally:
            await admin.delete_topics([topic])
    sys.stdout.write(f"sent     {sent}\nreceived {received}\n")
    return str(sent) == str(received)


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description="Lines through a broker and back.")
    parser.add_argument(
        "-b",
        "--bootstrap",
        default=os.environ.get("OTTLA_BOOTSTRAP", "127.0.0.1:9092"),
        metavar="HOST:PORT",
    )
    parser.add_argument("places", nargs="*", type=Path, metavar="FILE or DIRECTORY")
    arguments = parser.parse_args()
    for place in arguments.places:
        if not place.exists():
            parser.error(f"there is no {place}")
    places = arguments.places or [Path(asyncio.__file__).parent.parent]
    return 0 if asyncio.run(roundtrip(arguments.bootstrap, places)) else 1


if __name__ == "__main__":
    sys.exit(main())
