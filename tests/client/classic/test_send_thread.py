"""The queue of the classic producer: times, sizes, and what happens at the end."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

import pytest

import ottla
from ottla.classic import (
    CallbackHandler,
    EventHandler,
    Producer,
    ProducerData,
    QueueFull,
    QueueItem,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence


@pytest.fixture(scope="module")
def cluster() -> Iterator[ottla.Cluster]:
    """Never asked: the handlers of these tests send nothing."""
    with ottla.Cluster() as made:
        yield made


class CountingHandler(EventHandler):
    """Counts batches, and when each came."""

    batches: list[tuple[float, list[QueueItem]]]

    def __init__(self) -> None:
        self.batches = []
        self.is_closed = False

    def handle(
        self,
        items: Sequence[QueueItem],
        send: Callable[[Sequence[QueueItem]], None],
        encoder: Any,
    ) -> None:
        self.batches.append((time.monotonic(), list(items)))

    def close(self) -> None:
        self.is_closed = True


def queueing(cluster: ottla.Cluster, **settings: object) -> Producer:
    """An asynchronous producer whose handler only counts."""
    named = {name.replace("__", "."): value for name, value in settings.items()}
    properties = {
        "broker.list": cluster.bootstrap_servers,
        "producer.type": "async",
        "event.handler": CountingHandler,
    }
    return Producer({**properties, **named})


def batches_of(producer: Producer) -> list[tuple[float, list[QueueItem]]]:
    """What its handler got."""
    handler: CountingHandler = producer._handler
    return handler.batches


def wait_for(holds: Callable[[], bool], limit_s: float = 60.0) -> None:
    """Look again until it holds."""
    deadline = time.monotonic() + limit_s
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.005)


@pytest.mark.requirement("PRD-03", "PRD-06")
def test_an_asynchronous_send_returns_at_once_and_a_close_drains(
    cluster: ottla.Cluster,
) -> None:
    """The events wait in memory while the thread is busy with the first batch."""

    free = threading.Event()

    class Busy(CountingHandler):
        def handle(
            self,
            items: Sequence[QueueItem],
            send: Callable[[Sequence[QueueItem]], None],
            encoder: Any,
        ) -> None:
            super().handle(items, send, encoder)
            free.wait()

    producer = queueing(cluster, event__handler=Busy, queue__time=10, batch__size=3)
    producer.send(ProducerData("t", None, [b"0", b"1", b"2"]))
    wait_for(lambda: bool(batches_of(producer)))
    for number in range(3, 10):
        producer.send(ProducerData("t", None, [b"%d" % number]))
    while_busy = len(batches_of(producer))
    free.set()
    producer.close()

    sizes = [len(items) for _, items in batches_of(producer)]
    assert while_busy == 1
    assert [one.data for _, items in batches_of(producer) for one in items] == [
        b"%d" % number for number in range(10)
    ]
    assert sizes == [3, 3, 3, 1]
    assert producer._handler.is_closed


@pytest.mark.requirement("PRD-04")
def test_a_lone_event_is_sent_after_the_time_of_the_queue(cluster: ottla.Cluster) -> None:
    """It does not wait for others for ever; nor is it sent before."""
    producer = queueing(cluster, queue__time=200, batch__size=1_000)
    waits = []
    for _ in range(5):
        count = len(batches_of(producer))
        begun = time.monotonic()
        producer.send(ProducerData("t", None, [b"x"]))
        wait_for(lambda count=count: len(batches_of(producer)) > count)  # type: ignore[misc]
        waits.append(batches_of(producer)[-1][0] - begun)
    producer.close()

    assert min(waits) >= 0.19
    # The least busy attempt counts.
    assert min(waits) < 0.4
    assert [len(items) for _, items in batches_of(producer)] == [1] * 5


@pytest.mark.requirement("PRD-05")
def test_a_full_batch_is_sent_at_once(cluster: ottla.Cluster) -> None:
    """The fiftieth event does not wait for the time of the queue."""
    producer = queueing(cluster, queue__time=600_000, batch__size=50)
    for number in range(49):
        producer.send(ProducerData("t", None, [b"%d" % number]))
    time.sleep(0.1)
    before = len(batches_of(producer))
    producer.send(ProducerData("t", None, [b"49"]))
    wait_for(lambda: len(batches_of(producer)) == 1)
    producer.send(ProducerData("t", None, [b"50"]))
    producer.close()

    assert before == 0
    assert [len(items) for _, items in batches_of(producer)] == [50, 1]


def test_a_full_queue_refuses_or_waits(cluster: ottla.Cluster) -> None:
    """``queue.enqueueTimeout.ms`` says how long an application waits for room."""
    heard: list[tuple[object, bool]] = []

    class Hearing(CallbackHandler):
        def after_enqueue(self, item: QueueItem, added: bool) -> None:
            heard.append((item.data, added))

    producer = queueing(
        cluster,
        queue__time=600_000,
        batch__size=100,
        queue__size=2,
        queue__enqueueTimeout__ms=0,
        callback__handler=Hearing,
    )
    producer.send(ProducerData("t", None, [b"0", b"1"]))
    with pytest.raises(QueueFull, match=r"queue\.size"):
        producer.send(ProducerData("t", None, [b"2"]))
    producer.close()

    assert heard == [(b"0", True), (b"1", True), (b"2", False)]
    assert [len(items) for _, items in batches_of(producer)] == [2]
