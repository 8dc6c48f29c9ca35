"""What machines of transactional ids want done, and when they hear of it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import pytest

from ottla.broker.coordinating.groups import GroupCoordinator
from ottla.broker.coordinating.transactions import TransactionEffects, transaction_settings
from ottla.coordinator.configs.broker_configs import parse_broker_config
from ottla.coordinator.effects import Moment, RequestOrigin, SendResponse, Ticket, Token
from ottla.coordinator.transaction.effects import DrawId, WriteMarkers
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.ids import TopicPartition
from tests.broker.support.node import quiet
from tests.broker.support.shard_site import CountingMachine, Fail, Put, ShardSite

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.broker.coordinating.txn_markers import MarkerSender
    from ottla.coordinator.effects import Effects

PLACE = TopicPartition("t", 0)


class Draw(NamedTuple):
    """Want a producer id."""


class Mark(NamedTuple):
    """Want markers."""


class WishingMachine(CountingMachine):
    """Wants what machines of transactional ids want, and answers with what has become of it."""

    def __init__(self) -> None:
        super().__init__()
        self.is_broken = False
        self.told: list[str] = []

    def handle(
        self, request: Any, caller: RequestOrigin, ticket: Ticket, moment: Moment
    ) -> Effects:
        wanted: list[Any] = []
        if isinstance(request, Draw):
            wanted = [DrawId(ticket)]
        elif isinstance(request, Mark):
            wanted = [WriteMarkers(ticket, "id", 7, 1, True, (PLACE,), 2)]
        return wanted or super().handle(request, caller, ticket, moment)

    def drawn(
        self, token: Token, producer_id: int, error: ErrorCode, _moment: Moment
    ) -> list[SendResponse]:
        self.told.append("drawn")
        return [SendResponse(token, (producer_id, error))]

    def markers_written(self, token: Token, _moment: Moment) -> list[SendResponse]:
        assert not self.is_broken, "a bug"
        self.told.append("written")
        return [SendResponse(token, "written")]

    def markers_refused(
        self, token: Token, partitions: tuple[TopicPartition, ...], _moment: Moment
    ) -> list[SendResponse]:
        return [SendResponse(token, partitions)]


class Sender:
    """Remembers what is to be sent."""

    def __init__(self) -> None:
        self.sent: list[tuple[object, int, WriteMarkers]] = []
        self.ends: list[Callable[[tuple[TopicPartition, ...]], object]] = []
        self.forgotten: list[object] = []

    def send(
        self,
        owner: object,
        epoch: int,
        markers: WriteMarkers,
        on_end: Callable[[tuple[TopicPartition, ...]], object],
    ) -> None:
        self.sent.append((owner, epoch, markers))
        self.ends.append(on_end)

    def forget(self, owner: object) -> None:
        self.forgotten.append(owner)


class Site(ShardSite):
    """A shard with wishes; ids are given by ``give``."""

    def __init__(self) -> None:
        super().__init__()
        self.sender = Sender()
        self.drawings: list[asyncio.Future[int]] = []
        effects = TransactionEffects(cast("MarkerSender", self.sender), self._draw, self.tasks)
        parts = self.parts._replace(performer=effects)
        self.groups = GroupCoordinator(self.metadata, self.make_machine, parts)
        self.groups.start(())
        self.partitions.on_role = self.groups.on_role

    def make_machine(self) -> CountingMachine:
        self.machines.append(WishingMachine())
        return self.machines[-1]

    async def _draw(self) -> int:
        self.drawings.append(asyncio.get_running_loop().create_future())
        return await self.drawings[-1]


async def test_a_drawn_id_comes_back_to_the_machine_that_wanted_it() -> None:
    """The answer to the producer waits for it, and nothing else does."""
    site = Site()
    await site.loaded()
    first, second = site.ask(Draw()), site.ask(Draw())
    await quiet()
    site.drawings[1].set_result(8)
    await quiet()
    assert (first, second) == ([], [(8, ErrorCode.NONE)])
    site.drawings[0].set_result(7)
    await quiet()

    assert first == [(7, ErrorCode.NONE)]
    await site.stop()


async def test_without_an_id_the_machine_hears_why_and_goes_on() -> None:
    """A store that cannot be reached must not leave an id in a pending state for ever (T-19)."""
    site = Site()
    await site.loaded()
    answers = site.ask(Draw())
    await quiet()
    site.drawings[0].set_exception(KafkaError(ErrorCode.NETWORK_EXCEPTION, "no session"))
    await quiet()

    assert answers == [(-1, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)]
    await site.stop()


@pytest.mark.parametrize(("refused", "expected"), [((), "written"), ((PLACE,), (PLACE,))])
async def test_markers_go_out_under_the_epoch_of_the_coordinator(
    refused: tuple[TopicPartition, ...], expected: object
) -> None:
    """By it a partition tells a coordinator that is none any more (T-15)."""
    site = Site()
    await site.open()
    await site.lead(4)
    await quiet()
    answers = site.ask(Mark())

    ((owner, epoch, markers),) = site.sender.sent
    assert (owner, epoch, markers.partitions) == (site.machine, 4, (PLACE,))
    assert answers == []
    site.sender.ends[0](refused)
    assert answers == [expected]
    await site.stop()


async def test_a_machine_that_was_thrown_away_is_told_nothing_and_sends_nothing() -> None:
    """Its tokens mean something else to the next one (T-14, T-21)."""
    site = Site()
    await site.loaded()
    old = cast("WishingMachine", site.machine)
    drawing, marking = site.ask(Draw()), site.ask(Mark())
    await quiet()
    with pytest.raises(AssertionError, match="a bug"):
        site.ask(Fail())
    await site.clock.advance(1_100)
    await quiet()
    assert site.machine is not old
    assert site.ask(Put(b"k", b"v")) == ["stored"]
    site.drawings[0].set_result(7)
    site.sender.ends[0](())
    await quiet()

    assert (site.sender.forgotten, old.told) == ([old], [])
    assert drawing == marking == [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]
    await site.stop()


async def test_a_bug_in_a_report_costs_its_machine_and_no_other() -> None:
    """The marker sender serves all shards and must survive a bug in one of them."""
    site = Site()
    await site.loaded()
    old = cast("WishingMachine", site.machine)
    old.is_broken = True
    answers = site.ask(Mark())
    site.sender.ends[0](())
    await site.clock.advance(1_100)
    await quiet()

    assert answers == [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]
    assert site.machine is not old
    assert site.ask(Put(b"k", b"v")) == ["stored"]
    await site.stop()


async def test_losing_the_partition_ends_what_was_to_be_sent() -> None:
    """The next coordinator sends the markers itself, under its own epoch (T-15)."""
    site = Site()
    await site.loaded()
    machine = cast("WishingMachine", site.machine)
    answers = site.ask(Mark())
    await site.follow(1)
    site.sender.ends[0](())

    assert (site.sender.forgotten, machine.told) == ([machine], [])
    assert answers == [ErrorCode.NOT_COORDINATOR]
    await site.stop()


def test_the_settings_are_kafkas() -> None:
    """An operator who sets one of them must see it work."""
    parsed = parse_broker_config(
        {
            "transaction.max.timeout.ms": "1",
            "transactional.id.expiration.ms": "2",
            "transaction.remove.expired.transaction.cleanup.interval.ms": "3",
            "transaction.abort.timed.out.transaction.cleanup.interval.ms": "4",
            "message.max.bytes": "100000",
        }
    )
    settings = transaction_settings(parsed.config)

    assert settings.max_timeout_ms == 1
    assert settings.expiration_ms == 2
    assert settings.expiry_check_interval_ms == 3
    assert settings.timeout_check_interval_ms == 4
    assert settings.max_record_bytes < 100_000
