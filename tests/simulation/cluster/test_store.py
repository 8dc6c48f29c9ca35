"""The simulated store: the common contract, and the ways in which an ensemble fails."""

from __future__ import annotations

import asyncio
import contextvars
from typing import TYPE_CHECKING

import pytest

from ottla.coordinator.store.store import (
    BadVersion,
    ConnectionLoss,
    SessionExpired,
    SessionState,
    WatchEvent,
    WatchEventKind,
)
from tests.coordinator.store.contract import StoreContract
from tests.coordinator.store.support import Heard
from tests.simulation.cluster.ensemble import STORE_HOST, Ensemble, StoreProfile
from tests.simulation.cluster.store import SimStore, Surroundings
from tests.simulation.world.clock import SimClock
from tests.simulation.world.links import Links, NetProfile
from tests.simulation.world.loop import SimLoop
from tests.simulation.world.random import SimRandom
from tests.simulation.world.world import World

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import Any

    from ottla.coordinator.store.store import MetadataSession
    from ottla.protocol.ports import Ports
    from tests.simulation.cluster.store import SimSession

TIMEOUT_MS = 3_000


class CalmRoute:
    """A network without delays."""

    def delay_s(self, _source: str, _target: str) -> float:
        return 0.0

    def is_blocked(self, _source: str, _target: str) -> bool:
        return False

    def retransmission_s(self) -> float:
        return 0.0


