"""The blocking clients, against a broker in a separate process."""

from __future__ import annotations

import _thread
import asyncio
import inspect
import os
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

import ottla
import ottla.sync
from ottla.client.administration.topic_requests import NewTopic
from ottla.client.group.administration import GroupAdmin
from ottla.client.process.loop_thread import in_caller, shared_loop
from ottla.client.records.interceptors import ConsumerInterceptor
from ottla.client.sync.groups import GroupAdmin as SyncGroupAdmin
from ottla.protocol.ids import TopicPartition
from ottla.wire.errors import ClientClosed, RequestRefused
from tests.sync_faces import FACES, FOLDER, file_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.client.records.consumer_record import ConsumerRecord


@pytest.fixture
def topic(broker: str) -> str:
    """A topic of two partitions."""
    name = f"t{uuid4().hex[:8]}"
    with ottla.sync.Admin(broker) as admin:
        admin.create_topic(NewTopic(name, 2, 1))
    return name


@pytest.mark.parametrize("name", FACES)
def test_the_blocking_face_is_the_one_that_would_be_written_now(name: str) -> None:
    """A method or parameter that only one of the two APIs has would let them drift apart. ``python
    -m tests.sync_faces`` regenerates the blocking one."""
    assert (FOLDER / f"{name}.py").read_text("utf-8") == file_text(name)


PAIRS: list[tuple[type[Any], type[Any]]] = [
    (ottla.Producer, ottla.sync.Producer),
    (ottla.Consumer, ottla.sync.Consumer),
    (ottla.Admin, ottla.sync.Admin),
    (GroupAdmin, SyncGroupAdmin),
]


@pytest.mark.parametrize(("awaited", "blocking"), PAIRS)
def test_both_faces_have_the_same_methods_with_the_same_parameters(
    awaited: type[Any], blocking: type[Any]
) -> None:
    """Checked by inspection of the classes, not by the generator that writes them."""

    def methods(kind: type[Any]) -> dict[str, list[tuple[str, Any, Any]]]:
        return {
            name: [
                (one.name, one.kind, one.annotation)
                for one in inspect.signature(member).parameters.values()
            ]
            for name, member in inspect.getmembers(kind, inspect.isfunction)
            if not name.startswith("_")
        }

    assert methods(blocking) == methods(awaited)
    if awaited is not GroupAdmin:
        constructor = inspect.signature(awaited).parameters
        assert list(inspect.signature(blocking).parameters) == list(constructor)


def test_records_go_out_and_come_back_without_an_event_loop(broker: str, topic: str) -> None:
    """The whole point: a plain script."""
    with ottla.sync.Producer(broker, linger_ms=1) as producer:
        delivery = producer.send(topic, b"one", b"k", partition=1)
        where = delivery.result()
        batch = producer.send_batch(topic, [b"two", b"three"], partition=1)
        assert batch.result()[0].record_count == 2

    assert (where.partition, where.offset, delivery.done) == (1, 0, True)
    with ottla.sync.Consumer(broker, offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(topic, 1)])
        values = []
        for record in consumer:
            values.append(record.value)
            if len(values) == 3:
                break
        assert consumer.position(TopicPartition(topic, 1)) == 3

    assert values == [b"one", b"two", b"three"]


def test_an_error_comes_out_of_the_call_that_met_it(broker: str) -> None:
    """The error has the same type as from the asyncio client."""
    with ottla.sync.Admin(broker) as admin:
        with pytest.raises(RequestRefused, match="UNKNOWN_TOPIC_OR_PARTITION"):
            admin.describe_topic("missing")
        assert admin.placements.moves() == {}

    producer = ottla.sync.Producer(broker)
    with pytest.raises(ClientClosed, match="not started"):
        producer.send("t", b"x")


def test_several_threads_use_one_producer(broker: str, topic: str) -> None:
    """A web server has as many threads as it likes and one producer."""
    with ottla.sync.Producer(broker) as producer, ThreadPoolExecutor(8) as threads:
        deliveries = list(
            threads.map(lambda number: producer.send(topic, b"%d" % number), range(200))
        )
        places = {delivery.result()[1:3] for delivery in deliveries}

    assert len(places) == 200


def test_a_transaction_is_a_block(broker: str, topic: str) -> None:
    """The block commits at its end, and aborts with the exception that leaves it."""
    with ottla.sync.Producer(broker, transactional_id=topic) as producer:
        producer.init_transactions()
        with producer.transaction():
            producer.send(topic, b"kept", partition=0)
        with pytest.raises(ZeroDivisionError), producer.transaction():
            _send_and_fail(producer, topic)

    with ottla.sync.Consumer(
        broker, offset_reset="earliest", isolation="read_committed"
    ) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        assert [record.value for record in consumer.poll(5_000)] == [b"kept"]


def _send_and_fail(producer: ottla.sync.Producer, topic: str) -> None:
    producer.send(topic, b"dropped", partition=0)
    raise ZeroDivisionError


async def test_a_call_inside_an_event_loop_is_refused_with_what_to_do() -> None:
    """The call would block everything on that loop, without a hint to the cause."""
    with pytest.raises(RuntimeError, match=r"use the client of the same name in ottla"):
        ottla.sync.Admin("127.0.0.1:1")


