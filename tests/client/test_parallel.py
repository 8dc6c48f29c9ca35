"""Many handlers at once on a real broker: order, commits, failures, rebalances."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections import Counter, defaultdict
from contextlib import AbstractContextManager, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ottla import Admin, Committed, Consumer, ConsumerConfig, NewTopic, Producer, TopicPartition
from ottla.client.parallel_policy import DeadLetter, HandlerFailed, ParallelLimits, Retry
from ottla.client.state.backoff import Backoff

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from ottla.client.consumer_record import ConsumerRecord

Record = "ConsumerRecord[bytes, bytes]"
PARTITIONS = 3
EXAMPLE = Path(__file__).parents[2] / "examples" / "parallel.py"
QUICK = Backoff(1, 5)


async def fill(broker: str, topic: str, count: int, key_count: int = 7) -> None:
    """Records whose values are their places in a row, under some keys."""
    async with Admin(broker) as admin:
        await admin.create_topic(NewTopic(topic, PARTITIONS))
    async with Producer(broker) as producer:
        for number in range(count):
            await producer.send(topic, b"%d" % number, b"key %d" % (number % key_count))


@asynccontextmanager
async def subscribed(broker: str, topic: str, **more: Any) -> AsyncIterator[Consumer[bytes, bytes]]:
    """A member of the group that is named after the topic."""
    settings: dict[str, Any] = {
        "group_id": topic,
        "offset_reset": "earliest",
        "auto_commit_interval_ms": 50,
        "heartbeat_interval_ms": 200,
        "session_timeout_ms": 6_000,
        **more,
    }
    async with Consumer[bytes, bytes](broker, ConsumerConfig(**settings)) as consumer:
        await consumer.subscribe([topic])
        yield consumer


class Ledger:
    """What was handled, in order, and how many at once."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.by_key: dict[bytes | None, list[int]] = defaultdict(list)
        self.busy: Counter[bytes | None] = Counter()
        self.at_once_max = 0
        self.handled: Counter[int] = Counter()
        self.all_done = asyncio.Event()

    async def handle(self, record: ConsumerRecord[bytes, bytes]) -> None:
        """Take a moment; two of one key at the same time are a fault."""
        with self.working(record):
            await asyncio.sleep(0)
            await asyncio.sleep(0)

    def working(self, record: ConsumerRecord[bytes, bytes]) -> AbstractContextManager[None]:
        """A context that notes the record at its end."""
        ledger = self

        class Noted(AbstractContextManager[None]):
            def __enter__(self) -> None:
                ledger.busy[record.key] += 1
                assert ledger.busy[record.key] == 1, f"two of {record.key!r} at once"
                ledger.at_once_max = max(ledger.at_once_max, sum(ledger.busy.values()))

            def __exit__(self, kind: object, error: object, traceback: object) -> None:
                ledger.busy[record.key] -= 1
                if kind is None:
                    ledger.note(record)

        return Noted()

    def note(self, record: ConsumerRecord[bytes, bytes]) -> None:
        number = int(record.value or b"")
        self.by_key[record.key].append(number)
        self.handled[number] += 1
        if len(self.handled) == self.count:
            self.all_done.set()

    def check_order(self) -> None:
        for numbers in self.by_key.values():
            assert numbers == sorted(numbers)


async def run_until(run: Awaitable[None], stop: Callable[[], object], done: asyncio.Event) -> None:
    """Let it run until the event, then stop it."""
    task = asyncio.ensure_future(run)
    waiting = asyncio.ensure_future(done.wait())
    await asyncio.wait([task, waiting], return_when=asyncio.FIRST_COMPLETED, timeout=60)
    waiting.cancel()
    stop()
    await task


async def ends(consumer: Consumer[bytes, bytes], topic: str) -> dict[TopicPartition, int]:
    return await consumer.end_offsets(await consumer.partitions_of(topic))


async def stored(consumer: Consumer[bytes, bytes]) -> dict[TopicPartition, int]:
    found = await consumer.committed()
    return {partition: position.offset for partition, position in found.items()}


async def test_each_key_is_in_order_and_everything_done_is_committed(broker: str) -> None:
    """At many at once; in the end the group stands at the end."""
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


async def test_a_failure_stops_the_run_before_the_record(broker: str) -> None:
    """And what was done of other keys is not done again by whoever goes on."""
    await fill(broker, "par-stop", 200)
    handled: Counter[int] = Counter()
    others_done = asyncio.Event()

    async def handle(record: ConsumerRecord[bytes, bytes]) -> None:
        number = int(record.value or b"")
        if number == 5:
            await others_done.wait()
            raise LookupError("no such customer")
        handled[number] += 1
        if len(handled) > 100:
            others_done.set()

    async with subscribed(broker, "par-stop") as consumer:
        with pytest.raises(HandlerFailed, match="no such customer") as failure:
            await consumer.parallel(handle)

        assert isinstance(failure.value.__cause__, LookupError)
        assert failure.value.partition is not None
        where = TopicPartition("par-stop", failure.value.partition)
        assert consumer.position(where) == failure.value.offset
        assert (await stored(consumer))[where] == failure.value.offset

    ledger = Ledger(200 - len(handled))

    async with subscribed(broker, "par-stop") as consumer:
        run = consumer.parallel(ledger.handle)
        await run_until(run, run.stop, ledger.all_done)
    assert set(ledger.handled) == set(range(200)) - set(handled), "each once"


