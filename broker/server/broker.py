"""One broker: every part made, started and stopped in one visible order.

Start: store, data directories, sockets bound, registration (upon which the controller gives this
broker its partitions), housekeeping, and only then connections. Stop is the reverse, and ends with
the mark of a clean stop. What cannot start says so in one sentence (``CannotStart``).
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING

from ottla.broker.administration.cluster_admin import ClusterAdmin
from ottla.broker.administration.controlled_shutdown import Farewell
from ottla.broker.administration.producer_ids import ProducerIds
from ottla.broker.administration.topic_creation import TopicMaking
from ottla.broker.api.dispatch import Dispatcher
from ottla.broker.api.gate import Gate
from ottla.broker.api.table import TABLE, advertised_apis
from ottla.broker.cleaner.cleaner import Cleaning
from ottla.broker.cleaner.settings import cleaning_settings
from ottla.broker.controlling.wire_channel import WireChannel
from ottla.broker.coordinating.internal_topics import InternalTopics
from ottla.broker.directories.directory_failures import DirectoryFailures
from ottla.broker.directories.full_disk_reports import RoomReports
from ottla.broker.engine.purgatory import Waiting
from ottla.broker.engine.tasks import Tasks
from ottla.broker.engine.timing_wheel import TimingWheel
from ottla.broker.following.fetchers import fetchers_of
from ottla.broker.handlers.services import Services
from ottla.broker.log.directories.opening import open_directories
from ottla.broker.membership.lifecycle import Lifecycle, Registration
from ottla.broker.membership.peers import Peers
from ottla.broker.metadata.config_watch import ConfigWatch
from ottla.broker.metadata.features import Features
from ottla.broker.metadata.metadata import MetadataCache
from ottla.broker.metadata.settings import Settings
from ottla.broker.network.server import NetworkServer
from ottla.broker.partitions.control import ControlReceiver
from ottla.broker.partitions.isr_writer import IsrWriter
from ottla.broker.partitions.lease import Lease
from ottla.broker.partitions.partitions import Partitions
from ottla.broker.partitions.produces import Flushes
from ottla.broker.partitions.read_barriers import ReadBarriers
from ottla.broker.partitions.refused_batches import RefusalLog
from ottla.broker.partitions.throttles import ReplicationThrottles
from ottla.broker.policy.door import Door
from ottla.broker.server.assembly import (
    Machinery,
    MarkerRoads,
    directories_config,
    make_controller,
    make_groups,
    make_housekeeping,
    make_marker_writer,
    make_moves,
    make_reads,
    make_transactions,
    make_verification,
    settings_follower,
)
from ottla.broker.server.listening import (
    advertised,
    listener_specs,
    network_settings,
    why_not_bound,
)
from ottla.broker.server.monitoring import Monitoring
from ottla.broker.server.stores import FIRST_BROKER_ID, open_store
from ottla.broker.server.stores import CannotStart as CannotStart
from ottla.coordinator.configs.broker_configs import for_embedded_store
from ottla.coordinator.store.store import StoreError
from ottla.protocol.errors import CorruptLogError, KafkaError

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.broker.controlling.controller import ControllerCandidate
    from ottla.broker.housekeeping.housekeeping import Housekeeping
    from ottla.broker.log.directories.directories import LogDirectories
    from ottla.broker.partitions.partition import PartitionRuntime
    from ottla.broker.server.stores import OpenedStore
    from ottla.coordinator.configs.broker_configs import BrokerConfig
    from ottla.coordinator.store.store import Session, Store
    from ottla.protocol.ports import Address, Ports

logger = logging.getLogger("ottla.broker")

# Internal topics must be possible with the brokers that an embedded store can have.
BROKERS_IN_PROCESS = 1
DRAIN_MS = 5_000
READY_TIMEOUT_MS = 60_000
FEATURES_TIMEOUT_MS = 5_000


class Broker:
    """Made once, started once, stopped once.

    ``store``: a metadata store that several brokers share, opened and closed by somebody else;
    without one the broker opens what its configuration names."""

    def __init__(self, ports: Ports, config: BrokerConfig, store: Store | None = None) -> None:
        self.ports = ports
        if store is None and config.zookeeper_connect is None:
            config = for_embedded_store(config, BROKERS_IN_PROCESS)
        self.config = config
        self.node_id = config.broker_id if config.broker_id >= 0 else FIRST_BROKER_ID
        self.tasks = Tasks(self._on_crash)
        self._chores = Tasks(self._on_crash)
        self._on_failure: list[Callable[[], object]] = []
        self.has_failed = False
        clock = ports.clock
        wheel = TimingWheel(clock)
        self.waiting = Waiting(wheel, asyncio.get_running_loop().call_soon)
        self.metadata = MetadataCache(clock)
        self.settings = Settings(config, self.node_id, self.metadata.config)
        self._lease = Lease()
        self.throttles = ReplicationThrottles(self.node_id, lambda: self.settings.sources, clock)
        lag_ms = config.replica_lag_time_max_ms
        self.partitions = Partitions(
            self.node_id, self.settings.for_topic, self.waiting, clock, lag_ms, self._lease
        )
        self.isr_writer = IsrWriter(self.partitions, self.metadata, clock, self.tasks, lag_ms)
        self.partitions.on_may_join = self.isr_writer.look_at
        self.partitions.error_for_missing = self.metadata.error_for_missing
        self.metadata.is_offline_here = self.partitions.is_offline
        self.metadata.subscribe(settings_follower(self.settings, self.partitions))
        self._flushes = Flushes(self.tasks)
        barriers = ReadBarriers(self.waiting, clock)
        machinery = self._machinery = Machinery(
            self.node_id, ports, config, self.metadata, self.tasks, self.waiting, wheel, barriers
        )
        self.groups = make_groups(machinery, self._flushes)
        self._configs = ConfigWatch(self.metadata, clock, self.tasks)
        self.features = Features(self.node_id, self.metadata, clock, self.tasks)
        self._receiver = ControlReceiver(self.metadata, self.partitions, self._configs, self.tasks)
        self._peers = Peers(
            self.node_id, ports.net, clock, self.metadata, config.inter_broker_listener_name
        )
        self._producer_ids = ProducerIds(self.node_id, self._session)
        writer = make_marker_writer(machinery, self.partitions, self.groups, self._flushes)
        self.marker_writer = writer
        roads = MarkerRoads(self._peers, writer.write, self._session)
        self.transactions = make_transactions(machinery, self._flushes, self._producer_ids, roads)
        self.verification = make_verification(machinery, self._peers, self.transactions)
        self.partitions.on_role = self._on_role
        self._channel = WireChannel(self._peers, self.metadata, self._receiver)
        self.fetchers = fetchers_of(
            config, self._peers, lambda: self._receiver.broker_epoch, clock, self.tasks
        )
        self.fetchers.throttle(self.throttles)
        self.partitions.on_following = self.fetchers.on_role
        self.partitions.on_settings = self.fetchers.on_settings
        self._store = store
        self._opened_store: OpenedStore | None = None
        self._lifecycle: Lifecycle | None = None
        self._farewell: Farewell | None = None
        self._logs: LogDirectories | None = None
        self.gate = Gate(self.node_id, clock)
        self.network: NetworkServer | None = None
        self.housekeeping: Housekeeping | None = None
        self.cleaning = Cleaning(
            self.partitions, ports, lambda: cleaning_settings(self.settings.sources)
        )
        self.moves = make_moves(machinery, self.partitions, self.throttles, self._chores)
        self.addresses: dict[str, Address] = {}
        self.monitoring = Monitoring(self)

    @property
    def address(self) -> Address:
        """Where the first listener is bound."""
        return self.addresses[self.config.listeners[0].listener]

    def on_failure(self, callback: Callable[[], object]) -> None:
        """Call back when the broker cannot go on and should be stopped."""
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
        self.monitoring.listen()
        lifecycle = await self._join()
        self.metadata.begin(lifecycle.cluster_id, lifecycle.controller_epoch_at_start)
        logs = self._logs = await self._open_logs(lifecycle.cluster_id)
        self.monitoring.logs = logs
        self.partitions.attach(logs)
        self.fetchers.heed_full_disks(lambda: logs.have_no_room)
        logs.on_failure(lambda _path: self._check_directories())
        controller = make_controller(self._machinery, self._channel, self._peers)
        network = self.network = self._make_network(lifecycle, controller)
        self._bind(network)
        lifecycle.on_registered = partial(setattr, self._receiver, "broker_epoch")
        registration = Registration(
            self.node_id,
            advertised(self.config, self.addresses),
            self.config.broker_rack,
            -1 if logs.clean_broker_epoch is None else logs.clean_broker_epoch,
            logs.home,
        )
        lifecycle.on_displaced = self._on_displaced
        failures = DirectoryFailures(self.node_id, self.ports.clock, self.tasks)
        self._rooms = RoomReports(self.node_id, self.ports.clock)
        # The controller, wherever it is, must be able to give this broker its partitions.
        network.start()
        told = (self._configs, self.features, controller, failures, self._rooms, self.isr_writer)
        await lifecycle.register(registration, told)
        logs.on_failure(failures.on_failure)
        await self._wait_until_ready()
        self._start_chores()
        network.serve_with(self.dispatcher.dispatch)
        for coordinator in (self.groups, self.transactions):
            coordinator.start(self.partitions)
        self.monitoring.is_serving = True
        self.gate.open()
        logger.info("broker %d serves at %s", self.node_id, self.address)

    async def _join(self) -> Lifecycle:
        store = self._store
        if store is None:
            store, self._opened_store = await open_store(
                self.ports, self.tasks, self.config, self._on_store_failure
            )
        ports, timeout_ms = self.ports, self.config.zookeeper_session_timeout_ms
        lifecycle = Lifecycle(store, ports.clock, ports.random, self.tasks, timeout_ms)
        self._lifecycle = self.monitoring.lifecycle = lifecycle
        lifecycle.on_session = self._on_session
        await lifecycle.join()
        return lifecycle

    async def _open_logs(self, cluster_id: str) -> LogDirectories:
        config = directories_config(self._machinery, cluster_id)
        return await open_directories(self.ports, config, self.partitions.open_as)

    def _make_network(self, lifecycle: Lifecycle, controller: ControllerCandidate) -> NetworkServer:
        reads = make_reads(self._machinery, self.partitions, self.throttles)
        admin = ClusterAdmin(
            controller,
            lifecycle,
            self.metadata,
            self._configs,
            self._producer_ids,
            self.ports.clock,
            self.ports.random,
        )
        self._farewell = Farewell(
            self.config, self._peers, self.metadata, admin.partitions, self.ports.clock
        )
        making = TopicMaking(admin, self._peers, self.metadata, self.ports.clock)
        services = Services(
            ports=self.ports,
            node_id=self.node_id,
            config=self.config,
            settings=self.settings,
            door=Door(),
            metadata=self.metadata,
            partitions=self.partitions,
            reads=reads,
            flushes=self._flushes,
            refusal_log=RefusalLog(self.ports.clock, self.tasks),
            waiting=self.waiting,
            admin=admin,
            internal_topics=InternalTopics(self.config, making, self.tasks),
            groups=self.groups,
            transactions=self.transactions,
            marker_writer=self.marker_writer,
            verification=self.verification,
            features=self.features,
            moves=self.moves,
            control=self._receiver,
            advertised=advertised_apis,
        )
        self.dispatcher = Dispatcher(services, TABLE, self.tasks)
        return NetworkServer(
            self.ports.net,
            self.ports.clock,
            self.tasks,
            self.gate.guard(self.dispatcher.dispatch),
            network_settings(self.config),
        )

    def _bind(self, network: NetworkServer) -> None:
        specs = listener_specs(self.config)
        try:
            self.addresses = network.bind(specs)
        except OSError as error:
            raise CannotStart(why_not_bound(specs, error)) from error

    def _on_session(self, session: Session) -> None:
        self._lease.enter(session)
        self._receiver.on_session()

    async def _wait_until_ready(self) -> None:
        """Until the controller has told this broker of everything, its own partitions first."""
        if not await self.metadata.wait_until_complete(READY_TIMEOUT_MS):
            raise CannotStart("no controller has been elected within a minute")
        await self.features.wait_until_known(FEATURES_TIMEOUT_MS)

    def _start_chores(self) -> None:
        config = self.config
        self.housekeeping = make_housekeeping(self._machinery, self.partitions, self._chores)
        self.housekeeping.start()
        self._chores.spawn("isr check", self.isr_writer.run())
        self._chores.spawn("room reports", self._rooms.run(self.partitions.logs))
        self.cleaning.trusts_clock = self.housekeeping.trusts_clock
        for coordinator in (self.groups, self.transactions):
            coordinator.trust_clock(self.housekeeping.trusts_clock)
        self.moves.start()
        if config.log_cleaner_enable:
            self._chores.spawn("cleaning", self.cleaning.run())

    # ---- while it runs ----

    def _on_role(self, partition: PartitionRuntime) -> None:
        for coordinator in (self.groups, self.transactions):
            coordinator.on_role(partition)

    def _session(self) -> Session:
        """Raises KafkaError while there is none."""
        assert self._lifecycle is not None, "nothing is led before that"
        return self._lifecycle.session

    def _on_store_failure(self, error: Exception) -> None:
        # A store that was stopped, or whose task died, is somebody else's story.
        if isinstance(error, OSError):
            self._fail(f"the metadata store has failed: {error}")

    def _on_displaced(self) -> None:
        self._fail(f"another process has registered as broker {self.node_id}")

    def _check_directories(self) -> None:
        if self._logs is not None and not self._logs.online:
            self._fail("no data directory is left")

    def _on_crash(self, name: str, error: BaseException) -> None:
        self._fail(f"{name} has died: {error!r}")

    def _fail(self, reason: str) -> None:
        if not self.has_failed:
            self.has_failed = True
            logger.critical("the broker stops: %s", reason)
            for callback in self._on_failure:
                callback()

    # ---- stop ----

    async def stop(self, *, is_last: bool = False) -> None:
        """Hand over what others can lead, answer who waits, let answers leave, close the logs and
        leave the cluster. ``is_last``: the others stop as well, so nothing is handed over."""
        self.monitoring.on_stopping()
        self.gate.close()
        # A fetch after it was relieved would bring it back into an ISR, which then waits for it.
        await self.fetchers.stop()
        if self._farewell is not None and not is_last:
            await self._farewell.say(self._receiver.broker_epoch)
        if self.network is not None:
            self.network.stop_accepting()
        await self._chores.stop()
        if self.housekeeping is not None:
            await self.housekeeping.finish()
        for coordinator in (self.groups, self.transactions):
            coordinator.close()
        await self._receiver.finish()
        self.partitions.close()
        await asyncio.sleep(0)
        if self.network is not None:
            await self.network.stop(DRAIN_MS)
        self.waiting.close()
        self._channel.close()
        broker_epoch = -1
        if self._lifecycle is not None:
            broker_epoch = self._lifecycle.broker_epoch
            await self._lifecycle.leave()
        await self.tasks.stop()
        if self._logs is not None:
            if broker_epoch == -1 and self._logs.clean_broker_epoch is not None:
                # It came no further than a busy port: the clean stop before is still the last.
                broker_epoch = self._logs.clean_broker_epoch
            await self._logs.close(broker_epoch)
        if self._opened_store is not None:
            await self._opened_store.close()
        self.monitoring.close()
