"""A whole cluster in one process, for development: several brokers on one embedded store.

They are brokers like any other: each has its own sockets, data directory, session and generation,
and they speak to each other over the wire. Only the machine is one.
"""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING

from ottla.broker.engine.tasks import Tasks
from ottla.broker.log.storage.names import META_PROPERTIES
from ottla.broker.server.broker import READY_TIMEOUT_MS, Broker
from ottla.broker.server.log_names import as_broker
from ottla.broker.server.stores import FIRST_BROKER_ID, CannotStart, OpenedStore, open_embedded
from ottla.coordinator.configs.broker_configs import for_embedded_store, parse_broker_config

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ottla.broker.server.first_users import FirstUser
    from ottla.coordinator.configs.broker_configs import BrokerConfig
    from ottla.protocol.ports import Address, Disk, Ports

_PORT = re.compile(r":(\d+)(?=\s*(?:,|$))")


# Settings with one address.
_ADDRESSES = ("ottla.metrics.listener", "ottla.listener.07")


def settings_of(settings: Mapping[str, str], node_id: int) -> dict[str, str]:
    """The settings of one of the brokers: ports count up from those given, 0 stays a free one;
    the data is in a directory named after the broker."""
    own = dict(settings)
    own.pop("node.id", None)
    own["broker.id"] = str(node_id)
    for name in ("listeners", "advertised.listeners", *_ADDRESSES):
        if name in own:
            own[name] = _PORT.sub(lambda found: _shifted(found, node_id), own[name])
    directories = own.pop("log.dir", "") if "log.dirs" not in own else own["log.dirs"]
    own["log.dirs"] = ",".join(f"{path.strip()}/{node_id}" for path in directories.split(","))
    return own


def _shifted(found: re.Match[str], node_id: int) -> str:
    port = int(found.group(1))
    return f":{port + node_id - FIRST_BROKER_ID if port else 0}"


def check_directory(disk: Disk, directory: str, count: int, option: str) -> None:
    """What was written by one broker, or by more of them, is not what these could serve.

    Raises CannotStart."""
    if disk.exists(f"{directory}/{META_PROPERTIES}"):
        raise CannotStart(
            f"{directory} holds the data of a single broker. Start it without {option}, or choose "
            "another directory for the cluster with --data-dir."
        )
    if disk.exists(f"{directory}/{FIRST_BROKER_ID + count}/{META_PROPERTIES}"):
        raise CannotStart(
            f"{directory} holds the data of more than {count} brokers. Start as many as "
            f"before with {option}, or choose another directory with --data-dir."
        )


class BrokersInProcess:
    """Made once, started once, stopped once, like a single broker. Raises ConfigError."""

    def __init__(self, ports: Ports, settings: Mapping[str, str], count: int) -> None:
        assert count > 0
        self._ports = ports
        self._directory = parent_directory(settings)
        self._configs: list[BrokerConfig] = [
            for_embedded_store(parse_broker_config(settings_of(settings, node_id)).config, count)
            for node_id in range(FIRST_BROKER_ID, FIRST_BROKER_ID + count)
        ]
        self._tasks = Tasks(self._on_crash)
        self._on_failure: list[Callable[[], object]] = []
        self._store: OpenedStore | None = None
        self._has_failed = False
        self.brokers: list[Broker] = []
        # As of a single broker.
        self.first_users: Sequence[FirstUser] = ()

    @property
    def address(self) -> Address:
        """Where the first broker is."""
        return self.brokers[0].address

    @property
    def has_failed(self) -> bool:
        return self._has_failed or any(broker.has_failed for broker in self.brokers)

    def on_failure(self, callback: Callable[[], object]) -> None:
        """Call back when a broker cannot go on and all should be stopped."""
        self._on_failure.append(callback)

    async def start(self) -> None:
        """Return when every broker serves and lists all of them. Raises CannotStart; nothing is
        left behind then."""
        try:
            await self._start()
        except BaseException:
            await self.stop()
            raise

    async def _start(self) -> None:
        check_directory(self._ports.disk, self._directory, len(self._configs), "--brokers")
        store = await open_embedded(
            self._ports, self._tasks, self._directory, lambda _error: self._fail()
        )
        self._store = store
        for config in self._configs:
            broker = Broker(self._ports, config, store)
            broker.on_failure(self._fail)
            broker.first_users = self.first_users
            self.brokers.append(broker)
        outcomes = await asyncio.gather(
            *(as_broker(broker.node_id, broker.start()) for broker in self.brokers),
            return_exceptions=True,
        )
        for outcome in outcomes:
            if isinstance(outcome, BaseException):
                raise outcome
        wanted = {broker.node_id for broker in self.brokers}
        for broker in self.brokers:
            if not await broker.metadata.wait_for(
                lambda image: wanted <= image.brokers.keys(), READY_TIMEOUT_MS
            ):
                raise CannotStart("the brokers have not found each other within a minute")

    async def stop(self) -> None:
        """Stop all brokers, then what they share. May be called again."""
        brokers, self.brokers = self.brokers, []
        await asyncio.gather(
            *(as_broker(broker.node_id, broker.stop(is_last=True)) for broker in brokers)
        )
        if self._store is not None:
            await self._store.close()
        await self._tasks.stop()

    def _on_crash(self, _name: str, _error: BaseException) -> None:
        self._fail()

    def _fail(self) -> None:
        self._has_failed = True
        for callback in self._on_failure:
            callback()


def parent_directory(settings: Mapping[str, str]) -> str:
    """Where the shared store is: beside the brokers' own directories."""
    first = (settings.get("log.dirs") or settings["log.dir"]).split(",")[0]
    return first.strip().rstrip("/")
