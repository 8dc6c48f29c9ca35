"""Handler slots and the bounded queue, without connections."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from ottla.broker.engine.context import Paused
from ottla.broker.engine.tasks import Tasks
from ottla.broker.network.channel import Handler, RequestChannel
from ottla.broker.network.request import Request
from tests.support.unconnected import UnconnectedPeer

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from ottla.broker.engine.context import ClientPeer, ReplySlot

STRAIGHT, SUSPENDED = memoryview(b"straight"), memoryview(b"suspended")
PAUSED = memoryview(b"paused")


async def settled() -> None:
    """Waits until every ready task has run."""
    for _ in range(50):
        await asyncio.sleep(0)


class Bench:
    """A channel whose requests either end at once or wait for a gate."""

    def __init__(self, handlers: int, queue_max: int) -> None:
        self.tasks = Tasks()
        self.gate = asyncio.Event()
        self.started: list[bytes] = []
        names = [Handler(f"handler-{number}") for number in range(handlers)]
        self.channel = RequestChannel(names, queue_max, self.dispatch, self.tasks)

    def dispatch(
        self, _peer: ClientPeer, frame: memoryview, _reply: ReplySlot
    ) -> Coroutine[Any, Any, None] | Paused | None:
        self.started.append(bytes(frame))
        if frame == PAUSED:
            return Paused(self.wait())
        return self.wait() if frame == SUSPENDED else None

    async def wait(self) -> None:
        await self.gate.wait()


async def test_free_handler_is_called_in_the_call_that_submits() -> None:
    """No queue, task or future per request: that is what makes small requests cheap."""
    bench = Bench(1, 1)
    owner = UnconnectedPeer()

    assert bench.channel.submit(Request(owner), STRAIGHT)
    assert bench.started == [b"straight"]
    assert bench.tasks.names == []
    assert owner.opened_count == 0


async def test_suspended_request_holds_its_slot_and_opens_the_lane_when_it_ends() -> None:
    """Neither the slot nor the lane may be lost, nor opened twice."""
    bench = Bench(1, 5)
    first, second = UnconnectedPeer(), UnconnectedPeer()
    assert not bench.channel.submit(Request(first), SUSPENDED)
    assert not bench.channel.submit(Request(second), STRAIGHT)
    assert bench.tasks.names == ["handler-0"]
    bench.gate.set()
    await settled()

    assert bench.started == [b"suspended", b"straight"]
    assert (first.opened_count, second.opened_count) == (1, 1)
    assert len(bench.channel.free) == 1


async def test_only_a_request_that_waits_for_a_handler_is_told_as_queued() -> None:
    """A trace shows the queue's time; what is handed through at once has none."""
    bench = Bench(1, 5)
    told: list[memoryview] = []
    bench.channel.on_queued = told.append
    bench.channel.submit(Request(UnconnectedPeer()), STRAIGHT)
    before = list(told)
    bench.channel.submit(Request(UnconnectedPeer()), SUSPENDED)
    bench.channel.submit(Request(UnconnectedPeer()), STRAIGHT)
    bench.gate.set()
    await settled()

    assert before == []
    assert told == [STRAIGHT]
    assert bench.started == [b"straight", b"suspended", b"straight"]


async def test_what_waits_for_another_broker_holds_its_lane_and_no_slot() -> None:
    """Two brokers whose slots all wait for each other's answers would wait for ever."""
    bench = Bench(1, 5)
    paused, other = UnconnectedPeer(), UnconnectedPeer()
    assert not bench.channel.submit(Request(paused), PAUSED)
    assert bench.channel.submit(Request(other), STRAIGHT)
    before = (paused.opened_count, len(bench.channel.free))
    bench.gate.set()
    await settled()

    assert before == (0, 1)
    assert (paused.opened_count, other.opened_count) == (1, 0)


async def test_a_pause_that_is_cancelled_opens_its_lane() -> None:
    """As with a slot: the task may be stopped before it has run at all."""
    bench = Bench(1, 5)
    owner = UnconnectedPeer()
    bench.channel.submit(Request(owner), PAUSED)
    await bench.tasks.stop()

    assert owner.opened_count == 1


async def test_slot_survives_a_task_that_is_cancelled_before_its_first_step() -> None:
    """A stop right after a start would otherwise lose the slot and leave a coroutine unawaited."""
    bench = Bench(1, 5)
    owner = UnconnectedPeer()
    bench.channel.submit(Request(owner), SUSPENDED)
    await bench.tasks.stop()

    assert owner.opened_count == 1
    assert len(bench.channel.free) == 1


async def test_all_parked_connections_are_told_when_a_handler_is_free() -> None:
    """Their requests may all end at once, and then nothing would wake the rest."""
    bench = Bench(1, 1)
    bench.channel.submit(Request(UnconnectedPeer()), SUSPENDED)
    bench.channel.submit(Request(UnconnectedPeer()), STRAIGHT)
    assert bench.channel.is_full
    first, second = UnconnectedPeer(), UnconnectedPeer()
    bench.channel.park(first)
    bench.channel.park(second)
    bench.gate.set()
    await settled()

    assert (first.room_count, second.room_count) == (1, 1)


async def test_only_as_many_parked_connections_are_told_as_the_queue_has_places() -> None:
    """Waking all for one place would only park them again, in another order."""
    bench = Bench(1, 1)
    bench.channel.submit(Request(UnconnectedPeer()), SUSPENDED)
    bench.channel.submit(Request(UnconnectedPeer()), SUSPENDED)
    first, second = UnconnectedPeer(), UnconnectedPeer()
    bench.channel.park(first)
    bench.channel.park(second)
    await asyncio.sleep(0)
    bench.gate.set()
    bench.gate = asyncio.Event()
    await settled()

    assert bench.channel.free == []
    assert (first.room_count, second.room_count) == (1, 0)
    bench.gate.set()
    await settled()
    assert (first.room_count, second.room_count) == (1, 1)
