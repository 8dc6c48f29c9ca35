"""This broker's place in the cluster: its session, its registration, its generations.

A registration is one group: the ephemeral znode that says "alive", and the next version of the
generation znode, which is the broker epoch. Everything that lives in a session (followers: the
watch of settings, the candidacy for controller) begins after registration and ends before the
session is replaced.
"""

from __future__ import annotations

import asyncio
import logging
from itertools import count
from typing import TYPE_CHECKING, Protocol, TypeVar

from ottla.broker.membership.store_layout import ensure, found_cluster
from ottla.coordinator.metadata.features import SUPPORTED
from ottla.coordinator.store import paths
from ottla.coordinator.store.store import (
    AnswerUnreadable,
    BadVersion,
    ConnectionLoss,
    Create,
    Delete,
    GroupFailed,
    NodeExists,
    NoNode,
    Operation,
    Replace,
    SessionExpired,
    SessionState,
    StoreError,
)
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from ottla.broker.engine.tasks import Tasks
    from ottla.coordinator.store.store import MetadataSession, Stat, Store
    from ottla.protocol.ports import Clock, Random

logger = logging.getLogger("ottla.lifecycle")

Outcome = TypeVar("Outcome")

_RETRY_MS = 500
# How long a broker that starts goes on losing sessions before it gives up.
_PATIENCE_MS = 60_000
# ZooKeeper ends a session at the next tick of its own clock, and two ticks are the shortest
# session: what is dead is gone after one and a half timeouts.
_EXPIRY_TIMEOUTS = 1.5


class SessionFollower(Protocol):
    """Something that lives in one session at a time."""

    async def begin(self, session: MetadataSession) -> None:
        """The broker is registered in this session. Raises StoreError."""

    async def end(self) -> None:
        """The session is in doubt, lost, or about to be closed."""


class Registration(NamedTuple):
    """What this broker says of itself; ``clean_stop_epoch`` comes from its mark of a clean stop.

    ``home`` is the id of a data directory that this process has locked: the process that
    registered with the same id before is dead."""

    node_id: int
    endpoints: tuple[paths.EndpointPayload, ...]
    rack: str | None = None
    clean_stop_epoch: int = -1
    home: str = ""


