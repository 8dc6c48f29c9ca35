"""What the ways to run brokers have in common: settings, ports, loop, announcements.

``start.py`` runs them in this process, ``processes.py`` each in a process of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Protocol

from ottla.broker.cli import secure
from ottla.broker.cli.parsers import (
    DEFAULT_CLUSTER_DIR,
    DEFAULT_DATA_DIR,
    DEFAULT_HOST,
    DEFAULT_PORT,
)
from ottla.broker.cli.wording import reworded
from ottla.broker.cli.written import written_settings
from ottla.broker.network.reactor import make_poller
from ottla.broker.server.first_users import FirstUser, parse_first_user
from ottla.broker.system.memory_disk import MemoryDisk
from ottla.broker.system.real_disk import RealDisk, RealOffload, RealProcess
from ottla.broker.system.supervision import tell_systemd
from ottla.broker.system.worker_process import RealWorker
from ottla.client.cli.arguments import PORT_MAX
from ottla.coordinator.configs.broker_configs import (
    ConfigError,
)
from ottla.protocol.ports import Address, Ports
from ottla.wire.clock import RealClock
from ottla.wire.real import RealNet, RealRandom

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

logger = logging.getLogger("ottla")

METRICS_LISTENER = "ottla.metrics.listener"
LISTENER_07 = "ottla.listener.07"
OPEN_PROTOCOL = "PLAINTEXT"


# Runs the console for a broker of these settings, at this address, on this port.
RunConsole = Callable[
    [Mapping[str, str], Address, int, bool], contextlib.AbstractContextManager[None]
]


class Server(Protocol):
    """One broker, or several that are run as one."""

    @property
    def has_failed(self) -> bool: ...

    @property
    def address(self) -> Address: ...

    def on_failure(self, callback: Callable[[], object]) -> None: ...

    async def start(self) -> None: ...

    async def stop(self) -> None: ...


def gather_settings(arguments: argparse.Namespace) -> dict[str, str]:
    """All settings by name; options lie over what is written by name.

    Raises ConfigError with one sentence for a person."""
    settings = written_settings(arguments)
    if arguments.host is not None or arguments.port is not None or "listeners" not in settings:
        host = arguments.host if arguments.host is not None else DEFAULT_HOST
        number = arguments.port if arguments.port is not None else DEFAULT_PORT
        count = arguments.brokers or arguments.processes
        if number and number + count - 1 > PORT_MAX:
            raise ConfigError(f"--port {number} leaves no room for {count} brokers")
        protocol = secure.PROTOCOL if arguments.secure else OPEN_PROTOCOL
        _check_replaced(settings.get("listeners", ""), protocol)
        settings["listeners"] = f"{protocol}://{Address(host, number)}"
    if arguments.data_dir is not None or not {"log.dirs", "log.dir"} & settings.keys():
        is_cluster = arguments.brokers is not None or arguments.processes > 1
        default = DEFAULT_CLUSTER_DIR if is_cluster else DEFAULT_DATA_DIR
        if arguments.data_dir is not None and not arguments.data_dir.strip():
            raise ConfigError("--data-dir names no directory")
        data_dir = default if arguments.data_dir is None else arguments.data_dir
        settings.pop("log.dir", None)
        settings["log.dirs"] = data_dir
    if arguments.metrics is not None:
        host = arguments.host if arguments.host is not None else DEFAULT_HOST
        settings[METRICS_LISTENER] = str(Address(host, arguments.metrics))
    if arguments.listener_07 is not None:
        settings[LISTENER_07] = str(Address(DEFAULT_HOST, arguments.listener_07))
    _place(arguments, settings)
    return settings


def _check_replaced(listeners: str, protocol: str) -> None:
    """Raises ConfigError if an address by options would take the place of other protocols."""
    named = filter(None, map(str.strip, listeners.split(",")))
    if not all(one.startswith(f"{protocol}://") for one in named):
        raise ConfigError(
            f"the settings name {listeners} to listen on, and --host and --port would open one "
            f"{protocol} address instead: leave these two options out"
        )


def _place(arguments: argparse.Namespace, settings: dict[str, str]) -> None:
    """Which cluster, and who this broker is in it."""
    if arguments.zookeeper is not None:
        settings["zookeeper.connect"] = arguments.zookeeper
    if arguments.id is not None:
        settings.pop("node.id", None)
        settings["broker.id"] = str(arguments.id)
    has_id = bool({"broker.id", "node.id"} & settings.keys())
    if arguments.brokers is not None:
        if settings.get("zookeeper.connect"):
            raise ConfigError("--brokers runs a cluster of its own: leave --zookeeper out")
        if has_id:
            raise ConfigError("--brokers gives the ids 1 to N itself: leave --id out")
    elif settings.get("zookeeper.connect") and not has_id:
        raise ConfigError(
            "which broker of the cluster is this? Give every broker a number of its own with --id"
        )


def first_user_of(text: str) -> FirstUser:
    try:
        return parse_first_user(text)
    except ValueError as error:
        raise ConfigError(f"--add-scram: {error}") from None


def real_ports(*, memory: bool) -> Ports:
    """The machine that this process runs on, with or without its disk."""
    offload = RealOffload()
    return Ports(
        clock=RealClock(),
        random=RealRandom(),
        net=RealNet(make_poller),
        disk=MemoryDisk() if memory else RealDisk(offload, RealOffload(name="flush")),
        offload=offload,
        process=RealProcess(),
        worker=None if memory else RealWorker(),
    )


async def serve(
    ports: Ports, make: Callable[[Ports], Server], on_ready: Callable[[Address], object]
) -> int:
    """Start what is made, wait for the end, stop. Returns the exit status."""
    broker = make(ports)
    stopped = asyncio.Event()
    serving = asyncio.current_task()
    assert serving is not None
    is_starting = True

    def stop() -> None:
        stopped.set()
        if is_starting:
            # A recovery may take minutes; who asks for a stop need not wait for its end.
            serving.cancel()

    ports.process.on_stop(stop)
    broker.on_failure(stop)
    try:
        await broker.start()
    except asyncio.CancelledError:
        if not stopped.is_set():
            raise
        serving.uncancel()
    is_starting = False
    if not stopped.is_set():
        # What exists now lives as long as the process; the collector need not look at it again.
        gc.collect()
        gc.freeze()
        on_ready(broker.address)
        await stopped.wait()
    await broker.stop()
    return 1 if broker.has_failed else 0


def announce(
    arguments: argparse.Namespace,
    stack: contextlib.ExitStack,
    load_console: Callable[[], RunConsole],
    address: Address,
    others: Sequence[Address] = (),
) -> None:
    """Say that the broker serves, and others with it; before that, how clients log in. Starts the
    console, which the stack ends. Raises OSError."""
    if arguments.secure:
        _settings, files = secure.make_secure(gather_settings(arguments))
        sys.stderr.write(f"ottla: {secure.announce(files, address)}\n")
    sys.stdout.write(f"ottla: ready at {','.join(map(str, (address, *others)))}\n")
    sys.stdout.flush()
    if arguments.console is not None:
        run = load_console()(
            gather_settings(arguments), address, arguments.console, arguments.secure
        )
        stack.enter_context(run)
    tell_systemd("READY=1", os.environ)


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    """uvloop where it is installed, asyncio's own selector loop elsewhere."""
    if find_spec("uvloop") is None:
        return asyncio.SelectorEventLoop
    factory: Callable[[], asyncio.AbstractEventLoop] = import_module("uvloop").new_event_loop
    return factory


def in_options(arguments: argparse.Namespace, sentence: str) -> str:
    """The sentence with each setting called as this command line calls it."""
    try:
        written = written_settings(arguments).keys()
    except ConfigError:
        return sentence
    options = {
        "listeners": (arguments.host, arguments.port),
        "log.dirs": (arguments.data_dir,),
        "zookeeper.connect": (arguments.zookeeper,),
        "broker.id": (arguments.id,),
        METRICS_LISTENER: (arguments.metrics,),
        LISTENER_07: (arguments.listener_07,),
    }
    return reworded(
        sentence,
        [
            name
            for name, values in options.items()
            if name in written and all(value is None for value in values)
        ],
    )
