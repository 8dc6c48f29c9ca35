"""A session lives as long as the event loop that it belongs to, and no longer."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from ottla.coordinator.store.store import ConnectionLoss, NoNode, SessionState, StoreError
from ottla.coordinator.store.zookeeper import ZooKeeperOptions, ZooKeeperStore
from tests.support.broker_process import BrokerProcess
from tests.support.ports import free_ports
from tests.zookeeper.sessions import LIMIT_SECONDS, open_store, states_of, until
from tests.zookeeper.shared import fresh_place, shared_server

ROOT = Path(__file__).resolve().parents[2]
# For sessions that are to be lost: what is done in them before has this long.
TIMEOUT_MS = 2_500
# For one that is to live: no busy machine keeps a process from its turn for so long.
LIVING_MS = 5_000


def seconds_until_gone(path: str) -> float:
    """How long it takes until the znode vanishes, as another client sees it."""
    watcher = KazooClient(shared_server().address)
    watcher.start()
    begin = time.monotonic()
    try:
        while watcher.exists(path) and time.monotonic() - begin < LIMIT_SECONDS:
            time.sleep(0.02)
        return time.monotonic() - begin
    finally:
        watcher.stop()
        watcher.close()


@pytest.mark.requirement("ZKT-04", "ZKT-27")
async def test_a_hanging_event_loop_loses_its_session() -> None:
    """P-01: kazoo's thread would ping on, and ZooKeeper would keep a broker that serves no
    client."""
    place = fresh_place()
    store = await open_store(place)
    session = await store.connect(TIMEOUT_MS)
    await session.create("/a", ephemeral=True)
    gone_after: list[float] = []
    path = place.partition("/")[1] + place.partition("/")[2] + "/a"
    watching = threading.Thread(target=lambda: gone_after.append(seconds_until_gone(path)))
    watching.start()
    # The loop hangs, until the servers have given it up and a little longer.
    watching.join()
    time.sleep(0.5)  # noqa: ASYNC251

    assert session.state is SessionState.LOST, "before anything else has run"
    assert gone_after[0] < LIMIT_SECONDS
    await store.close()


async def test_a_short_stall_costs_nothing() -> None:
    """A long garbage collection or a slow disk is no reason for an election."""
    store = await open_store(fresh_place())
    session = await store.connect(6_000)
    states = states_of(session)
    for _ in range(2):
        time.sleep(2)  # noqa: ASYNC251 - the loop hangs
        assert session.state is SessionState.CONNECTED
        await asyncio.sleep(0.4)
        await session.create("/n-", sequential=True)

    assert states == []
    await store.close()


def test_a_frozen_process_knows_of_its_loss_before_it_serves() -> None:
    """P-02: after SIGCONT the first look at the session already says lost."""
    place = fresh_place()
    holder = subprocess.Popen(
        [sys.executable, "-m", "tests.zookeeper.holder", place, str(TIMEOUT_MS), "/a"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        bufsize=0,
    )
    assert holder.stdout is not None
    try:
        assert holder.stdout.readline() == b"connected\n"
        holder.send_signal(signal.SIGSTOP)
        path = "/" + place.partition("/")[2] + "/a"
        assert seconds_until_gone(path) < LIMIT_SECONDS
        time.sleep(TIMEOUT_MS / 1000)
        # What it wrote before it was frozen.
        before = drain(holder)
        holder.send_signal(signal.SIGCONT)
        after = holder.stdout.read().splitlines()
    finally:
        holder.kill()
        holder.wait()
        holder.stdout.close()

    assert set(before) <= {b"connected"}
    assert after == [b"lost"]


def drain(process: subprocess.Popen[bytes]) -> list[bytes]:
    """Read all bytes in the pipe."""
    assert process.stdout is not None
    os.set_blocking(process.stdout.fileno(), False)
    lines = (process.stdout.read() or b"").splitlines()
    os.set_blocking(process.stdout.fileno(), True)
    return lines


@pytest.mark.requirement("ZKT-27")
async def test_an_idle_session_lives_on() -> None:
    """Beats come from the event loop; without them one timeout would be its end."""
    store = await open_store(fresh_place())
    session = await store.connect(LIVING_MS)
    states = states_of(session)
    await session.create("/a", ephemeral=True)
    await asyncio.sleep(1.5 * LIVING_MS / 1000)

    assert states == []
    assert await session.exists("/a") is not None
    assert time.monotonic() * 1000 - session.last_answer_ms < LIVING_MS
    await store.close()


async def test_the_servers_decide_on_the_timeout() -> None:
    """The lease must be what was granted, not what was asked for."""
    store = await open_store(fresh_place())

    assert (await store.connect(10)).timeout_ms == 200
    assert (await store.connect(3_000)).timeout_ms == 3_000
    assert (await store.connect(1_000_000)).timeout_ms == 60_000
    await store.close()


async def test_a_missing_server_is_told_with_the_address() -> None:
    """The operator sees what was tried and for how long."""
    port = free_ports(1)[0]
    store = await open_store(f"127.0.0.1:{port}/x", ZooKeeperOptions(connection_timeout_ms=300))
    with pytest.raises(ConnectionLoss, match=rf"127\.0\.0\.1:{port} within 300 ms"):
        await store.connect(10_000)
    await store.close()


async def test_chroots_are_made_and_keep_clusters_apart() -> None:
    """Two clusters may share an ensemble; neither sees the other's brokers."""
    place = fresh_place()
    first, second = await open_store(f"{place}/p/one"), await open_store(f"{place}/p/two/")
    one, two = await first.connect(10_000), await second.connect(10_000)
    await one.create("/a")

    assert await two.exists("/a") is None
    assert await one.children("/") == ["a"]
    whole = await (await open_store(place)).connect(10_000)
    assert await whole.children("/p") == ["one", "two"]
    with pytest.raises(NoNode):
        await whole.children("/a")
    for store in (first, second):
        await store.close()
    await whole.close()


