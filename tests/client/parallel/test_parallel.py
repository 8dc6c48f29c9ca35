"""Many handlers at once on a real broker: order, commits, failures, rebalances."""

from __future__ import annotations

import asyncio
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ottla import Admin, Committed, Consumer, ConsumerConfig, NewTopic, Producer, TopicPartition
from ottla.client.parallel.policy import ParallelLimits
from ottla.wire.errors import ClientError
from tests.client.support.handled import Ledger, ends, fill, run_until, stored, subscribed

if TYPE_CHECKING:
    from ottla.client.records.consumer_record import ConsumerRecord

EXAMPLE = Path(__file__).parents[3] / "examples" / "groups" / "parallel.py"


async def test_each_key_is_in_order_and_everything_done_is_committed(broker: str) -> None:
    """Many keys are processed at once; at the end the whole log is committed."""
    await fill(broker, "par-order", 700)
    ledger = Ledger(700)
    async with subscribed(broker, "par-order") as consumer:
        run = consumer.parallel(ledger.handle, concurrency=8)
        await run_until(run, run.stop, ledger.all_done)

        assert set(ledger.handled.values()) == {1}
        ledger.check_order()
        assert 1 < ledger.at_once_max <= 8
        assert run.counts.handled == 700
        assert await stored(consumer) == await ends(consumer, "par-order")


async def test_plain_functions_run_in_threads(broker: str) -> None:
    """Blocking calls must not stop the loop; results may be awaited, too."""
    await fill(broker, "par-threads", 60)
    ledger = Ledger(60)
    threads = set()
    both = threading.Barrier(2, timeout=20)
    first = [True, True]

    def handle(record: ConsumerRecord[bytes, bytes]) -> object:
        threads.add(threading.current_thread().name)
        if first:
            first.pop()
            both.wait()
        return ledger.handle(record)

    async with subscribed(broker, "par-threads") as consumer:
        run = consumer.parallel(handle, concurrency=4)
        await run_until(run, run.stop, ledger.all_done)

    assert len(ledger.handled) == 60
    assert all(name.startswith("ottla-handler") for name in threads)
    assert len(threads) > 1


async def test_one_slow_key_does_not_fill_the_memory(broker: str) -> None:
    """The slow partition is paused when the window is full, and resumed; the others are read on."""
    await fill(broker, "par-window", 3_000, key_count=50)
    ledger = Ledger(3_000)
    others_done = asyncio.Event()
    windows = []

    async def handle(record: ConsumerRecord[bytes, bytes]) -> None:
        if record.partition == 0 and record.offset == 0:
            await others_done.wait()
        await ledger.handle(record)
        if record.partition == 0:
            windows.append(record.offset - run.positions()[TopicPartition("par-window", 0)])
        elif len(ledger.handled) > 1_500:
            others_done.set()

    async with subscribed(broker, "par-window") as consumer:
        run = consumer.parallel(handle, limits=ParallelLimits(window_max=40))
        await run_until(run, run.stop, ledger.all_done)

    assert len(ledger.handled) == 3_000
    assert max(windows) <= 40 + 500


async def test_a_cancelled_run_commits_what_is_done_and_nothing_else(broker: str) -> None:
    """Records in progress are done again by the next run."""
    await fill(broker, "par-cancel", 90)
    ledger = Ledger(90)
    hanging = asyncio.Event()

    async def handle(record: ConsumerRecord[bytes, bytes]) -> None:
        if record.value == b"40":
            hanging.set()
            await asyncio.Event().wait()
        await ledger.handle(record)

    async with subscribed(broker, "par-cancel") as consumer:
        task = asyncio.ensure_future(consumer.parallel(handle, concurrency=4).run())
        await hanging.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert 40 not in ledger.handled

    before = set(ledger.handled)
    again = Ledger(90 - len(before))
    async with subscribed(broker, "par-cancel") as consumer:
        run = consumer.parallel(again.handle)
        await run_until(run, run.stop, again.all_done)
    assert set(again.handled) | before == set(range(90))
    assert not set(again.handled) & before


async def test_a_consumer_that_is_closed_ends_its_run(broker: str) -> None:
    """Records in progress at that moment are completed and committed."""
    await fill(broker, "par-close", 30)
    ledger = Ledger(30)
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def handle(record: ConsumerRecord[bytes, bytes]) -> None:
        begun.set()
        await go_on.wait()
        await ledger.handle(record)

    async with subscribed(broker, "par-close") as consumer:
        task = asyncio.ensure_future(consumer.parallel(handle, concurrency=1).run())
        await begun.wait()
        asyncio.get_running_loop().call_soon(go_on.set)
    await task

    async with Consumer[bytes, bytes](broker, group_id="par-close") as consumer:
        assert sum((await stored(consumer)).values()) == len(ledger.handled) >= 1


