"""The controller's outgoing requests: order, repetition, and silence after the end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.controlling.senders import Reports, Senders
from ottla.broker.engine.tasks import Tasks
from ottla.coordinator.controller.events import AnyControlRequest, ControlRequest
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse
from ottla.protocol.ports import Address
from ottla.wire.errors import (
    BrokerUnreachable,
    ConnectionLost,
    RequestTimedOut,
    UnsupportedByBroker,
)
from tests.broker.support.node import HandClock, quiet

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.broker.partitions.control import ControlResponse


class Wire:
    """A control channel that fails when told to."""

    def __init__(self) -> None:
        self.sent: list[tuple[int, int, int]] = []
        self.is_down = False
        self.error: Exception = ConnectionResetError()
        self.error_code = ErrorCode.NONE
        self.on_lost: Callable[[int], object] = lambda _node_id: None

    async def reach(self, node_id: int) -> None:
        self.sent.append((node_id, -1, -1))
        if self.is_down:
            raise self.error

    async def send(self, node_id: int, request: AnyControlRequest) -> ControlResponse:
        self.sent.append((node_id, request.broker_epoch, request.controller_id))
        if self.is_down:
            raise self.error
        return UpdateMetadataResponse(self.error_code)


class Site:
    """Senders with everything that they need."""

    def __init__(self) -> None:
        self.wire, self.clock = Wire(), HandClock()
        self.answers: list[int] = []
        self.suspected: list[tuple[int, int]] = []
        self.returned: list[int] = []
        reports = Reports(
            self.on_answer,
            lambda node_id, generation: self.suspected.append((node_id, generation)),
            self.returned.append,
        )
        self.senders = Senders(self.wire, self.clock, Tasks(), reports)

    def on_answer(
        self, node_id: int, request: AnyControlRequest, response: ControlResponse
    ) -> None:
        self.answers.append(node_id)

    async def send(self, node_id: int, number: int, generation: int = 1) -> None:
        request = UpdateMetadataRequest(controller_id=number, broker_epoch=generation)
        self.senders.send([ControlRequest(node_id, request)])
        await quiet()


async def test_requests_arrive_in_order_and_a_dead_broker_holds_up_no_other() -> None:
    """C-11: a role of epoch 6 before that of epoch 5 would be undone by it."""
    site = Site()
    site.wire.is_down = True
    for number in range(3):
        await site.send(1, number)
    site.wire.is_down = False
    await site.send(2, 9)
    assert site.wire.sent == [(1, 1, 0), (2, 1, 9)]
    await site.clock.advance(1000)

    assert site.wire.sent[2:] == [(1, 1, 0), (1, 1, 1), (1, 1, 2)]
    assert site.answers == [2, 1, 1, 1]
    site.senders.stop()


async def test_a_stranger_at_a_brokers_address_stops_no_other_request() -> None:
    """The address of a dead broker may be given to something else that speaks Kafka's protocol."""
    site = Site()
    site.wire.is_down, site.wire.error = True, UnsupportedByBroker("no LeaderAndIsr there")
    await site.send(1, 0)
    await site.clock.advance(1_000)
    site.wire.is_down = False
    await site.clock.advance(1_000)

    assert (site.answers, site.suspected) == ([1], [])
    site.senders.stop()


REFUSED = BrokerUnreachable(Address("127.0.0.1", 1), "refused")
REFUSED.__cause__ = ConnectionRefusedError()


async def test_a_broker_whose_connection_breaks_and_that_refuses_twice_is_suspected() -> None:
    """Its process is gone; its session would say so many seconds later only."""
    site = Site()
    await site.send(1, 0)
    site.wire.is_down, site.wire.error = True, REFUSED
    site.wire.on_lost(1)
    await quiet()
    assert site.suspected == []
    await site.clock.advance(300)
    assert site.suspected == [(1, 1)]
    await site.clock.advance(5_000)
    assert (site.suspected, site.returned) == ([(1, 1)], [])
    site.wire.is_down = False
    await site.clock.advance(100)

    assert site.returned == [1]
    site.wire.is_down = True
    site.wire.on_lost(1)
    await quiet()
    await site.clock.advance(300)
    assert site.suspected == [(1, 1)] * 2
    site.senders.stop()


