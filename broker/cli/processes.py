"""``ottla start --processes N``: one command, one log and one stop for several broker processes."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import sys
from typing import TYPE_CHECKING

from ottla.broker.cli import secure
from ottla.broker.cli.console_process import check_console, run_console
from ottla.broker.cli.serving import (
    METRICS_LISTENER,
    announce,
    first_user_of,
    gather_settings,
    in_options,
    logger,
    loop_factory,
    real_ports,
)
from ottla.broker.engine.tasks import Tasks
from ottla.broker.processes.pages import SupervisorPages
from ottla.broker.processes.plan import ChildPlan, first_id, settings_of_process, users_as_parts
from ottla.broker.processes.supervisor import Supervisor
from ottla.broker.server.broker import CannotStart
from ottla.broker.server.in_process import check_directory, parent_directory
from ottla.broker.server.listening import metrics_address
from ottla.broker.system.supervision import FIRST, REAP_INTERVAL_S, reap
from ottla.coordinator.configs.broker_configs import ConfigError, parse_broker_config
from ottla.protocol.errors import CorruptLogError

if TYPE_CHECKING:
    import argparse

    from ottla.broker.server.first_users import FirstUser
    from ottla.protocol.ports import Address, Ports

OPTION = "--processes"
# More of them share the processors without any gain, and each takes memory.
PROCESSES_PER_PROCESSOR = 4


class MachineSettings:
    """The settings of all brokers of this machine, read again for each rolling restart."""

    def __init__(self, arguments: argparse.Namespace) -> None:
        self._arguments = arguments
        self.settings: dict[str, str] = {}
        self.users: list[FirstUser] = []
        self.store_path = ""
        self.read()

    def read(self) -> None:
        """Take the settings up. Raises ConfigError; the ones before stay then."""
        arguments = self._arguments
        settings = gather_settings(arguments)
        users = [first_user_of(text) for text in arguments.add_scram]
        if arguments.secure:
            settings, files = secure.make_secure(settings)
            users += secure.first_users(files)
        for place in range(1, arguments.processes + 1):
            parsed = parse_broker_config(self._own(settings, place))
            if place == 1:
                for warning in parsed.warnings:
                    logger.warning("%s", warning)
                secure.warn_of_surroundings(arguments)
                if parsed.config.sasl:
                    secure.close_files(settings)
        if self.settings and _lasting(settings) != _lasting(self.settings):
            raise ConfigError(
                "broker.id, log.dirs and zookeeper.connect stay as they are while the brokers run: "
                "stop them, and start them with the new values"
            )
        self.settings, self.users = settings, users

    @property
    def has_zookeeper(self) -> bool:
        """Whether the brokers meet there, and not in an embedded store."""
        return bool(self.settings.get("zookeeper.connect"))

    def _own(self, settings: dict[str, str], place: int) -> dict[str, str]:
        return settings_of_process(settings, place, self._arguments.processes, socket.gethostname())

    def plan(self, place: int) -> ChildPlan:
        """Of the broker in that place, counted from 1."""
        arguments = self._arguments
        return ChildPlan(
            node_id=first_id(self.settings) + place - 1,
            settings=self._own(self.settings, place),
            store_path=self.store_path,
            brokers=0 if self.has_zookeeper else arguments.processes,
            has_metrics=METRICS_LISTENER in self.settings,
            is_verbose=arguments.verbose,
            log_format=arguments.log_format,
            users=users_as_parts(self.users),
        )


def _lasting(settings: dict[str, str]) -> tuple[object, ...]:
    """Which brokers these are, where their data is, and where they meet."""
    directories = settings.get("log.dirs") or settings["log.dir"]
    return first_id(settings), directories, settings.get("zookeeper.connect")


def check_options(arguments: argparse.Namespace) -> None:
    """Refuse what does not go together. Raises ConfigError."""
    if sys.platform == "win32":
        raise ConfigError(f"{OPTION} needs Unix sockets: start one broker per core by hand")
    if arguments.brokers is not None:
        raise ConfigError(f"--brokers runs brokers in one process: leave it or {OPTION} out")
    if arguments.memory:
        raise ConfigError(f"--memory keeps everything in one process: leave it or {OPTION} out")
    processors = os.cpu_count() or 1
    most = PROCESSES_PER_PROCESSOR * processors
    if arguments.processes > most and not arguments.many_processes:
        raise ConfigError(
            f"{OPTION} {arguments.processes} is more than {PROCESSES_PER_PROCESSOR} for each of "
            f"this machine's {processors} processors: start at most {most}, or add "
            "--many-processes"
        )


def run_processes(arguments: argparse.Namespace) -> int:
    """Run the command; never a traceback for what a person can mend."""
    try:
        check_options(arguments)
        settings = MachineSettings(arguments)
        if arguments.console is not None:
            check_console(settings.settings, arguments.secure)
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            return runner.run(_supervise(arguments, settings))
    except (ConfigError, CannotStart, CorruptLogError) as error:
        sys.stderr.write(f"ottla: {in_options(arguments, str(error))}\n")
        return 1
    except KeyboardInterrupt:
        return 0


async def _supervise(arguments: argparse.Namespace, settings: MachineSettings) -> int:
    ports = real_ports(memory=False)
    tasks = Tasks()
    supervisor = Supervisor(ports, arguments.processes, settings.plan)
    _check_directories(ports, settings, arguments.processes)
    pages = SupervisorPages(ports, tasks, supervisor)
    with contextlib.ExitStack() as stack:
        _listen_to_signals(supervisor, settings)
        address = metrics_address(parse_broker_config(settings.settings).config)
        if address is not None:
            pages.listen(address)
            stack.callback(pages.close)
        if not settings.has_zookeeper:
            directory = parent_directory(settings.settings)
            settings.store_path = await supervisor.open_store(directory)
        if os.getpid() == FIRST:
            tasks.spawn("reaper", _reap(supervisor))

        def on_serving(addresses: list[Address]) -> None:
            announce(arguments, stack, lambda: run_console, addresses[0], addresses[1:])

        def on_refused(node_id: int, reason: str) -> None:
            sys.stderr.write(f"ottla: broker {node_id}: {in_options(arguments, reason)}\n")

        supervisor.on_serving, supervisor.on_refused = on_serving, on_refused
        try:
            return await supervisor.run()
        finally:
            await tasks.stop()


def _check_directories(ports: Ports, settings: MachineSettings, count: int) -> None:
    """Raises CannotStart."""
    named = settings.settings.get("log.dirs") or settings.settings["log.dir"]
    for directory in named.split(","):
        check_directory(ports.disk, directory.strip().rstrip("/"), count, OPTION)


def _listen_to_signals(supervisor: Supervisor, settings: MachineSettings) -> None:
    """SIGTERM and SIGINT stop, SIGHUP restarts one process after the other.

    SIGHUP is also what the end of a terminal sends: then all stop, as with any command."""
    loop = asyncio.get_running_loop()
    had_terminal = _has_terminal()

    def restart() -> None:
        if had_terminal and not _has_terminal():
            supervisor.stop()
            return
        try:
            settings.read()
        except ConfigError as error:
            logger.error("no rolling restart: %s", error)
            return
        supervisor.restart()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, supervisor.stop)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        loop.add_signal_handler(signal.SIGHUP, restart)


def _has_terminal() -> bool:
    try:
        os.close(os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY))
    except OSError:
        return False
    return True


async def _reap(supervisor: Supervisor) -> None:
    """The first process of a container takes the exit statuses of orphans; those of its own
    processes are taken first by who has started them."""
    while True:
        await asyncio.sleep(REAP_INTERVAL_S)
        supervisor.look()
        reap()
