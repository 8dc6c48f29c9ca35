"""Dead letters: records that cannot be handled go to a topic of their own, and work goes on.

    python examples/groups/dead_letters.py [HOST:PORT]

Without an address it starts a cluster of its own. Lines with ``# ->`` are what it prints.
A whole program is parallel.py.
"""

from __future__ import annotations

import asyncio
import sys
from collections import Counter

import ottla
from ottla.wire.backoff import Backoff

# %% A cluster in this process, or the one whose address is given.
cluster = ottla.Cluster()
servers = sys.argv[1] if sys.argv[1:] else cluster.start().bootstrap_servers
tries: Counter[bytes] = Counter()
total = 0
everything_done = asyncio.Event()


# %% The handler. Many run at once, those of one key one after the other.
async def add(record: ottla.ConsumerRecord[bytes, bytes]) -> None:
    """Fails once on 3, and always on what is no number."""
    global total
    value = record.value or b""
    tries[value] += 1
    if value == b"3" and tries[value] == 1:
        raise ConnectionError("the database is away for a moment")
    total += int(value)
    if total == 1 + 2 + 3 + 5:
        everything_done.set()


# %% What fails is tried twice more, then put aside. Only what is done is committed.
async def main() -> list[str]:
    """What is said of the dead letter."""
    async with (
        ottla.Admin(servers) as admin,
        ottla.Producer(servers) as producer,
        ottla.Consumer[bytes, bytes](
            servers, group_id="adders", offset_reset="earliest"
        ) as consumer,
        ottla.Consumer[bytes, bytes](servers, offset_reset="earliest") as graves,
    ):
        await admin.create_topics([ottla.NewTopic(name, 1, 1) for name in ("numbers", "dead")])
        await producer.send_batch("numbers", [b"1", b"2", b"3", b"four", b"5"])
        await consumer.subscribe(["numbers"])
        run = consumer.parallel(
            add,
            on_error=ottla.Retry(
                count=2, backoff=Backoff(10, 20), then=ottla.DeadLetter(producer, "dead")
            ),
        )
        graves.assign([ottla.TopicPartition("dead", 0)])
        working = asyncio.ensure_future(run)
        letter = await anext(aiter(graves))
        await everything_done.wait()
        run.stop()
        await working
        print("handled", run.counts.handled, "skipped", run.counts.skipped)
        return [f"{name} {(value or b'').decode()}" for name, value in letter.headers]


said = asyncio.run(main())
# -> handled 4 skipped 1

# %% The letter says where it came from and why, and holds the record as it was.
for line in said:
    print(line.removeprefix("ottla.dead-letter."))
    # -> topic numbers
    # -> partition 0
    # -> offset 3
    # -> failures 3
    # -> error ValueError: invalid literal for int() with base 10: b'four'
assert total == 1 + 2 + 3 + 5
assert tries[b"four"] == 3
cluster.stop()