async def test_a_request_that_breaks_with_its_connection_leads_to_the_same() -> None:
    """Then it is the sending that tells, not the connection's end."""
    site = Site()
    await site.send(1, 0)
    site.wire.is_down = True
    site.wire.error = ConnectionLost(Address("127.0.0.1", 1), "reset", was_sent=True)
    await site.send(1, 1)
    site.wire.error = REFUSED
    await site.clock.advance(100)
    await site.clock.advance(100)

    assert site.suspected == [(1, 1)]
    site.senders.stop()


async def test_silence_and_a_late_start_are_no_death() -> None:
    """A stopped process, a slow disk or a cut wire may come back; a new broker may not listen yet,
    or be looked for at its old address."""
    site = Site()
    site.wire.is_down, site.wire.error = True, REFUSED
    await site.send(1, 0)
    await site.clock.advance(60_000)
    assert site.suspected == []
    site.wire.is_down = False
    await site.clock.advance(100)
    site.wire.is_down = True
    for error in (
        RequestTimedOut(Address("127.0.0.1", 1), "x", 1, was_sent=True),
        BrokerUnreachable(Address("127.0.0.1", 1), "no connection in time"),
        KafkaError(ErrorCode.BROKER_NOT_AVAILABLE),
    ):
        site.wire.error = error
        await site.send(1, 1)
        await site.clock.advance(1_000)

    assert site.suspected == []
    site.senders.stop()


async def test_a_connection_that_is_made_again_is_no_news() -> None:
    """Idle connections are closed now and then; that must not cost any broker its leaderships."""
    site = Site()
    await site.send(1, 0)
    site.wire.on_lost(1)
    site.wire.on_lost(7)
    await site.clock.advance(1_000)

    assert site.wire.sent == [(1, 1, 0), (1, -1, -1)]
    assert (site.suspected, site.returned) == ([], [])
    site.senders.stop()


async def test_nothing_leaves_after_the_end() -> None:
    """C-04: half-sent batches of a resigned controller would contradict its successor's."""
    site = Site()
    site.wire.is_down = True
    await site.send(1, 0)
    site.senders.stop()
    site.wire.is_down = False
    await site.clock.advance(60_000)

    assert site.wire.sent == [(1, 1, 0)]


async def test_a_broker_that_is_gone_is_not_tried_for_ever() -> None:
    """Its session is over; when it returns, it is told everything anew."""
    site = Site()
    site.wire.is_down = True
    await site.send(1, 0)
    await site.send(2, 0)
    site.senders.keep_only({2})
    await quiet()
    del site.wire.sent[:]
    await site.clock.advance(1000)

    assert site.wire.sent == [(2, 1, 0)]
    site.senders.stop()


async def test_what_was_meant_for_an_earlier_life_is_dropped() -> None:
    """C-15: a new generation gets a new channel; the old one's queue goes with it."""
    site = Site()
    site.wire.is_down = True
    await site.send(1, 0)
    await site.send(1, 1)
    site.wire.is_down = False
    await site.send(1, 2, generation=2)
    await site.clock.advance(1000)

    assert site.wire.sent == [(1, 1, 0), (1, 2, 2)]
    site.senders.stop()


async def test_a_broker_that_has_restarted_ends_its_senders_work() -> None:
    """C-09: its next registration begins another one."""
    site = Site()
    site.wire.error_code = ErrorCode.STALE_BROKER_EPOCH
    await site.send(1, 0)
    await site.send(1, 1)

    assert site.wire.sent == [(1, 1, 0)]
    assert site.answers == []
    site.senders.stop()


async def test_who_waits_for_it_hears_when_every_living_broker_has_answered() -> None:
    """A client that was told of its topic asks any broker next."""
    site = Site()
    for node_id in (1, 2):
        await site.send(node_id, 0)
    site.wire.is_down = True
    await site.send(1, 1)
    told = site.senders.told()
    await quiet()
    before = [future.done() for future in told]
    site.wire.is_down = False
    await site.clock.advance(200)

    # Broker 1's connection broke: it is not waited for, as it may never come back.
    assert before == [True]
    assert site.answers.count(2) == 1
    site.senders.stop()


async def test_a_dying_process_may_reset_a_connection_before_it_refuses() -> None:
    """Between the end of its threads and that of its sockets the kernel still says hello."""
    site = Site()
    await site.send(1, 0)
    site.wire.is_down = True
    await site.send(1, 1)
    site.wire.error = BrokerUnreachable(Address("127.0.0.1", 1), "connection reset by peer")
    await site.clock.advance(100)
    site.wire.error = ConnectionRefusedError()
    await site.clock.advance(100)
    await site.clock.advance(100)

    assert site.suspected == [(1, 1)]
    site.senders.stop()