class ContractWorld:
    """The contract's view, in real time; what lags is shown by the tests below."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        random = SimRandom(1)
        profile = StoreProfile(commit_ms=0.0, tells_of_expiry=1.0)
        self.ensemble = Ensemble(
            loop, contextvars.Context(), CalmRoute(), random.child("store"), profile
        )
        self._random = random
        self._count = 0

    async def connect(self) -> MetadataSession:
        self._count += 1
        loop: SimLoop = asyncio.get_running_loop()  # type: ignore[assignment]
        around = Surroundings(
            f"host-{self._count}",
            contextvars.Context(),
            SimClock(loop, self._random.child("clock"), slack_ms=0.0),
            self._random.child(f"client-{self._count}"),
            lambda: None,
        )
        return await SimStore(self.ensemble, around).connect(60_000)

    async def expire(self, session: MetadataSession) -> None:
        lost = asyncio.Event()
        session.on_state(lambda _: lost.set())
        self.ensemble.expire(self.ensemble.sessions[session.session_id].owner)
        await lost.wait()


class TestSimStore(StoreContract):
    """The contract."""

    @pytest.fixture
    async def world(self) -> ContractWorld:
        """An ensemble of three servers."""
        return ContractWorld()


class Stage:
    """A world with an ensemble and programs that are its clients."""

    def __init__(self, seed: int = 1, profile: StoreProfile | None = None) -> None:
        self.world = World(seed, NetProfile(spike_probability=0.0))
        self.ensemble = Ensemble(
            self.world.loop,
            self.world.loop.outside,
            self.world.links,
            self.world.random.child("store"),
            profile,
        )
        self.states: dict[str, list[tuple[float, SessionState]]] = {}
        self.done = 0

    def client(
        self, name: str, work: Callable[[SimSession, Ports], Coroutine[Any, Any, None]]
    ) -> None:
        """A host with a process that opens a session and works in it."""
        states = self.states[name] = []

        async def program(ports: Ports) -> None:
            around = Surroundings.of(name, ports)
            session = await SimStore(self.ensemble, around).connect(TIMEOUT_MS)
            session.on_state(lambda state: states.append((self.world.loop.time(), state)))
            await work(session, ports)
            self.done += 1

        self.world.node(name, program).start()

    def run(self, story: Coroutine[Any, Any, None]) -> None:
        """To the end of the story, without violations."""
        self.world.run(story)
        assert self.world.violations == []


async def until_lost(session: SimSession, ports: Ports) -> None:
    while session.state is not SessionState.LOST:
        await ports.clock.sleep(10.0)


def test_a_cut_client_is_suspended_and_then_lost_by_its_own_clock() -> None:
    """C-06: a broker that is cut off gets no notification and must not wait for one."""
    stage = Stage()
    stage.client("a", until_lost)

    async def story() -> None:
        await asyncio.sleep(5.0)
        stage.world.links.cut("a", STORE_HOST)
        await asyncio.sleep(5.0)

    stage.run(story())
    (suspended_s, suspended), (lost_s, lost) = stage.states["a"]
    assert (suspended, lost) == (SessionState.SUSPENDED, SessionState.LOST)
    assert 5.0 < suspended_s < lost_s < 5.0 + TIMEOUT_MS / 1_000 + 0.1
    assert stage.ensemble.sessions == {}


def test_a_session_that_ends_before_its_first_answer_is_replaced() -> None:
    """Otherwise its client would wait in vain for ten seconds."""
    stage = Stage(profile=StoreProfile(commit_ms=50.0, tells_of_expiry=1.0))
    stage.client("a", until_lost)
    stage.world.loop.call_later(0.01, stage.ensemble.expire, "a")
    stage.run(asyncio.sleep(1.5))
    assert len(stage.ensemble.sessions) == 1


def test_a_short_cut_suspends_and_drops_watches() -> None:
    """C-07: changes during a disconnect are never reported by a watch."""
    stage = Stage()
    heard = Heard()

    async def watch(session: SimSession, ports: Ports) -> None:
        await session.create("/a")
        await session.get("/a", heard)
        await until_lost(session, ports)

    async def change(session: SimSession, ports: Ports) -> None:
        await ports.clock.sleep(2_000.0)
        await session.set("/a", b"1")
        await until_lost(session, ports)

    stage.client("a", watch)
    stage.client("b", change)

    async def story() -> None:
        await asyncio.sleep(1.0)
        stage.ensemble.disconnect("a")
        await asyncio.sleep(5.0)

    stage.run(story())
    assert [state for _, state in stage.states["a"]] == [
        SessionState.SUSPENDED,
        SessionState.CONNECTED,
    ]
    assert heard.events == []
    assert stage.states["b"] == []


def test_a_stopped_process_loses_its_session_and_learns_it_when_it_goes_on() -> None:
    """P-02: SIGSTOP stops the pings too, so its ephemeral znodes are removed."""
    stage = Stage()
    trace: list[object] = []

    async def own(session: SimSession, ports: Ports) -> None:
        await session.create("/mine", ephemeral=True)
        await until_lost(session, ports)
        trace.append("lost")

    stage.client("a", own)

    async def story() -> None:
        await asyncio.sleep(1.0)
        stage.world.nodes["a"].pause()
        await asyncio.sleep(6.0)
        trace.append(stage.ensemble.tree.exists("/mine"))
        stage.world.nodes["a"].resume()
        await asyncio.sleep(2.0)

    stage.run(story())
    assert trace == [None, "lost"]


def test_an_ensemble_without_quorum_ends_no_session_but_clients_give_up() -> None:
    """Without a quorum only the clients' own clocks decide; ephemeral znodes stay for a while.

    (C-08: a broker then finds the registration of its own former session.)
    """
    stage = Stage()
    found: list[object] = []

    async def own(session: SimSession, ports: Ports) -> None:
        await session.create("/mine", ephemeral=True)
        await until_lost(session, ports)
        with pytest.raises(SessionExpired):
            await session.get("/mine")

    stage.client("a", own)

    async def story() -> None:
        await asyncio.sleep(1.0)
        stage.ensemble.lose_quorum()
        await asyncio.sleep(6.0)
        found.append(stage.ensemble.tree.exists("/mine") is not None)
        stage.ensemble.regain_quorum()
        await asyncio.sleep(TIMEOUT_MS / 1_000 - 0.1)
        found.append(stage.ensemble.tree.exists("/mine") is not None)
        await asyncio.sleep(0.2)
        found.append(stage.ensemble.tree.exists("/mine") is not None)

    stage.run(story())
    assert found == [True, True, False]
    assert stage.done == 1


def test_a_lost_answer_leaves_the_outcome_unknown() -> None:
    """P-08, R-15: of writes that ended in ConnectionLoss some were done and some were not."""
    done = 0
    unknown = 0
    for seed in range(10):
        stage = Stage(seed, StoreProfile(loses_request=0.2, loses_answer=0.2))
        outcomes: list[bool] = []

        async def write(session: SimSession, ports: Ports, outcomes: list[bool] = outcomes) -> None:
            for number in range(10):
                path = f"/{number}"
                try:
                    await session.create(path)
                    outcomes.append(True)
                except ConnectionLoss:
                    while session.state is not SessionState.CONNECTED:
                        await ports.clock.sleep(10.0)
                    outcomes.append(await session.exists(path) is not None)
                    nonlocal unknown
                    unknown += 1

        stage.client("a", write)

        async def story() -> None:
            await asyncio.sleep(20.0)

        stage.run(story())
        assert stage.done == 1
        done += sum(outcomes)
    assert unknown > 10
    assert 100 - unknown < done < 100


def test_servers_lag_but_never_behind_what_a_session_has_seen() -> None:
    """C-24: another session reads the past, the same one never does, on whichever server."""
    stale = 0
    for seed in range(6):
        stage = Stage(seed, StoreProfile(lag_probability=0.5, lag_ms=100.0))

        async def count(session: SimSession, ports: Ports) -> None:
            await session.create("/n", b"0")
            for number in range(1, 30):
                await session.set("/n", b"%d" % number)
                assert int((await session.get("/n")).data) == number
                await ports.clock.sleep(20.0)

        async def look(session: SimSession, ports: Ports, stage: Stage = stage) -> None:
            nonlocal stale
            seen = 0
            await ports.clock.sleep(300.0)
            for turn in range(40):
                truth = int(stage.ensemble.tree.get("/n").data)
                if turn % 4 == 0:
                    await session.sync()
                try:
                    value = int((await session.get("/n")).data)
                except ConnectionLoss:
                    await ports.clock.sleep(300.0)
                    continue
                assert value >= (truth if turn % 4 == 0 else seen)
                stale += value < truth
                seen = value
                if turn % 10 == 9:
                    stage.ensemble.disconnect("b")
                    await ports.clock.sleep(400.0)

        stage.client("a", count)
        stage.client("b", look)

        async def story() -> None:
            await asyncio.sleep(30.0)

        stage.run(story())
        assert stage.done == 2
    assert stale > 5


def test_conditional_writes_of_two_sessions_exclude_each_other() -> None:
    """ZKT-26: whatever is delayed or lost, one version is replaced once."""
    stage = Stage(3, StoreProfile(loses_answer=0.1, lag_probability=0.3))
    won = [0]

    async def compete(session: SimSession, ports: Ports) -> None:
        for _ in range(40):
            try:
                stat = (await session.get("/n")).stat
                await session.set("/n", b"", stat.version)
                won[0] += 1
            except BadVersion:
                pass
            except ConnectionLoss:
                await ports.clock.sleep(500.0)

    async def begin(session: SimSession, ports: Ports) -> None:
        await session.create("/n")

    stage.client("setup", begin)

    async def story() -> None:
        await asyncio.sleep(1.0)
        stage.client("a", compete)
        stage.client("b", compete)
        await asyncio.sleep(60.0)

    stage.run(story())
    assert stage.done == 3
    version = stage.ensemble.tree.get("/n").stat.version
    assert won[0] <= version
    assert won[0] > 20


def test_a_watch_is_heard_before_the_change_over_a_lagging_server() -> None:
    """The order that every reader of the store relies on."""
    for seed in range(5):
        stage = Stage(seed, StoreProfile(lag_probability=0.5))
        heard = Heard()

        async def watch(session: SimSession, ports: Ports, heard: Heard = heard) -> None:
            await session.create("/a", b"old")
            await session.get("/a", heard)
            while (await session.get("/a")).data == b"old":
                assert heard.events == []
                await ports.clock.sleep(5.0)
            assert heard.events == [WatchEvent(WatchEventKind.CHANGED, "/a")]

        async def change(session: SimSession, ports: Ports) -> None:
            await ports.clock.sleep(200.0)
            await session.set("/a", b"new")

        stage.client("a", watch)
        stage.client("b", change)

        async def story() -> None:
            await asyncio.sleep(3.0)

        stage.run(story())
        assert stage.done == 2


def test_links_are_what_the_ensemble_asks() -> None:
    """A cut of the network is a cut of the store."""
    loop = SimLoop(SimRandom(1))
    links = Links(loop, SimRandom(1), NetProfile(), lambda _: None)
    links.cut("a", STORE_HOST)
    assert links.is_blocked("a", STORE_HOST)
    assert not links.is_blocked(STORE_HOST, "a")
    loop.close()