@pytest.mark.parametrize("assignors", [("range",), ("cooperative-sticky",)])
async def test_partitions_that_move_wait_for_what_is_in_work(
    broker: str, assignors: tuple[str, ...]
) -> None:
    """A second member comes while the first one works: nothing is lost, nothing done twice, and no
    key out of order over both."""
    topic = f"par-move-{assignors[0]}"
    await fill(broker, topic, 600, key_count=40)
    ledger = Ledger(600)
    joined = asyncio.Event()

    async def handle(record: ConsumerRecord[bytes, bytes]) -> None:
        if len(ledger.handled) > 200:
            await joined.wait()
        await ledger.handle(record)

    async def second_handle(record: ConsumerRecord[bytes, bytes]) -> None:
        joined.set()
        await ledger.handle(record)

    async with subscribed(broker, topic, assignors=assignors) as one:
        first = one.parallel(handle, limits=ParallelLimits(window_max=50))
        working = asyncio.ensure_future(first.run())
        while len(ledger.handled) < 200:
            await asyncio.sleep(0.01)
        async with subscribed(broker, topic, assignors=assignors) as two:
            second = two.parallel(second_handle)
            # Work in progress at the first member delays the rebalance; afterwards it completes.
            asyncio.get_running_loop().call_later(1, joined.set)
            await run_until(second, second.stop, ledger.all_done)
        first.stop()
        await working

    assert len(ledger.handled) == 600
    ledger.check_order()
    assert set(ledger.handled.values()) == {1}
    assert second.counts.handled > 0


async def test_without_a_group_the_positions_are_for_the_application_to_keep(broker: str) -> None:
    """An application may store positions with its results."""
    await fill(broker, "par-alone", 90)
    ledger = Ledger(90)
    config = ConsumerConfig(offset_reset="earliest")
    async with Consumer[bytes, bytes](broker, config) as consumer:
        consumer.assign(await consumer.partitions_of("par-alone"))
        run = consumer.parallel(ledger.handle, ordering="partition")
        await run_until(run, run.stop, ledger.all_done)

        assert run.positions() == await ends(consumer, "par-alone")


@pytest.mark.requirement("CON-18")
async def test_without_automatic_commits_only_the_application_commits(broker: str) -> None:
    """``commit`` stores what is done so far."""
    await fill(broker, "par-manual", 40)
    ledger = Ledger(40)
    async with subscribed(broker, "par-manual", auto_commit=False) as consumer:
        run = consumer.parallel(ledger.handle)
        task = asyncio.ensure_future(run.run())
        await ledger.all_done.wait()
        assert await stored(consumer) == {}

        await run.commit()
        run.stop()
        await task

        assert await stored(consumer) == await ends(consumer, "par-manual")


async def test_metadata_of_others_is_left_alone(broker: str) -> None:
    """The previous member may have stored any metadata with its position."""
    await fill(broker, "par-foreign", 30)
    ledger = Ledger(30)
    async with Consumer[bytes, bytes](broker, group_id="par-foreign") as other:
        partitions = await other.partitions_of("par-foreign")
        await other.commit(dict.fromkeys(partitions, Committed(0, metadata="by hand")))
    async with subscribed(broker, "par-foreign") as consumer:
        run = consumer.parallel(ledger.handle)
        await run_until(run, run.stop, ledger.all_done)

    assert set(ledger.handled.values()) == {1}


async def test_the_example_does_what_it_says(broker: str) -> None:
    """The example runs as users start it; one record is empty."""
    await fill(broker, "par-example", 40)
    async with Producer(broker) as producer:
        await producer.send("par-example", b"", b"empty")
    async with Admin(broker) as admin:
        await admin.create_topic(NewTopic("par-example-dead"))

    words = ["-b", broker, "--count", "41", "par-example", "par-example", "par-example-dead"]
    process = await asyncio.create_subprocess_exec(
        sys.executable, str(EXAMPLE), *words, stdout=asyncio.subprocess.PIPE
    )
    async with asyncio.timeout(60):
        output, _ = await process.communicate()

    assert output == b"40 done, 1 dead letters\n"


@pytest.mark.parametrize(
    ("more", "said"),
    [({"concurrency": 0}, "at least 1"), ({"ordering": "topic"}, "'key'")],
)
async def test_what_makes_no_sense_is_refused_at_once(more: dict[str, Any], said: str) -> None:
    """Before anything is read."""
    consumer = Consumer[bytes, bytes]("127.0.0.1:1")

    with pytest.raises(ValueError, match=said):
        consumer.parallel(print, **more)


async def test_what_is_in_work_is_not_committed_by_the_consumer(broker: str) -> None:
    """Handlers that commit as in a plain loop would skip what the others have in work."""
    await fill(broker, "par-own-commit", 20)
    seen: list[str] = []

    async def handle(record: ConsumerRecord[bytes, bytes]) -> None:
        with pytest.raises(ValueError, match="a parallel run is under way"):
            await consumer.commit()
        seen.append("handled")
        run.stop()

    async with subscribed(broker, "par-own-commit") as consumer:
        run = consumer.parallel(handle, concurrency=2)
        await run
        await consumer.commit()
    assert seen


async def test_one_run_at_a_time(broker: str) -> None:
    """Two would take each other's records, and each would commit what it knows of."""
    await fill(broker, "par-two", 20)

    async def handle(record: ConsumerRecord[bytes, bytes]) -> None:
        with pytest.raises(ClientError, match="another run of this consumer is under way"):
            await consumer.parallel(print)
        run.stop()

    async with subscribed(broker, "par-two") as consumer:
        run = consumer.parallel(handle, concurrency=2)
        await run
        again = consumer.parallel(lambda record: again.stop())
        await again
