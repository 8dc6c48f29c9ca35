"""``ottla start``: run a broker until SIGTERM or SIGINT.

Standard output carries one line, when the broker serves, and nothing else ever; everything for
people goes to standard error. Exit status: 0 after a stop that was asked for, 1 when the broker
could not start or had to give up, 2 for a command line that cannot be understood.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sys
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING

from ottla.broker.cli import secure
from ottla.broker.cli.json_lines import JsonLines
from ottla.broker.cli.optional_parts import console_check, console_run, processes_run
from ottla.broker.cli.serving import (
    Server,
    announce,
    first_user_of,
    gather_settings,
    in_options,
    logger,
    loop_factory,
    real_ports,
    serve,
)
from ottla.broker.server.broker import Broker, CannotStart
from ottla.broker.server.in_process import BrokersInProcess
from ottla.broker.server.log_names import LOG_FORMAT, BrokerNames
from ottla.broker.system.file_limits import raise_descriptor_limit
from ottla.broker.system.supervision import serve_as_first
from ottla.coordinator.configs.broker_configs import (
    ConfigError,
    parse_broker_config,
)

if TYPE_CHECKING:
    import argparse

    from ottla.protocol.ports import Ports


def make_server(arguments: argparse.Namespace, ports: Ports) -> Server:
    """The broker or brokers to run; warnings are logged, errors raise ConfigError."""
    settings = gather_settings(arguments)
    if arguments.console is not None:
        console_check()(settings, arguments.secure)
    users = [first_user_of(text) for text in arguments.add_scram]
    if arguments.secure:
        settings, files = secure.make_secure(settings)
        users += secure.first_users(files)
    parsed = parse_broker_config(settings)
    for warning in parsed.warnings:
        logger.warning("%s", warning)
    secure.warn_of_surroundings(arguments)
    if parsed.config.sasl and not arguments.memory:
        secure.close_files(settings)
    server: Broker | BrokersInProcess = (
        Broker(ports, parsed.config)
        if arguments.brokers is None
        else BrokersInProcess(ports, settings, arguments.brokers)
    )
    server.first_users = users
    return server


def main(arguments: argparse.Namespace) -> int:
    """Run the command; never a traceback for what a person can mend."""
    handler = logging.StreamHandler(sys.stderr)
    handler.addFilter(BrokerNames())
    logging.basicConfig(
        handlers=[handler],
        level=logging.DEBUG if arguments.verbose else logging.INFO,
        format=LOG_FORMAT,
    )
    if arguments.log_format == "json":
        handler.setFormatter(JsonLines())
    if not arguments.verbose:
        # It tells of every attempt; the store says what comes of them.
        logging.getLogger("ottla.store.kazoo").setLevel(logging.ERROR)
    raise_descriptor_limit()
    serve_as_first(os.getpid(), reaps=arguments.processes == 1)
    if arguments.processes > 1:
        return processes_run()(arguments)
    if arguments.memory and arguments.secure and arguments.data_dir is None:
        # Clients read the certificate and a password from files, which go with the broker.
        with import_module("tempfile").TemporaryDirectory(prefix="ottla-secure-") as directory:
            arguments.data_dir = directory
            return _run(arguments)
    return _run(arguments)


def _run(arguments: argparse.Namespace) -> int:
    try:
        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            ports = real_ports(memory=arguments.memory)
            with contextlib.ExitStack() as stack:
                on_ready = partial(announce, arguments, stack, console_run)
                return runner.run(serve(ports, partial(make_server, arguments), on_ready))
    except (ConfigError, CannotStart) as error:
        sys.stderr.write(f"ottla: {in_options(arguments, str(error))}\n")
        return 1
    except KeyboardInterrupt:
        return 0