def test_many_threads_handle_the_records_of_one_consumer(broker: str, topic: str) -> None:
    """A handler is a plain function and may use blocking clients itself."""
    with ottla.sync.Producer(broker) as producer:
        producer.send_batch(topic, [b"%d" % number for number in range(20)], partition=0).result()

        with ottla.sync.Consumer(broker, offset_reset="earliest") as consumer:
            consumer.assign([TopicPartition(topic, 0)])
            run = consumer.parallel(
                lambda record: producer.send(topic, record.value, partition=1).result(),
                concurrency=4,
                ordering="none",
            )
            threading.Timer(1.0, run.stop).start()
            run.run()

    assert run.positions() == {TopicPartition(topic, 0): 20}


def test_ctrl_c_ends_a_call_that_waits(broker: str, topic: str) -> None:
    """The client stays usable afterwards, for instance to be closed."""
    main = threading.main_thread().ident
    assert main is not None
    with ottla.sync.Consumer(broker) as consumer:
        consumer.assign([TopicPartition(topic, 0)])
        timer = threading.Timer(0.3, signal.pthread_kill, (main, signal.SIGINT))

        def interrupted() -> None:
            # Outside of this it would end the run of all tests.
            timer.start()
            consumer.poll(60_000)

        began_s = time.monotonic()
        with pytest.raises(KeyboardInterrupt):
            interrupted()
        assert time.monotonic() - began_s < 10
        timer.join()

        assert consumer.poll(0) == []


class Interrupting(ConsumerInterceptor):
    """Ctrl-C in the very moment in which a poll has got its records."""

    def __init__(self) -> None:
        self.is_armed = True

    def on_consume(self, records: list[ConsumerRecord[Any, Any]]) -> list[ConsumerRecord[Any, Any]]:
        if records and self.is_armed:
            self.is_armed = False
            _thread.interrupt_main()
        return records


TAKES: dict[str, Callable[[Any], object]] = {
    "poll": lambda consumer: consumer.poll(60_000),
    "iterate": lambda consumer: next(iter(consumer)),
}


@pytest.mark.parametrize("take", TAKES.values(), ids=TAKES)
def test_records_that_ctrl_c_keeps_from_the_application_come_again(
    broker: str, topic: str, take: Callable[[Any], object]
) -> None:
    """The next poll counts them as read, so a commit would pass records the application never
    got."""
    where = TopicPartition(topic, 0)
    with ottla.sync.Producer(broker) as producer:
        producer.send_batch(topic, [b"0", b"1", b"2"], partition=0).result()
    with ottla.sync.Consumer(broker, interceptors=(Interrupting(),)) as consumer:
        consumer.assign([where])
        consumer.seek(where, 0)
        with pytest.raises(KeyboardInterrupt):
            take(consumer)

        assert consumer.position(where) == 0
        assert [record.value for record in consumer.poll(60_000)] == [b"0", b"1", b"2"]


def test_a_forked_child_makes_its_own_and_is_told_so(broker: str, topic: str) -> None:
    """Threads do not survive a fork: a client from before would wait for ever."""
    with ottla.sync.Producer(broker) as producer:
        producer.send(topic, b"parent", partition=0).result()
        child = os.fork()
        if child == 0:
            os._exit(_in_the_child(broker, topic, producer))
        _, status = os.waitpid(child, 0)
        producer.send(topic, b"parent", partition=0).result()

    assert os.waitstatus_to_exitcode(status) == 0


def _in_the_child(broker: str, topic: str, inherited: ottla.sync.Producer) -> int:
    """0 if all is as it should be; nothing may be raised here."""
    try:
        inherited.send(topic, b"x")
    except RuntimeError as error:
        if "before a fork" not in str(error):
            return 2
    else:
        return 3
    with ottla.sync.Producer(broker) as own:
        return 0 if own.send(topic, b"child", partition=0).result().offset >= 0 else 4


def test_the_application_is_called_back_in_the_thread_that_waits() -> None:
    """A rebalance listener commits, which waits for the loop: on the loop it would wait for
    itself."""
    loop = shared_loop()
    threads: list[threading.Thread] = []

    def callback(number: int) -> int:
        threads.append(threading.current_thread())
        return loop.run(asyncio.sleep(0, number + 1))

    assert loop.run(in_caller(callback, 1)) == 2
    assert threads == [threading.current_thread()]


def test_what_a_callback_raises_comes_out_of_the_call() -> None:
    """The listener is the application's code, and so is its trouble."""

    def callback() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        shared_loop().run(in_caller(callback))


def test_what_an_interrupted_call_wants_done_in_the_end_is_done() -> None:
    """A listener's ``on_assigned`` is called although ``on_revoked`` was interrupted; all calls of
    the consumer wait for that."""
    told: list[str] = []

    def interrupted() -> None:
        raise KeyboardInterrupt

    async def change() -> None:
        try:
            await in_caller(interrupted)
        finally:
            await in_caller(told.append, "assigned")

    with pytest.raises(KeyboardInterrupt):
        shared_loop().run(change())
    assert told == ["assigned"]


def test_all_clients_share_one_thread(broker: str) -> None:
    """A hundred producers are not a hundred threads."""
    with ottla.sync.Admin(broker), ottla.sync.Admin(broker):
        names = [thread.name for thread in threading.enumerate()]

    assert names.count("ottla-sync") == 1
