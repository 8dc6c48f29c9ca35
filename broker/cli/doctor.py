"""``ottla doctor``: what is wrong with this machine, a data directory and a cluster.

Every finding is one line that ends in what to do. Exit status 1 if something has to be done.
"""

from __future__ import annotations

import contextlib
import os
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from ottla.broker.cli.bundle import (
    cluster_documents,
    machine_document,
    metrics_document,
    redacted,
    write_bundle,
)
from ottla.broker.cli.check_disk import check_disk
from ottla.broker.cli.check_machine import check_machine
from ottla.broker.cli.check_network import check_cluster, check_port, check_zookeeper
from ottla.broker.cli.findings import as_document, as_text, has_problem, ok, problem, warning
from ottla.broker.cli.parsers import (
    DEFAULT_CLUSTER_DIR,
    DEFAULT_DATA_DIR,
    DEFAULT_HOST,
    DEFAULT_PORT,
)
from ottla.broker.cli.written import written_settings
from ottla.broker.processes.plan import settings_of_process
from ottla.client.cli.arguments import BOOTSTRAP_VARIABLE, DEFAULT_BOOTSTRAP
from ottla.client.cli.output import write
from ottla.client.cli.run import FAILED, CommandError, run
from ottla.coordinator.configs.broker_configs import ConfigError, parse_broker_config
from ottla.protocol.ports import Address

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Mapping, Sequence

    from ottla.broker.cli.findings import CheckFinding
    from ottla.coordinator.configs.broker_configs import BrokerConfig


def main(arguments: argparse.Namespace) -> int:
    """Run the command."""
    return run(perform, arguments)


async def perform(arguments: argparse.Namespace) -> int:
    """Look at everything, and tell."""
    findings = list(check_machine())
    config: BrokerConfig | None = None
    try:
        settings = doctor_settings(arguments)
        parsed = parse_broker_config(settings)
        config = parsed.config
        findings += check_settings(arguments, parsed.warnings)
    except ConfigError as error:
        findings.append(problem("settings", str(error), "fix it: no broker starts with it"))
    if config is not None:
        for directory in config.log_dirs:
            findings += check_disk(Path(directory))
        findings += check_ports(settings, config, arguments.processes)
    connect = arguments.zookeeper or (config.zookeeper_connect if config is not None else "")
    if connect:
        findings += [one async for one in check_zookeeper(connect)]
    if not arguments.local:
        is_expected = arguments.bootstrap != DEFAULT_BOOTSTRAP or BOOTSTRAP_VARIABLE in os.environ
        found = check_cluster(arguments.bootstrap, is_expected=is_expected)
        findings += [one async for one in found]
    if arguments.bundle is not None:
        await bundle(arguments, findings, config)
    write(as_document(findings) if arguments.format == "json" else as_text(findings))
    return FAILED if has_problem(findings) else 0


def check_ports(
    settings: Mapping[str, str], config: BrokerConfig, count: int
) -> Iterator[CheckFinding]:
    """The ports of that many brokers, each in a process of its own."""
    configs = [config]
    if count > 1:
        try:
            configs = [
                parse_broker_config(
                    settings_of_process(settings, place, count, socket.gethostname())
                ).config
                for place in range(1, count + 1)
            ]
        except ConfigError as error:
            yield problem("port", f"{count} brokers: {error}", "choose a lower port, or fewer")
            return
    for own in configs:
        for one in own.listeners:
            if one.port != 0:
                yield check_port(Address(one.host, one.port))


async def bundle(
    arguments: argparse.Namespace, findings: Sequence[CheckFinding], config: BrokerConfig | None
) -> None:
    """Write the archive for a report. Raises CommandError if the file cannot be made."""
    documents = {"findings.json": as_document(findings), "machine.json": machine_document()}
    with contextlib.suppress(ConfigError):
        settings = redacted(doctor_settings(arguments))
        documents["settings.properties"] = "".join(f"{k}={v}\n" for k, v in settings.items())
    if config is not None and config.metrics_listener:
        documents |= await metrics_document(config.metrics_listener)
    if not arguments.local:
        documents |= await cluster_documents(arguments.bootstrap)
    try:
        write_bundle(arguments.bundle, documents)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        if isinstance(error, FileExistsError):
            reason += "; name another file"
        raise CommandError(f"cannot write {arguments.bundle}: {reason}") from None
    sys.stderr.write(
        f"ottla: wrote {arguments.bundle}; read it before you send it, and add the broker's log\n"
    )


def doctor_settings(arguments: argparse.Namespace) -> dict[str, str]:
    """Those that a broker would start with here. Raises ConfigError."""
    settings = written_settings(arguments)
    settings.setdefault("listeners", f"PLAINTEXT://{DEFAULT_HOST}:{DEFAULT_PORT}")
    if arguments.data_dir is not None or not {"log.dirs", "log.dir"} & settings.keys():
        settings.pop("log.dir", None)
        default = DEFAULT_CLUSTER_DIR if arguments.processes > 1 else DEFAULT_DATA_DIR
        settings["log.dirs"] = os.path.abspath(arguments.data_dir or default)
    return settings


def check_settings(
    arguments: argparse.Namespace, warnings: Sequence[str]
) -> Iterator[CheckFinding]:
    """What is doubtful in a file of settings."""
    for text in warnings:
        yield warning("settings", text, "remove it, or write it as Kafka does")
    if arguments.config is not None and not warnings:
        yield ok("settings", f"{arguments.config} is understood")
