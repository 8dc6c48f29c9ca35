"""Connections by node."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from ottla.wire.backoff import Backoff
from ottla.wire.clock import RealClock
from ottla.wire.connection_config import ConnectionConfig
from ottla.wire.errors import BrokerUnreachable, ClientClosed
from ottla.wire.pool import Pool
from ottla.wire.real import RealNet, RealRandom
from tests.client.support.toy_broker import ToyBroker

if TYPE_CHECKING:
    from tests.client.support.toy_broker import ToyCluster


def pool_of(toy: ToyCluster, backoff: Backoff | None = None) -> Pool:
    """A pool that knows the toy's brokers."""
    config = ConnectionConfig(reconnect_backoff=backoff or Backoff(1, 5))
    pool = Pool(RealNet(), RealClock(), RealRandom(), config)
    for node_id, node in toy.nodes.items():
        pool.set_address(node_id, node.address)
    return pool


async def test_all_who_want_a_broker_get_the_same_connection(toy: ToyCluster) -> None:
    """A burst of callers must not open a burst of connections."""
    pool = pool_of(toy)

    connections = await asyncio.gather(*(pool.connection(1) for _ in range(20)))

    assert len(set(connections)) == 1
    assert len(toy.nodes[1].connections) == 1
    assert pool.ready(1) is connections[0]
    pool.close()


async def test_a_lost_connection_is_made_again_when_it_is_wanted(toy: ToyCluster) -> None:
    """The pool reconnects only on demand and never returns a dead connection."""
    pool = pool_of(toy)
    first = await pool.connection(1)
    first.close()
    assert pool.ready(1) is None

    second = await pool.connection(1)

    assert second is not first
    assert not second.closed
    pool.close()


async def test_attempts_back_off_while_a_broker_is_down(toy: ToyCluster) -> None:
    """Hammering a broker that restarts only delays it."""
    pool = pool_of(toy, Backoff(40, 40))
    clock = RealClock()
    port = toy.nodes[1].address.port
    toy.nodes[1].close()
    with pytest.raises(BrokerUnreachable):
        await pool.connection(1)
    toy.nodes[1] = ToyBroker(toy, 1, port)
    began_ms = clock.now_ms()

    await pool.connection(1)

    assert clock.now_ms() - began_ms >= 25
    pool.close()


async def test_a_broker_that_moves_is_found_at_its_new_address(toy: ToyCluster) -> None:
    """Another process may have the old address now."""
    toy.start(2)
    pool = pool_of(toy)
    old = await pool.connection(1)

    pool.set_address(1, toy.nodes[2].address)

    assert old.closed
    assert (await pool.connection(1)).address == toy.nodes[2].address
    pool.close()


async def test_a_broker_that_left_is_forgotten(toy: ToyCluster) -> None:
    """Its id may come back with another address."""
    pool = pool_of(toy)
    connection = await pool.connection(1)

    pool.forget(1)

    assert connection.closed
    assert not pool.knows(1)
    with pytest.raises(KeyError):
        await pool.connection(1)


async def test_giving_up_one_attempt_does_not_stop_the_others(toy: ToyCluster) -> None:
    """The caller who happened to be first may be cancelled."""
    pool = pool_of(toy)
    first = asyncio.ensure_future(pool.connection(1))
    second = asyncio.ensure_future(pool.connection(1))
    await asyncio.sleep(0)
    first.cancel()

    assert not (await second).closed
    pool.close()


async def test_a_closed_pool_makes_no_connection(toy: ToyCluster) -> None:
    """A task that is about to end must not open another one."""
    pool = pool_of(toy)
    pool.close()

    with pytest.raises(ClientClosed):
        await pool.connection(1)
