"""How parallel runs treat records whose handlers fail, on a real broker."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from ottla import Admin, Consumer, ConsumerConfig, NewTopic, Producer, TopicPartition
from ottla.client.parallel.policy import DeadLetter, HandlerFailed, Retry
from ottla.wire.backoff import Backoff
from tests.client.support.handled import Ledger, ends, fill, run_until, stored, subscribed

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from ottla.client.records.consumer_record import ConsumerRecord

QUICK = Backoff(1, 5)


async def test_a_failure_stops_the_run_before_the_record(broker: str) -> None:
    """Records of other keys that are done are not done again by the next run."""
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
    """The position moves past the failed record."""
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
    """Other keys are processed meanwhile."""
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