async def test_with_acls_strangers_may_read_as_in_kafka_and_do_not_write() -> None:
    """ottla.zookeeper.others.read: in a shared ensemble other applications must not change it."""
    place = fresh_place()
    options = ZooKeeperOptions(digest="kafka:secret", set_acl=True, others_read=True)
    owning, foreign = await open_store(place, options), await open_store(place)
    owner = await owning.connect(10_000)
    stranger = await foreign.connect(10_000)
    await owner.create("/a", b"1")
    await owner.create("/config")
    await owner.create("/config/users", b"hashes")

    assert (await stranger.get("/a")).data == b"1"
    for attempt in (stranger.set("/a", b"2"), stranger.get("/config/users")):
        with pytest.raises(StoreError, match="NoAuth"):
            await attempt
    assert stranger.state is SessionState.CONNECTED
    await owner.set("/a", b"2")
    await owning.close()
    await foreign.close()


async def test_a_broker_protects_its_nodes_where_its_settings_say_so(tmp_path: Path) -> None:
    """The user of ottla.zookeeper.digest may write, and no other program may."""
    place = fresh_place()
    options = {
        "zookeeper.connect": place,
        "zookeeper.set.acl": "true",
        "ottla.zookeeper.digest": "kafka:secret",
        "ottla.zookeeper.others.read": "true",
        "broker.id": "1",
    }
    stranger_store = await open_store(place)
    with BrokerProcess(tmp_path / "data", options=options):
        stranger = await stranger_store.connect(10_000)
        for attempt in (stranger.set("/controller_epoch", b"9"), stranger.create("/brokers/x")):
            with pytest.raises(StoreError, match="NoAuth"):
                await attempt
    await stranger_store.close()


async def test_an_acl_needs_an_owner() -> None:
    """Without an owner no client could change the nodes."""
    with pytest.raises(ValueError, match=r"zookeeper\.set\.acl"):
        await ZooKeeperStore.open("h:1", None, ZooKeeperOptions(set_acl=True))  # type: ignore[arg-type]


async def test_no_session_lives_on_after_its_store_is_closed() -> None:
    """The next start of the broker would wait for its own registration to go."""
    place = fresh_place()
    store = await open_store(place)
    sessions = [await store.connect(60_000) for _ in range(3)]
    for number, session in enumerate(sessions):
        await session.create(f"/{number}", ephemeral=True)
    await store.close()
    await store.close()
    again = await (await open_store(place)).connect(10_000)

    assert await again.children("/") == []
    assert {session.state for session in sessions} == {SessionState.LOST}
    await again.close()
    await until(lambda: not any("zookeeper" in one.name for one in threading.enumerate()))