async def test_a_handler_whose_own_call_is_cancelled_has_failed(broker: str) -> None:
    """A worker that just ended would leave its partition standing still."""
    await fill(broker, "par-own-cancel", 3)

    async def handle(record: ConsumerRecord[bytes, bytes]) -> None:
        call = asyncio.get_running_loop().create_future()
        call.cancel()
        await call

    async with subscribed(broker, "par-own-cancel") as consumer:
        with pytest.raises(HandlerFailed, match="cancelled"):
            await consumer.parallel(handle)


async def test_a_failure_can_be_skipped(broker: str) -> None:
    """The position goes on past it."""
    await fill(broker, "par-skip", 50)
    ledger = Ledger(49)

    async def handle(record: ConsumerRecord[bytes, bytes]) -> None:
        if record.value == b"7":
            raise ValueError("broken")
        await ledger.handle(record)

    async with subscribed(broker, "par-skip") as consumer:
        run = consumer.parallel(handle, on_error="skip")
        await run_until(run, run.stop, ledger.all_done)

        assert await stored(consumer) == await ends(consumer, "par-skip")
        assert run.counts.skipped == 1


async def test_a_failure_is_tried_again_before_anything_else_of_its_key(broker: str) -> None:
    """Other keys go on meanwhile."""
    await fill(broker, "par-retry", 100)
    ledger = Ledger(100)
    attempts: Counter[int] = Counter()

    async def handle(record: ConsumerRecord[bytes, bytes]) -> None:
        number = int(record.value or b"")
        attempts[number] += 1
        if number % 10 == 3 and attempts[number] < 4:
            raise TimeoutError("not now")
        await ledger.handle(record)

    async with subscribed(broker, "par-retry") as consumer:
        run = consumer.parallel(handle, on_error=Retry(count=3, backoff=QUICK))
        await run_until(run, run.stop, ledger.all_done)

    ledger.check_order()
    assert attempts[13] == 4
    assert set(ledger.handled.values()) == {1}


async def test_what_fails_for_good_becomes_a_dead_letter(broker: str) -> None:
    """With where it was and why it failed."""
    await fill(broker, "par-dead", 30)
    async with Admin(broker) as admin:
        await admin.create_topic(NewTopic("par-dead-letters"))
    ledger = Ledger(29)

    async def handle(record: ConsumerRecord[bytes, bytes]) -> None:
        if record.value == b"7":
            raise ValueError("broken")
        await ledger.handle(record)

    async with Producer(broker) as producer, subscribed(broker, "par-dead") as consumer:
        policy = Retry(count=2, backoff=QUICK, then=DeadLetter(producer, "par-dead-letters"))
        run = consumer.parallel(handle, on_error=policy)
        await run_until(run, run.stop, ledger.all_done)
        assert await stored(consumer) == await ends(consumer, "par-dead")

    config = ConsumerConfig(offset_reset="earliest")
    async with Consumer[bytes, bytes](broker, config) as consumer:
        consumer.assign([TopicPartition("par-dead-letters", 0)])
        (letter,) = await consumer.poll(10_000)
    headers = dict(letter.headers)
    assert (letter.key, letter.value) == (b"key 0", b"7")
    assert headers["ottla.dead-letter.topic"] == b"par-dead"
    assert headers["ottla.dead-letter.error"] == b"ValueError: broken"
    assert headers["ottla.dead-letter.failures"] == b"3"


async def test_a_dead_letter_that_cannot_be_sent_stops_the_run(broker: str) -> None:
    """Otherwise the record would be nowhere."""

    class Broken:
        async def send(self, *_: object, **__: object) -> Awaitable[object]:
            raise OSError("no way out")

    async def handle(record: ConsumerRecord[bytes, bytes]) -> None:
        raise ValueError("broken")

    await fill(broker, "par-undead", 3)
    async with subscribed(broker, "par-undead") as consumer:
        with pytest.raises(HandlerFailed, match="dead letter"):
            await consumer.parallel(handle, on_error=DeadLetter(Broken(), "x"), concurrency=1)

        assert set((await stored(consumer)).values()) <= {0}


async def test_one_slow_key_does_not_fill_the_memory(broker: str) -> None:
    """Its partition is paused when the window is full, and resumed; the others go on."""
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
    """What was in work is done again by the next one."""
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
    """And what is in work at that moment is done and counts."""
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
            # What is in work at the first holds the rebalance up; after this it goes on.
            asyncio.get_running_loop().call_later(1, joined.set)
            await run_until(second, second.stop, ledger.all_done)
        first.stop()
        await working

    assert len(ledger.handled) == 600
    ledger.check_order()
    assert set(ledger.handled.values()) == {1}
    assert second.counts.handled > 0


async def test_without_a_group_the_positions_are_for_the_application_to_keep(broker: str) -> None:
    """It may store them with its results."""
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
    """Whoever went before may have stored anything with its position."""
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
    """As a person starts it; one record has nothing in it."""
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
