"""Which of the controller's requests are for this life of the broker."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from ottla.broker.engine.tasks import Tasks
from ottla.broker.metadata.config_watch import ConfigWatch
from ottla.broker.metadata.metadata import MetadataCache
from ottla.broker.partitions.control import ControllerClaim, ControlReceiver
from ottla.coordinator.store import paths
from ottla.coordinator.store.store import ANY_VERSION
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.leader_and_isr import LeaderAndIsrRequest
from ottla.protocol.messages.stop_replica import StopReplicaRequest
from ottla.protocol.messages.update_metadata import UpdateMetadataRequest
from tests.broker.support.node import HandClock, Replicas, quiet
from tests.coordinator.store.support import open_store

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ottla.coordinator.store.store import MetadataSession


def receiver_for(replicas: Replicas) -> ControlReceiver:
    clock, tasks = HandClock(), Tasks()
    metadata = MetadataCache(clock)
    return ControlReceiver(metadata, replicas, ConfigWatch(metadata, tasks), tasks)


@pytest.mark.parametrize("kind", [LeaderAndIsrRequest, StopReplicaRequest, UpdateMetadataRequest])
async def test_a_registration_is_over_as_soon_as_the_next_session_begins(
    kind: type[LeaderAndIsrRequest | StopReplicaRequest | UpdateMetadataRequest],
) -> None:
    """A role that is repeated before the broker has registered again may belong to another broker
    by now; accepted in the new session, it would be believed for that whole session (R-19)."""
    receiver = receiver_for(Replicas())
    receiver.broker_epoch = 7

    async def answer(broker_epoch: int) -> ErrorCode:
        return ErrorCode((await receiver.apply(kind(broker_epoch=broker_epoch))).error_code)

    before = await answer(7)
    receiver.on_session()
    between = [await answer(epoch) for epoch in (7, 8)]
    receiver.broker_epoch = 8

    assert before == ErrorCode.NONE
    # The store may tell the controller of a registration before it tells the broker.
    assert between == [ErrorCode.STALE_BROKER_EPOCH, ErrorCode.NONE]
    assert await answer(8) == ErrorCode.NONE


class SlowConfigs(ConfigWatch):
    """Settings that take long to be read."""

    door: asyncio.Event

    async def refresh_topics(self, names: Iterable[str]) -> None:
        await self.door.wait()


async def test_a_session_that_begins_while_settings_are_read_makes_an_order_stale() -> None:
    """It was judged in the last one, and may have been taken back since (R-19)."""
    replicas, clock, tasks = Replicas(), HandClock(), Tasks()
    metadata = MetadataCache(clock)
    configs = SlowConfigs(metadata, tasks)
    configs.door = asyncio.Event()
    receiver = ControlReceiver(metadata, replicas, configs, tasks)
    receiver.broker_epoch = 7
    asked = asyncio.ensure_future(receiver.apply(LeaderAndIsrRequest(broker_epoch=7)))
    await quiet()
    receiver.on_session()
    configs.door.set()

    assert (await asked).error_code == ErrorCode.STALE_BROKER_EPOCH
    assert replicas.requests == []


async def test_a_request_is_carried_out_whatever_becomes_of_the_one_who_sent_it() -> None:
    """A controller that resigns gives its requests up. One that were cut short between the parts
    of a checkpoint's replacement would meet the next controller's at the same file (P-04, R-04)."""
    replicas = Replicas()
    receiver = receiver_for(replicas)
    replicas.door.clear()
    asked = asyncio.ensure_future(receiver.apply(LeaderAndIsrRequest(controller_epoch=1)))
    await quiet()
    asked.cancel()
    after = asyncio.ensure_future(receiver.apply(LeaderAndIsrRequest(controller_epoch=2)))
    await quiet()
    replicas.door.set()
    await after

    assert asked.cancelled()
    assert [one.controller_epoch for one in replicas.requests] == [1, 2]


async def test_a_broker_that_stops_ends_what_is_under_way_and_takes_nothing_on() -> None:
    """A role that is taken on while the logs are being closed would be served by closed logs, and
    its epoch's file be written by two hands."""
    replicas = Replicas()
    receiver = receiver_for(replicas)
    replicas.door.clear()
    before = asyncio.ensure_future(receiver.apply(LeaderAndIsrRequest(controller_epoch=1)))
    await quiet()
    finishing = asyncio.ensure_future(receiver.finish())
    after = asyncio.ensure_future(receiver.apply(LeaderAndIsrRequest(controller_epoch=2)))
    await quiet()
    assert not finishing.done()
    replicas.door.set()
    await asyncio.gather(finishing, before)

    with pytest.raises(KafkaError):
        await after
    assert [one.controller_epoch for one in replicas.requests] == [1]


async def _elected(session: MetadataSession, claim: ControllerClaim) -> None:
    """Make the store name that controller."""
    if await session.exists(paths.CONTROLLER) is not None:
        await session.delete(paths.CONTROLLER)
    await session.create(paths.CONTROLLER, paths.build_controller(claim.node_id, 0), ephemeral=True)
    await session.set(paths.CONTROLLER_EPOCH, paths.build_number(claim.epoch), ANY_VERSION)


async def test_only_the_controller_of_the_metadata_store_is_confirmed() -> None:
    """The holder of a broker's login may claim any id and any epoch."""
    session = await (await open_store()).connect()
    await session.create(paths.CONTROLLER_EPOCH, paths.build_number(0))
    receiver = receiver_for(Replicas())

    async def is_confirmed(node_id: int, epoch: int) -> bool:
        return await receiver.confirm(ControllerClaim(node_id, epoch), lambda: session)

    assert not await is_confirmed(1, 1)
    await _elected(session, ControllerClaim(1, 5))
    claims = [(1, 5), (1, 6), (2, 5), (2, 6)]
    assert [await is_confirmed(*claim) for claim in claims] == [True, False, False, False]
    # Behind the confirmed epoch the fence refuses.
    assert await is_confirmed(2, 4)
    await _elected(session, ControllerClaim(2, 6))
    assert [await is_confirmed(*claim) for claim in claims] == [True, False, False, True]


async def test_the_store_is_asked_once_for_each_controller_and_its_silence_confirms_none() -> None:
    """A controller repeats a request whose connection was closed."""
    session = await (await open_store()).connect()
    await session.create(paths.CONTROLLER_EPOCH, paths.build_number(0))
    await _elected(session, ControllerClaim(1, 1))
    receiver, first = receiver_for(Replicas()), ControllerClaim(1, 1)
    assert await receiver.confirm(first, lambda: session)
    await session.close()

    assert await receiver.confirm(first, lambda: session)
    with pytest.raises(KafkaError, match="does not say who the controller is"):
        await receiver.confirm(ControllerClaim(1, 2), lambda: session)
