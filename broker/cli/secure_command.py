"""``ottla secure``: certificates, passwords and settings of a secure cluster on several hosts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ottla.broker.cli import secure_znodes
from ottla.broker.cli.first_user_writes import write_offline
from ottla.broker.cli.secure_cluster import (
    BrokerPlace,
    ClusterPlan,
    store_properties,
    write_cluster,
)
from ottla.broker.security.certificates import CryptographyMissing
from ottla.broker.server.first_users import FirstUser
from ottla.client.cli.output import json_document, write
from ottla.client.cli.run import CommandError, UsageError, run
from ottla.protocol.properties import parse_properties
from ottla.protocol.sasl.scram_record import SCRAM_MECHANISMS
from ottla.protocol.secret import Secret

if TYPE_CHECKING:
    import argparse


def main(arguments: argparse.Namespace) -> int:
    """Run the command."""
    return run(perform, arguments)


async def perform(arguments: argparse.Namespace) -> int:
    """Run the verb."""
    if arguments.verb == "znodes":
        return await secure_znodes.perform(arguments)
    return await _create(arguments)


async def _create(arguments: argparse.Namespace) -> int:
    """Write the files, and the users if ZooKeeper is named."""
    directory = Path(arguments.directory)
    places = tuple(_place(text) for text in arguments.brokers)
    if len({place.node_id for place in places}) < len(places):
        raise UsageError("two brokers have the same id")
    for address in arguments.bootstrap.split(","):
        if not _has_port(address.strip()):
            raise UsageError(f"--clients wants HOST:PORT[,HOST:PORT...], not {address.strip()!r}")
    plan = ClusterPlan(places, arguments.bootstrap, arguments.zookeeper)
    kept = directory / "passwords.properties"
    try:
        before = parse_properties(kept.read_text("utf-8")) if kept.exists() else {}
        passwords = write_cluster(directory, plan)
        every = parse_properties(kept.read_text("utf-8"))
    except CryptographyMissing as error:
        raise CommandError(str(error)) from None
    except OSError as error:
        raise CommandError(f"{error.filename}: {error.strerror}") from None
    if plan.zookeeper is not None:
        # A password that stays keeps its record: another one would end the sessions of its user.
        settings = {"log.dirs": "unused", **store_properties(plan, every)}
        for is_kept in (True, False):
            users = [
                FirstUser(user, mechanism, Secret(password))
                for user, password in passwords.items()
                if (user in before) is is_kept
                for mechanism in SCRAM_MECHANISMS.values()
            ]
            await write_offline(settings, users, only_new=is_kept)
    _tell(arguments, directory, places)
    return 0


def _has_port(address: str) -> bool:
    """Whether it ends in a port; an IPv6 address without brackets ends in no port."""
    host, _, number = address.rpartition(":")
    is_bracketed = host.startswith("[") and host.endswith("]")
    return bool(host) and number.isdecimal() and (":" not in host or is_bracketed)


def _place(text: str) -> BrokerPlace:
    """From ``ID=HOST,HOST``. Raises UsageError."""
    number, _, hosts = text.partition("=")
    names = tuple(host.strip() for host in hosts.split(",") if host.strip())
    if not number.strip().isdecimal() or not names:
        raise UsageError(f"--broker wants ID=HOST[,HOST...], not {text!r}")
    return BrokerPlace(int(number), names)


def _tell(arguments: argparse.Namespace, directory: Path, places: tuple[BrokerPlace, ...]) -> None:
    client = directory / "client" / "client.properties"
    files = {place: directory / place.user / "broker.properties" for place in places}
    if arguments.format == "json":
        brokers = {str(place.node_id): str(path) for place, path in files.items()}
        write(json_document({"client": str(client), "brokers": brokers}))
        return
    for place, path in files.items():
        write(
            f"start a broker with: ottla start --config {path} "
            f"-o listeners=SASL_SSL://{place.names[0]}:9093 "
            "-o inter.broker.listener.name=SASL_SSL\n"
        )
    write(f"log in as 'admin' with: ottla topics list --command-config {client}\n")