class Lifecycle:
    """Owned by the server: ``join``, then ``register``, at the end ``leave``."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        random: Random,
        tasks: Tasks,
        session_timeout_ms: int,
    ) -> None:
        self._store = store
        self._clock = clock
        self._tasks = tasks
        self._timeout_ms = session_timeout_ms
        self._random = random
        # Tells the registrations of this process from those of its earlier lives.
        self._incarnation = random.token(16).hex()
        self._registration: Registration | None = None
        # The first generation since which nothing was lost.
        self._kept_since = -1
        self._session: MetadataSession | None = None
        self._own_sessions: set[int] = set()
        self._followers: Sequence[SessionFollower] = ()
        # State changes of a session; None: its registration znode has changed.
        self._states: asyncio.Queue[tuple[int, SessionState | None]] = asyncio.Queue()
        self._keeper: asyncio.Task[None] | None = None
        self.broker_epoch = -1
        self.cluster_id = ""
        self.controller_epoch_at_start = 0
        self.on_registered: Callable[[int], object] = lambda _broker_epoch: None
        # Told of each session before anything is done in it.
        self.on_session: Callable[[MetadataSession], object] = lambda _session: None
        # Told when another process has taken this broker's place: one of them must go.
        self.on_displaced: Callable[[], object] = lambda: None

    @property
    def session(self) -> MetadataSession:
        """The current session. Raises KafkaError while there is none."""
        if self._session is None or self._session.state is not SessionState.CONNECTED:
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, f"no session with {self._store}")
        return self._session

    async def join(self) -> str:
        """Open a session, make what every cluster needs, and return the cluster's id.

        Raises StoreError, and KafkaError if the id is unreadable."""
        found = await self._patiently(lambda session: found_cluster(session, self._random))
        self.cluster_id, self.controller_epoch_at_start = found
        return self.cluster_id

    async def prepare(self, step: Callable[[MetadataSession], Awaitable[None]]) -> None:
        """Do this before the broker registers. Raises StoreError."""
        await self._patiently(step)

    async def register(
        self, registration: Registration, followers: Sequence[SessionFollower]
    ) -> int:
        """Say that this broker lives, begin the followers, keep both so; return the broker epoch.

        Raises StoreError, and KafkaError if another process has registered under this id."""
        self._registration = registration
        self._followers = followers
        await self._patiently(self._enter)
        self._keeper = self._tasks.spawn("session", self._keep())
        return self.broker_epoch

    async def _patiently(self, step: Callable[[MetadataSession], Awaitable[Outcome]]) -> Outcome:
        """Done in this session, or in another when it is lost before: the logs that were opened
        meanwhile can have kept this process from it for longer than a session lives.

        Raises ConnectionLoss if there was no session at all, AnswerUnreadable, SessionExpired when
        losing them does not end, and what else the step raises."""
        patience_ends_ms = self._clock.now_ms() + _PATIENCE_MS
        while True:
            try:
                return await step(self._session or await self._connect())
            except AnswerUnreadable:
                # A retry would read the same answer: report it to the operator at once.
                raise
            except (ConnectionLoss, SessionExpired) as error:
                if not self._own_sessions:
                    # The store has never answered: report that to the operator at once.
                    raise
                if self._clock.now_ms() >= patience_ends_ms:
                    raise SessionExpired(
                        f"no session with {self._store} lasts ({error}): see that the store is "
                        "well, and that zookeeper.session.timeout.ms is long enough for it"
                    ) from error
                logger.warning("the session was lost while this broker starts: %s", error)
                await self._rest()

    async def leave(self) -> None:
        """End the followers, the registration and the session. Does not wait for a lost store."""
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.gather(self._keeper, return_exceptions=True)
            self._keeper = None
        await self._end_followers()
        await self._give_up_session()

    async def _give_up_session(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            try:
                await session.close()
            except StoreError as error:
                logger.info("the session could not be closed: %s", error)

    async def _connect(self) -> MetadataSession:
        session = await self._store.connect(self._timeout_ms)
        session_id = session.session_id
        self._own_sessions.add(session_id)
        # Nothing else may happen in a state listener (C-05).
        session.on_state(lambda state: self._states.put_nowait((session_id, state)))
        self._session = session
        self.on_session(session)
        return session

    async def _enter(self, session: MetadataSession) -> None:
        self.broker_epoch = await self._register(session)
        await self._watch_registration(session)
        self.on_registered(self.broker_epoch)
        for follower in self._followers:
            await follower.begin(session)

    async def _end_followers(self) -> None:
        for follower in reversed(self._followers):
            await follower.end()

    async def _keep(self) -> None:
        """Replace lost sessions; let followers rest while the session is in doubt."""
        while True:
            session_id, state = await self._states.get()
            if self._session is None or session_id != self._session.session_id:
                continue
            if state is None:
                await self._look_at_registration(self._session)
                continue
            # The store has said why.
            logger.debug("the session with the metadata store is %s", state.value)
            await self._end_followers()
            if state is SessionState.CONNECTED:
                await self._begin_again(self._session)
            elif state is SessionState.LOST:
                await self._replace()

    async def _watch_registration(self, session: MetadataSession) -> Stat | None:
        assert self._registration is not None
        session_id = session.session_id
        return await session.exists(
            paths.broker(self._registration.node_id),
            lambda _event: self._states.put_nowait((session_id, None)),
        )

    async def _look_at_registration(self, session: MetadataSession) -> None:
        """Gone, it is made again; another process's, this one is not the broker any more."""
        try:
            standing = await self._watch_registration(session)
            if standing is not None and standing.ephemeral_owner == session.session_id:
                return
            if standing is not None:
                logger.error("another process has registered as this broker")
                self.on_displaced()
                return
            logger.warning("the registration has been removed; registering again")
            await self._end_followers()
            await self._enter(session)
        except (StoreError, KafkaError) as error:
            logger.warning("cannot check the registration: %s", error)

    async def _begin_again(self, session: MetadataSession) -> None:
        try:
            # Watches went with the connection.
            self._states.put_nowait((session.session_id, None))
            for follower in self._followers:
                await follower.begin(session)
        except StoreError as error:
            logger.warning("the session failed again: %s", error)

    async def _replace(self) -> None:
        for failure_count in count(1):
            try:
                await self._enter(await self._connect())
            except (StoreError, KafkaError) as error:
                # Hours without a store are not worth a line for every attempt.
                rare = failure_count & (failure_count - 1) == 0
                level = logging.WARNING if rare else logging.DEBUG
                logger.log(level, "no registration yet, try %d: %s", failure_count, error)
                await self._rest()
            else:
                return

    async def _rest(self) -> None:
        """Nothing is left of the session; the next one must not follow at once."""
        await self._end_followers()
        await self._give_up_session()
        await self._clock.sleep(_RETRY_MS)

    async def _register(self, session: MetadataSession) -> int:
        registration = self._registration
        assert registration is not None
        node_id = registration.node_id
        await ensure(session, paths.generation(node_id))
        while True:
            generation = await session.get(paths.generation(node_id))
            version = generation.stat.version
            clean = self._kept_since
            if paths.parse_incarnation(generation.data) != self._incarnation:
                # Else this process was registered before: it has lost its session, not its data.
                clean = version if registration.clean_stop_epoch == version else -1
                self._kept_since = version if clean >= 0 else version + 1
            payload = paths.BrokerPayload(
                registration.endpoints,
                registration.rack,
                self._clock.wall_ms(),
                generation=version + 1,
                clean_stop_epoch=clean,
                features=SUPPORTED,
            )
            standing = await session.exists(paths.broker(node_id))
            operations: list[Operation] = [
                Create(paths.broker(node_id), paths.build_broker(payload), ephemeral=True),
                Replace(
                    paths.generation(node_id),
                    paths.build_incarnation(self._incarnation, registration.home),
                    version,
                ),
            ]
            if standing is not None:
                if not await self._is_mine(session, node_id, standing, generation.data):
                    continue
                operations.insert(0, Delete(paths.broker(node_id), standing.version))
            if await self._try(session, operations, node_id):
                logger.info("registered broker %d, epoch %d", node_id, version + 1)
                return version + 1

    async def _try(
        self, session: MetadataSession, operations: list[Operation], node_id: int
    ) -> bool:
        try:
            await session.multi(operations)
        except GroupFailed as failed:
            if not isinstance(failed.error, NodeExists | BadVersion | NoNode):
                raise
            return False
        except AnswerUnreadable:
            raise
        except ConnectionLoss as error:
            logger.warning("the registration may not have been written: %s", error)
            # A store that fails at once would be asked again at once, for ever.
            await self._clock.sleep(_RETRY_MS)
            # Done or not done: the registration says whose it is (C-08, P-08).
            standing = await session.exists(paths.broker(node_id))
            return standing is not None and standing.ephemeral_owner == session.session_id
        return True

    def _is_home_of(self, generation: bytes) -> bool:
        registration = self._registration
        assert registration is not None
        return registration.home != "" and paths.parse_home(generation) == registration.home

    async def _is_mine(
        self, session: MetadataSession, node_id: int, standing: Stat, generation: bytes
    ) -> bool:
        """Whether the registration in the way is one of this process (C-08), or of one that had
        locked the data directory which this one has locked now, and is dead.

        False: it was not, and has gone meanwhile. Raises KafkaError if it stays (ZKT-05)."""
        if standing.ephemeral_owner in self._own_sessions or self._is_home_of(generation):
            return True
        # It may be an earlier life of this broker, whose session has not run out yet.
        gone = asyncio.Event()
        limit_ms = session.timeout_ms * _EXPIRY_TIMEOUTS
        logger.warning(
            "broker id %d was registered by %s; waiting up to %d s for that session to end",
            node_id,
            await self._rival(session, node_id),
            limit_ms // 1000,
        )
        timer = self._clock.call_at(self._clock.now_ms() + limit_ms, gone.set)
        try:
            if await session.exists(paths.broker(node_id), lambda _event: gone.set()) is not None:
                await gone.wait()
        finally:
            timer.cancel()
        if await session.exists(paths.broker(node_id)) is not None:
            raise KafkaError(
                ErrorCode.DUPLICATE_BROKER_REGISTRATION,
                f"another process has registered as broker {node_id} "
                f"({await self._rival(session, node_id)}), and is running: "
                "start this broker with an unused id, or stop the other process first",
            )
        return False

    async def _rival(self, session: MetadataSession, node_id: int) -> str:
        """Describe the other registration of this broker id: its address and age."""
        try:
            payload = paths.parse_broker((await session.get(paths.broker(node_id))).data)
        except NoNode:
            payload = None
        if payload is None or not payload.endpoints:
            return "another process"
        end = payload.endpoints[0]
        age_s = max(0, self._clock.wall_ms() - payload.timestamp_ms) // 1000
        return f"{end.host}:{end.port}, {age_s} s ago"
