"""A cluster of real brokers for tests: in this process, or each in a process of its own.

It runs in a thread with its own event loop, so that blocking and asyncio clients can be used in the
test's thread. ``faults`` injects failures.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from typing import TYPE_CHECKING, Self, TypeVar

from ottla.broker.server.stores import FIRST_BROKER_ID
from ottla.broker.system.memory_disk import MemoryDisk
from ottla.broker.system.real_disk import RealDisk, RealOffload
from ottla.broker.testing import connecting
from ottla.broker.testing.access import Access
from ottla.broker.testing.cluster_node import CLIENTS, NodePlan
from ottla.broker.testing.fault_switches import FaultSwitches
from ottla.broker.testing.faults import Faults
from ottla.broker.testing.handles import BrokerHandle, Brokers, Injected
from ottla.broker.testing.local_node import LocalNode
from ottla.broker.testing.log_tail import LogTail
from ottla.broker.testing.members import ClusterError, Members
from ottla.broker.testing.questions import leader_of, wait_for_topic
from ottla.client.process.loop_thread import LoopThread

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping, Sequence
    from types import ModuleType, TracebackType

    from ottla.broker.testing.cluster_node import ClusterNode, Notices
    from ottla.broker.testing.members import ProcessState
    from ottla.broker.testing.remote_node import RemoteNode
    from ottla.broker.testing.security import ClusterSecurity
    from ottla.client.administration.acl import Acl
    from ottla.coordinator.store.store import Store
    from ottla.protocol.acls import AclRule
    from ottla.protocol.ports import Disk, Offload

Result = TypeVar("Result")

REPLICAS_MAX = 3
# Differences from Kafka's defaults: shorter waits, and fewer partitions of internal topics.
SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
}
# Settings that the cluster sets for every broker.
OWN_SETTINGS = frozenset(
    {
        "advertised.listeners",
        "broker.id",
        "inter.broker.listener.name",
        "listener.security.protocol.map",
        "listeners",
        "log.dir",
        "log.dirs",
        "node.id",
        "zookeeper.connect",
    }
)
TEMPORARY = "temporary"


class Cluster:
    """A cluster of real brokers for tests, in threads or processes.

    Calls block for some milliseconds, in coroutines too.

    Args:
        brokers: How many brokers (default 1).
        data_dir: None (default) keeps all data in memory, ``"temporary"`` in a directory that is
            deleted with the cluster, any other value in that directory.
        settings: Settings of all brokers by Kafka's names; none by default.
        subprocess: Whether each broker runs in its own process; False by default.
        security: None (default) for plaintext; ``"ssl"`` for listeners that encrypt, with
            certificates of the cluster's own; ``"mtls"`` if clients show certificates, too;
            ``"sasl_ssl"`` and ``"sasl_plaintext"`` if clients log in with SCRAM. The user
            ``admin`` is always there and may do everything.
        users: The passwords of the other users, by their names; none by default.
        acls: What the users may do, as ``ottla.Acl`` or ``AclRule``: everything else is refused.
            None (default) lets each user do everything.

    Raises:
        ClusterError: A cluster like this cannot be started.

    Example:
        with ottla.Cluster(brokers=3) as cluster:
            cluster.create_topic("orders", partitions=6)
            client = SomeClient(cluster.bootstrap_servers)
    """

    def __init__(
        self,
        brokers: int = 1,
        *,
        data_dir: str | os.PathLike[str] | None = None,
        settings: Mapping[str, object] | None = None,
        subprocess: bool = False,
        security: str | None = None,
        users: Mapping[str, str] | None = None,
        acls: Sequence[Acl | AclRule] | None = None,
    ) -> None:
        """Check the arguments; ``start`` starts the brokers."""
        if type(brokers) is not int or brokers < 1:
            raise ClusterError("a cluster has at least one broker")
        if data_dir is not None and not os.fspath(data_dir):
            raise ClusterError("data_dir names no directory; None keeps everything in memory")
        own = {name: _text(value) for name, value in (settings or {}).items()}
        for name in sorted(OWN_SETTINGS & own.keys()):
            raise ClusterError(f"{name} is set by the cluster itself: leave it out")
        self._rules = connecting.checked_rules(security, users or {}, acls)
        if subprocess and sys.platform == "win32":
            raise ClusterError("brokers in processes of their own need signals: not on Windows")
        self._count = brokers
        self._replicas = min(REPLICAS_MAX, brokers)
        self.settings = {**SETTINGS, "default.replication.factor": str(self._replicas), **own}
        self._data_dir = TEMPORARY if subprocess and data_dir is None else data_dir
        self._is_subprocess = subprocess
        self._users = dict(users or {})
        self._security_kind = security
        self._security: ClusterSecurity | None = None
        self._temporary: str | None = None
        self._thread: LoopThread | None = None
        self._members: Members | None = None
        self._faults: Faults | None = None
        self._offload: RealOffload | None = None
        self._log = LogTail()
        self._begun_s = 0.0
        self.injected: list[Injected] = []
        numbers = range(FIRST_BROKER_ID, FIRST_BROKER_ID + brokers)
        self.brokers = Brokers({number: BrokerHandle(self, number) for number in numbers})

    # ---- life ----

    def start(self) -> Self:
        """Start all brokers; return when every broker serves requests.

        Raises:
            ClusterError: The cluster runs already, or its directory is in use.
            CannotStart: A broker could not start.
        """
        self._begin()
        try:
            self._wait_for(self._start)
        except BaseException:
            self._finish()
            raise
        return self

    def stop(self) -> None:
        """Stop all brokers and remove all threads, tasks, sockets and temporary files."""
        if self._thread is not None:
            try:
                self._wait_for(self._stop)
            finally:
                self._finish()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._explain(error)
        self.stop()

    async def __aenter__(self) -> Self:
        thread = self._begin()
        try:
            await asyncio.wrap_future(thread.submit(self._start()))
        except BaseException:
            self._finish()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._explain(error)
        if self._thread is not None:
            try:
                await asyncio.wrap_future(self._thread.submit(self._stop()))
            finally:
                self._finish()

    # ---- use ----

    @property
    def bootstrap_servers(self) -> str:
        """The addresses of all brokers, dead ones included, as clients take them."""
        return ",".join(self.address_of(broker_id) for broker_id in self.brokers)

    def client_settings(self, library: str = "ottla", user: str | None = None) -> dict[str, object]:
        """Return the addresses and what a client needs to connect to them.

        Args:
            library: Whose names: ``"ottla"`` (default) and ``"java"`` for Kafka's own,
                ``"confluent"`` or ``"librdkafka"`` for librdkafka's, ``"kafka-python"`` and
                ``"aiokafka"`` for keyword arguments, ``"kafkajs"`` for its constructor,
                ``"franz-go"`` and ``"sarama"`` for a program that reads them as JSON.
            user: Who logs in, where clients have to; None (default) for ``admin``, who may do
                everything.

        Raises:
            ClusterError: There is no such library or user, or the cluster does not run.
        """
        return connecting.client_settings(self._security, library, self.bootstrap_servers, user)

    @property
    def faults(self) -> Faults:
        """The faults that can be injected. Raises ClusterError before the start."""
        self._running()
        assert self._faults is not None
        return self._faults

    @property
    def data_dir(self) -> str | None:
        """The directory of the brokers' data; None if it is in memory."""
        return self._temporary if self._data_dir == TEMPORARY else _path(self._data_dir)

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        *,
        replication_factor: int | None = None,
        configs: Mapping[str, object] | None = None,
    ) -> None:
        """Create a topic; return when every running broker knows the leaders of its partitions.

        Args:
            name: The topic's name.
            partitions: How many partitions (default 1).
            replication_factor: How many replicas; None (default) for three, or for the number of
                brokers if there are fewer.
            configs: Topic settings by Kafka's names; none by default.

        Raises:
            RequestRefused: The controller refused.
        """
        self._call(
            lambda: _topics().create_topic(
                *self._inner_client(),
                name,
                (partitions, replication_factor or self._replicas),
                {key: _text(value) for key, value in (configs or {}).items()},
            )
        )
        self._call(lambda: wait_for_topic(self._running(), name, partitions))

    def leader(self, topic: str, partition: int = 0) -> int:
        """Return the leader of a partition. Waits until the running brokers agree on a live one.

        Args:
            topic: The topic's name.
            partition: The partition's number (default 0).

        Returns:
            The leader's id; -1 if the partition has none.

        Raises:
            ClusterError: The brokers did not agree in time.
        """
        return self._call(lambda: leader_of(self._running(), topic, partition))

    def log_lines(self, count: int = 20) -> list[str]:
        """Return the last log lines of the brokers, as the level of the logger ``ottla`` allows.

        Args:
            count: How many lines at most (default 20).
        """
        return list(self._log.lines)[-count:]

    def report(self, log_lines: int = 20) -> str:
        """Describe the injected faults and the last log lines, for a failed test.

        Args:
            log_lines: How many log lines at most (default 20).
        """
        where = "that is not running" if self._members is None else f"at {self.bootstrap_servers}"
        lines = [f"cluster of {self._count} {where}"]
        lines += [str(one) for one in self.injected] or ["nothing was injected"]
        logged = self.log_lines(log_lines)
        return "\n".join([*lines, "last log lines:", *logged] if logged else lines)

    def address_of(self, broker_id: int) -> str:
        """Return a broker's ``host:port`` for clients.

        Args:
            broker_id: The broker's id, from 1.

        Raises:
            ClusterError: There is no such broker, or the cluster does not run.
        """
        return str(self._running().member(broker_id).addresses[CLIENTS])

    def state_of(self, broker_id: int) -> ProcessState:
        """Return whether a broker runs, is paused, or is dead.

        Args:
            broker_id: The broker's id, from 1.

        Raises:
            ClusterError: There is no such broker, or the cluster does not run.
        """
        return self._running().member(broker_id).state

    # ---- inside ----

    def _explain(self, error: BaseException | None) -> None:
        """Add the injected faults to the error of a failed test."""
        if error is not None and self.injected and self._members is not None:
            error.add_note(self.report())

    def _inner_client(self) -> tuple[str, dict[str, object]]:
        return connecting.inner_client(self._security, self._running())

    def _running(self) -> Members:
        if self._members is None:
            raise ClusterError("the cluster is not running: start it, or use it under with")
        return self._members

    def _call(self, work: Callable[[], Coroutine[object, object, Result]]) -> Result:
        self._running()
        return self._wait_for(work)

    def _wait_for(self, work: Callable[[], Coroutine[object, object, Result]]) -> Result:
        assert self._thread is not None
        if not self._thread.is_alive:
            raise RuntimeError(
                "the cluster belongs to the process that started it: a child made by a fork "
                "can use "
                "its bootstrap_servers, and nothing else of it"
            )
        return self._thread.call(work)

    def _do(self, what: str, work: Callable[[], Coroutine[object, object, None]]) -> None:
        noted = self._note(what)
        try:
            self._call(work)
        except ClusterError:
            self.injected.remove(noted)
            raise

    def _note(self, what: str) -> Injected:
        """Record a fault before it is injected, so that its effects come after it."""
        noted = Injected((time.monotonic() - self._begun_s) * 1000, what)
        self.injected.append(noted)
        return noted

    def _begin(self) -> LoopThread:
        if self._thread is not None:
            raise ClusterError("the cluster is running already")
        self._begun_s = time.monotonic()
        self.injected.clear()
        self._thread = LoopThread("ottla cluster", asyncio.SelectorEventLoop())
        self._log.attach(self._thread.thread_id)
        return self._thread

    async def _start(self) -> None:
        self._offload = RealOffload()
        if self._security_kind is not None:
            self._security = connecting.load_security().ClusterSecurity(
                self._security_kind, self._users, self.brokers, has_rules=self._rules is not None
            )
        if self._data_dir == TEMPORARY:
            self._temporary = _temporary().make_directory()
        directory = self.data_dir
        make_disk: Callable[[Offload], Disk] = RealDisk
        if directory is None:
            directory, make_disk = "/data", _same(MemoryDisk())
        security = self._security
        plans = connecting.node_plans(self.brokers, self.settings, directory, security)

        def make_node(plan: NodePlan, store: Store, notices: Notices) -> ClusterNode:
            if self._is_subprocess:
                return _load_remote_node()(plan, store, notices, self._log.lines.append)
            return LocalNode(plan, make_disk, store, notices)

        members = Members(plans, make_node, self._note)
        try:
            first_users = security.first_users() if security is not None else ()
            await members.start(make_disk(self._offload), directory, first_users)
        except BlockingIOError:
            raise ClusterError(f"{directory} is in use by another cluster") from None
        if self._count > 1:
            members.before_loss = lambda: _topics().make_internal_topics(*self._inner_client())
        self._members = members
        access = Access(
            members,
            security,
            lambda: _topics().open_admin(*self._inner_client()),
            self._rules or (),
        )
        try:
            await access.add_rules(self._rules or ())
        except BaseException:
            await members.stop()
            raise
        self._faults = Faults(members, FaultSwitches(members), access, self._do)

    async def _stop(self) -> None:
        if self._members is not None:
            await self._members.stop()

    def _finish(self) -> None:
        thread, self._thread = self._thread, None
        offload, self._offload = self._offload, None
        self._members = self._faults = None
        if thread is not None:
            thread.stop()
        if offload is not None:
            offload.close()
        self._log.detach()
        if self._security is not None:
            self._security.remove()
            self._security = None
        if self._temporary is not None:
            _temporary().remove_directory(self._temporary)
            self._temporary = None


def _topics() -> ModuleType:
    """Import topic creation on first use: it loads a third of the client."""
    from ottla.broker.testing import topics

    return topics


def _temporary() -> ModuleType:
    """Import temporary directories on first use, for clusters with data on a disk."""
    from ottla.broker.system import temporary

    return temporary


def _load_remote_node() -> type[RemoteNode]:
    """Called by clusters whose brokers are processes."""
    from ottla.broker.testing.remote_node import RemoteNode

    return RemoteNode


def _same(disk: Disk) -> Callable[[Offload], Disk]:
    return lambda _offload: disk


def _path(path: str | os.PathLike[str] | None) -> str | None:
    return None if path is None else os.path.abspath(path)


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
