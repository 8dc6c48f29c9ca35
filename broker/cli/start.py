"""``ottla start``: run a broker until SIGTERM or SIGINT.

Standard output carries one line, when the broker serves, and nothing else ever; everything for
people goes to standard error. Exit status: 0 after a stop that was asked for, 1 when the broker
could not start or had to give up, 2 for a command line that cannot be understood.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import sys
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from ottla.broker.real import RealDisk, RealOffload, RealProcess
from ottla.broker.real_worker import RealWorker
from ottla.broker.server import Broker, CannotStart
from ottla.broker.testing.memory_disk import MemoryDisk
from ottla.client.cli.arguments import Parser, checked, port
from ottla.client.real import RealClock, RealNet, RealRandom
from ottla.coordinator.metadata.broker_configs import (
    BrokerConfig,
    ConfigError,
    parse_broker_config,
    parse_properties,
    settings_from_environment,
)
from ottla.protocol.ports import Ports

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence

logger = logging.getLogger("ottla")

DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 9092
DEFAULT_DATA_DIR = "ottla-data"


def parser() -> Parser:
    """The command line, as ``ottla start --help`` shows it."""
    made = Parser(prog="ottla start", description="Run a broker.", allow_abbrev=False)
    made.add_argument("--host", help=f"address to listen on (default {DEFAULT_HOST})")
    made.add_argument(
        "--port",
        type=checked(port),
        help=f"port to listen on, 0 for a free one (default {DEFAULT_PORT})",
    )
    made.add_argument(
        "--data-dir",
        metavar="DIR",
        help=f"where the logs live, created if missing (default ./{DEFAULT_DATA_DIR})",
    )
    made.add_argument("--config", metavar="FILE", help="a server.properties file")
    made.add_argument(
        "-o",
        dest="settings",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="a setting by Kafka's name; the last one of a name wins",
    )
    made.add_argument("--memory", action="store_true", help="keep everything in memory")
    made.add_argument("-v", "--verbose", action="store_true", help="log more")
    return made


def gather_settings(arguments: argparse.Namespace) -> dict[str, str]:
    """All settings by name: the file, then the environment, then the command line.

    Raises ConfigError with one sentence for a person."""
    settings: dict[str, str] = {}
    if arguments.config is not None:
        try:
            text = Path(arguments.config).read_text("utf-8")
        except OSError as error:
            raise ConfigError(f"cannot read {arguments.config}: {error.strerror}") from None
        except UnicodeDecodeError:
            raise ConfigError(f"cannot read {arguments.config}: it is not UTF-8 text") from None
        settings.update(parse_properties(text))
    settings.update(settings_from_environment(os.environ))
    for item in arguments.settings:
        key, separator, value = item.partition("=")
        if not separator:
            raise ConfigError(f"-o wants KEY=VALUE, not {item!r}")
        settings[key.strip()] = value
    if arguments.host is not None or arguments.port is not None or "listeners" not in settings:
        host = arguments.host if arguments.host is not None else DEFAULT_HOST
        number = arguments.port if arguments.port is not None else DEFAULT_PORT
        settings["listeners"] = f"PLAINTEXT://{host}:{number}"
    if arguments.data_dir is not None or not {"log.dirs", "log.dir"} & settings.keys():
        data_dir = arguments.data_dir or DEFAULT_DATA_DIR
        settings.pop("log.dir", None)
        settings["log.dirs"] = data_dir
    return settings


def load_config(arguments: argparse.Namespace) -> BrokerConfig:
    """The broker's configuration; warnings are logged, errors raise ConfigError."""
    parsed = parse_broker_config(gather_settings(arguments))
    for warning in parsed.warnings:
        logger.warning("%s", warning)
    return parsed.config


def real_ports(*, memory: bool) -> Ports:
    """The machine that this process runs on, with or without its disk."""
    offload = RealOffload()
    return Ports(
        clock=RealClock(),
        random=RealRandom(),
        net=RealNet(),
        disk=MemoryDisk() if memory else RealDisk(offload),
        offload=offload,
        process=RealProcess(),
        worker=None if memory else RealWorker(),
    )


async def serve(ports: Ports, config: BrokerConfig) -> int:
    """Start, say so, wait for the end, stop. Returns the exit status."""
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
    broker = Broker(ports, config)
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
        sys.stdout.write(f"ottla: ready at {broker.address}\n")
        sys.stdout.flush()
        await stopped.wait()
    await broker.stop()
    return 1 if broker.has_failed else 0


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop]:
    """uvloop where it is installed, asyncio's own selector loop elsewhere."""
    if find_spec("uvloop") is None:
        return asyncio.SelectorEventLoop
    factory: Callable[[], asyncio.AbstractEventLoop] = import_module("uvloop").new_event_loop
    return factory


def main(argv: Sequence[str]) -> int:
    """Run the command; never a traceback for what a person can mend."""
    arguments = parser().parse_args(argv)
    logging.basicConfig(
        stream=sys.stderr,
        level=logging.DEBUG if arguments.verbose else logging.INFO,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
    )
    try:
        config = load_config(arguments)
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            return runner.run(serve(real_ports(memory=arguments.memory), config))
    except (ConfigError, CannotStart) as error:
        sys.stderr.write(f"ottla: {error}\n")
        return 1
    except KeyboardInterrupt:
        return 0
