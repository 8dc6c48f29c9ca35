"""One broker: starts and stops its parts, each in one visible order.

Start: HTTP pages, store, data directories, sockets bound, registration (upon which the controller
gives this broker its partitions), housekeeping, and only then connections of clients. Stop is the
reverse and ends with the marker of a clean shutdown. A broker that cannot start says why in one
sentence (``CannotStart``). What it consists of: ``parts.py``, ``coordinators.py``, ``requests.py``.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING

from ottla.broker.api.gate import Gate
from ottla.broker.log.directories.directories import DirectoriesConfig
from ottla.broker.log.directories.opening import open_directories
from ottla.broker.membership.lifecycle import Lifecycle, Registration
from ottla.broker.server.first_users import write_user
from ottla.broker.server.http_pages import HttpPages
from ottla.broker.server.listening import (
    address_of,
    advertised,
    connection_limits,
    listener_specs,
    network_settings,
    tell_listeners,
    why_not_bound,
)
from ottla.broker.server.parts import build_parts, listener_07
from ottla.broker.server.requests import build_request_parts, limits_follower
from ottla.broker.server.run_state import RunState
from ottla.broker.server.shared_parts import build_shared_parts
from ottla.broker.server.stores import FIRST_BROKER_ID, open_store
from ottla.broker.server.stores import CannotStart as CannotStart
from ottla.coordinator.configs.broker_configs import for_embedded_store
from ottla.coordinator.store.store import StoreError
from ottla.protocol.errors import CorruptLogError, KafkaError
from ottla.protocol.sasl.scram_record import SALT_BYTES
from ottla.wire.tls.settings import BadTls

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ottla.broker.log.directories.directories import LogDirectories
    from ottla.broker.network.server import NetworkServer
    from ottla.broker.server.first_users import FirstUser
    from ottla.broker.server.requests import RequestParts
    from ottla.broker.server.stores import OpenedStore
    from ottla.coordinator.configs.broker_configs import BrokerConfig
    from ottla.coordinator.store.store import MetadataSession, Store
    from ottla.protocol.ports import Address, Ports

logger = logging.getLogger("ottla.broker")

# Replicas of internal topics are limited to the brokers that an embedded store can have.
BROKERS_IN_PROCESS = 1
DRAIN_MS = 5_000
# What is left of the audit log at the end gets so long to reach its topic.
AUDIT_MS = 1_000
READY_TIMEOUT_MS = 60_000
FEATURES_TIMEOUT_MS = 5_000


class Broker:
    """Created once, started once, stopped once.

    ``store``: a metadata store that several brokers share, opened and closed by the caller;
    without one the broker opens the store that its configuration names."""

    def __init__(self, ports: Ports, config: BrokerConfig, store: Store | None = None) -> None:
        if store is None and config.zookeeper_connect is None:
            config = for_embedded_store(config, BROKERS_IN_PROCESS)
        self.ports = ports
        self.config = config
        self.node_id = config.broker_id if config.broker_id >= 0 else FIRST_BROKER_ID
        self.state = RunState()
        self._on_failure: list[Callable[[], object]] = []
        shared = build_shared_parts(ports, config, self.node_id, self._session, self._on_crash)
        self.parts = build_parts(shared)
        self.metadata = shared.metadata
        self.partitions = self.parts.partitions
        self.gate = Gate(self.node_id, ports.clock)
        self.pages = HttpPages(self.parts, self.state)
        self.addresses: dict[str, Address] = {}
        # Made before clients are served, if there are none of these names.
        self.first_users: Sequence[FirstUser] = ()
        self._store = store
        self._opened_store: OpenedStore | None = None

    @property
    def address(self) -> Address:
        """Where the first listener is bound."""
        return self.addresses[self.config.listeners[0].listener]

    @property
    def has_failed(self) -> bool:
        """Whether the broker stops because of a failure."""
        return self.state.has_failed

    @property
    def requests(self) -> RequestParts:
        """The dispatcher and the network; they exist since the broker has joined the cluster."""
        assert self.state.requests is not None, "the broker has not joined the cluster"
        return self.state.requests

    @property
    def network(self) -> NetworkServer:
        """The listeners and connections; they exist since the broker has joined the cluster."""
        return self.requests.network

    def on_failure(self, callback: Callable[[], object]) -> None:
        """Call back when the broker cannot continue and should be stopped."""
        self._on_failure.append(callback)

    # ---- start ----

    async def start(self) -> None:
        """Return when clients are served. Raises CannotStart; nothing is left behind then."""
        try:
            await self._start()
        except CannotStart:
            await self.stop()
            raise
        except (KafkaError, CorruptLogError, StoreError) as error:
            await self.stop()
            raise CannotStart(getattr(error, "message", None) or str(error)) from error

    async def _start(self) -> None:
        self.pages.listen()
        self._load_certificates()
        lifecycle = await self._join()
        acls = self.parts.authorization.acls
        if acls is not None:
            # The controller's first requests are decided about too.
            await lifecycle.prepare(acls.load)
        if self.first_users:
            await lifecycle.prepare(self._make_first_users)
        self.metadata.begin(lifecycle.cluster_id, lifecycle.controller_epoch_at_start)
        logs = await self._open_logs(lifecycle.cluster_id)
        requests = self.state.requests = build_request_parts(self.parts, lifecycle, self.gate)
        self._bind(requests.network)
        # The broker may be the controller itself, and another controller must be able to give it
        # its partitions: both need answered requests before the registration.
        requests.network.start()
        await self._register(lifecycle, logs)
        await self._wait_until_ready()
        self._start_chores(logs)
        self._open_listener_07(requests)
        requests.network.serve_with(requests.dispatch)
        self.parts.coordinators.start(self.partitions)
        self.state.is_serving = True
        self.gate.open()
        logger.info("broker %d serves at %s", self.node_id, self.address)

    def _load_certificates(self) -> None:
        try:
            self.parts.tls.load()
        except BadTls as error:
            raise CannotStart(str(error)) from error

    async def _make_first_users(self, session: MetadataSession) -> None:
        for user in self.first_users:
            salt = self.ports.random.token(SALT_BYTES)
            if not await write_user(session, user, salt, only_new=True):
                logger.info("the user %r exists already and keeps its password", user.name)

    async def _join(self) -> Lifecycle:
        store, tasks = self._store, self.parts.shared.tasks
        if store is None:
            store, self._opened_store = await open_store(
                self.ports, tasks, self.config, self._on_store_failure
            )
        ports, timeout_ms = self.ports, self.config.zookeeper_session_timeout_ms
        lifecycle = Lifecycle(store, ports.clock, ports.random, tasks, timeout_ms)
        self.state.lifecycle = lifecycle
        lifecycle.on_session = self._on_session
        lifecycle.on_registered = partial(setattr, self.parts.receiver, "broker_epoch")
        lifecycle.on_displaced = self._on_displaced
        await lifecycle.join()
        return lifecycle

    async def _open_logs(self, cluster_id: str) -> LogDirectories:
        config = self.config
        directories = DirectoriesConfig(
            paths=[self.ports.disk.absolute(path) for path in config.log_dirs],
            broker_id=self.node_id,
            cluster_id=cluster_id,
            workers_per_directory=config.num_recovery_threads_per_data_dir,
            free_bytes_floor=config.free_space_floor_bytes,
        )
        logs = await open_directories(self.ports, directories, self.partitions.open_as)
        self.state.logs = logs
        self.partitions.attach(logs)
        self.parts.fetchers.heed_full_disks(lambda: logs.have_no_room)
        logs.on_failure(lambda _path: self._check_directories())
        return logs

    def _bind(self, network: NetworkServer) -> None:
        specs = listener_specs(self.config, self.parts.tls, self.parts.logins)
        try:
            self.addresses = network.bind(specs)
        except OSError as error:
            raise CannotStart(why_not_bound(specs, error)) from error
        tell_listeners(self.config, self.addresses, self.parts.audit)

    def _open_listener_07(self, requests: RequestParts) -> None:
        wanted = self.config.listener_07
        if wanted is None:
            return
        settings, tasks = network_settings(self.config), self.parts.shared.tasks
        dispatch = requests.dispatcher.dispatch
        listener = listener_07()(requests.services, dispatch, settings, tasks)
        self.state.listener_07 = listener
        follower = limits_follower(listener.network, self.config, self.parts.settings)
        self.metadata.subscribe(follower)
        # What was changed before this start is in no later news.
        listener.network.set_limits(connection_limits(self.config, self.parts.settings.sources))
        try:
            listener.open(address_of(wanted))
        except OSError as error:
            raise CannotStart(
                f"cannot listen on {wanted} for clients of 0.7: {error.strerror or error}. "
                "Choose another address with ottla.listener.07."
            ) from error

    async def _register(self, lifecycle: Lifecycle, logs: LogDirectories) -> None:
        parts = self.parts
        registration = Registration(
            self.node_id,
            advertised(self.config, self.addresses),
            self.config.broker_rack,
            -1 if logs.clean_broker_epoch is None else logs.clean_broker_epoch,
            logs.home,
        )
        session_followers = (
            *(follower for follower in (parts.authorization.acls, parts.tokens) if follower),
            parts.configs,
            parts.features,
            parts.controller,
            parts.directory_failures,
            parts.full_disk_reports,
            parts.isr_writer,
        )
        await lifecycle.register(registration, session_followers)
        logs.on_failure(parts.directory_failures.on_failure)

    async def _wait_until_ready(self) -> None:
        """Wait for the controller's first full metadata, which follows this broker's own roles."""
        if not await self.metadata.wait_until_complete(READY_TIMEOUT_MS):
            raise CannotStart("no controller has been elected within a minute")
        await self.parts.features.wait_until_known(FEATURES_TIMEOUT_MS)

    def _start_chores(self, logs: LogDirectories) -> None:
        parts, chores = self.parts, self.parts.shared.chores
        parts.housekeeping.start()
        chores.spawn("isr check", parts.isr_writer.run())
        chores.spawn("certificates", parts.tls.run())
        chores.spawn("room reports", parts.full_disk_reports.run(logs))
        if parts.tokens is not None:
            interval_ms = self.config.delegation_token_expiry_check_interval_ms
            leads = parts.controller.is_controller
            chores.spawn("expired tokens", parts.tokens.run(leads, interval_ms))
        if parts.progress is not None:
            chores.spawn("progress", parts.progress.run(self.config.trace_interval_ms))
        parts.moves.start()
        if parts.audit_topic is not None:
            chores.spawn("audit topic", parts.audit_topic.run())
        if self.config.log_cleaner_enable:
            chores.spawn("cleaning", parts.cleaning.run())

    # ---- while it runs ----

    def _session(self) -> MetadataSession:
        """Raises KafkaError while there is none."""
        assert self.state.lifecycle is not None, "a broker leads nothing before it has joined"
        return self.state.lifecycle.session

    def _on_session(self, session: MetadataSession) -> None:
        self.parts.lease.enter(session)
        self.parts.receiver.on_session()

    def _on_store_failure(self, error: Exception) -> None:
        # A store that was stopped, or whose task has died, is reported elsewhere.
        if isinstance(error, OSError):
            self._fail(f"the metadata store has failed: {error}")

    def _on_displaced(self) -> None:
        self._fail(f"another process has registered as broker {self.node_id}")

    def _check_directories(self) -> None:
        if self.state.logs is not None and not self.state.logs.online:
            self._fail("no data directory is left")

    def _on_crash(self, name: str, error: BaseException) -> None:
        self._fail(f"{name} has died: {error!r}")

    def _fail(self, reason: str) -> None:
        if not self.state.has_failed:
            self.state.has_failed = True
            logger.critical("the broker stops: %s", reason)
            for callback in self._on_failure:
                callback()

    # ---- stop ----

    async def stop(self, *, is_last: bool = False) -> None:
        """Hand over leaderships, answer waiting requests, send the answers, close the logs and
        leave the cluster. ``is_last``: the other brokers stop too, so nothing is handed over."""
        parts, state = self.parts, self.state
        state.is_stopping = True
        if state.is_serving and parts.audit_topic is not None:
            await parts.audit_topic.finish(AUDIT_MS)
        self.gate.close()
        # A fetch after the hand-over would bring this broker back into an ISR, which then waits
        # for it.
        await parts.fetchers.stop()
        if state.requests is not None:
            if not is_last:
                await state.requests.controlled_shutdown.say(parts.receiver.broker_epoch)
            state.requests.network.stop_accepting()
        if state.listener_07 is not None:
            state.listener_07.network.stop_accepting()
        await parts.shared.chores.stop()
        if state.is_serving:
            await parts.housekeeping.finish()
        parts.coordinators.close()
        await parts.receiver.finish()
        self.partitions.close()
        await asyncio.sleep(0)
        if state.requests is not None:
            await state.requests.network.stop(DRAIN_MS)
        if state.listener_07 is not None:
            await state.listener_07.network.stop(DRAIN_MS)
        parts.shared.waiting.close()
        parts.channel.close()
        broker_epoch = -1
        if state.lifecycle is not None:
            broker_epoch = state.lifecycle.broker_epoch
            await state.lifecycle.leave()
        await parts.shared.tasks.stop()
        if state.logs is not None:
            await _close_logs(state.logs, broker_epoch)
        if self._opened_store is not None:
            await self._opened_store.close()
        if parts.tracer is not None:
            await parts.shared.ports.offload.run(parts.tracer.close)
        self.pages.close()


async def _close_logs(logs: LogDirectories, broker_epoch: int) -> None:
    if broker_epoch == -1 and logs.clean_broker_epoch is not None:
        # The start failed before the registration, for example because a port is in use: the
        # previous clean stop is still the last one.
        broker_epoch = logs.clean_broker_epoch
    await logs.close(broker_epoch)
