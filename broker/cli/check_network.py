"""``ottla doctor``: who listens, what clients are told, and whether they can reach that."""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import os
import socket
import time
from typing import TYPE_CHECKING

from ottla.broker.cli.findings import CheckFinding, ok, problem, warning
from ottla.client.admin import Admin
from ottla.client.cli.cluster.health import judge, min_isr
from ottla.client.cli.run import sentence
from ottla.client.cli.settings import command_config
from ottla.client.settings.config import parse_address, parse_addresses
from ottla.wire.errors import BrokerUnreachable, ClientError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from ottla.client.admin import ClusterDescription
    from ottla.client.cluster.metadata import BrokerView
    from ottla.protocol.ports import Address

TIMEOUT_MS = 5_000
ANSWER_BYTES = 4096
ADVERTISE = (
    "set advertised.listeners of that broker to an address that its clients can reach, such as "
    "PLAINTEXT://{host}:{port}"
)


async def check_cluster(bootstrap: str, *, is_expected: bool) -> AsyncIterator[CheckFinding]:
    """The cluster behind an address. ``is_expected``: the user has named the address."""
    begun = time.monotonic()
    try:
        async with Admin(bootstrap, command_config(TIMEOUT_MS)) as admin:
            cluster = await admin.describe_cluster()
            took_ms = (time.monotonic() - begun) * 1000
            yield ok(
                "cluster",
                f"{bootstrap} answers in {took_ms:.0f} ms: cluster {cluster.cluster_id}, "
                f"{len(cluster.brokers)} broker{'' if len(cluster.brokers) == 1 else 's'}",
            )
            if cluster.controller_id < 0:
                yield problem("cluster", "has no controller", "read the logs of its brokers")
            reached = parse_addresses(bootstrap)
            for broker in cluster.brokers:
                yield await check_advertised(broker, cluster, reached)
            topics = await admin.list_topics()
            limits = await min_isr(admin, topics)
            health = judge(topics, limits, [], has_controller=cluster.controller_id >= 0)
            unhealthy = health.leaderless or health.under_replicated
            if unhealthy:
                yield problem(
                    "partitions",
                    f"{len(health.leaderless)} without a leader, {len(health.under_replicated)} "
                    f"with too few replicas in sync, such as {unhealthy[0]}",
                    "'ottla cluster describe' lists them; start the brokers that are missing",
                )
            else:
                count = sum(view.partition_count for view in topics)
                yield ok("partitions", f"all {count} have their leader and their replicas")
    except BrokerUnreachable as error:
        if is_expected or (error.reason and "refused" not in error.reason):
            advice = "start it, or name another with -b; 'ottla start' runs a broker here"
            yield problem("cluster", str(error), advice)
        else:
            yield warning(
                "cluster", f"no broker listens at {bootstrap}", "'ottla start' runs a broker"
            )
    except ClientError as error:
        yield problem("cluster", sentence(error), "read the logs of its brokers")


async def check_advertised(
    broker: BrokerView, cluster: ClusterDescription, reached: list[Address]
) -> CheckFinding:
    """Clients go to the advertised address, whatever address they began with."""
    address, name = broker.address, f"broker {broker.node_id}"
    told = f"clients are told that {name} is at {address}"
    advice = ADVERTISE.format(host=reached[0].host, port=address.port)
    if is_loopback(address.host) and not any(is_loopback(one.host) for one in reached):
        return problem(
            "advertised", f"{told}, which is their own machine for those elsewhere", advice
        )
    begun = time.monotonic()
    try:
        async with Admin(str(address), command_config(TIMEOUT_MS)) as admin:
            found = await admin.describe_cluster()
    except ClientError as error:
        reason = error.reason if isinstance(error, BrokerUnreachable) else sentence(error)
        return problem("advertised", f"{told}, which cannot be reached from here: {reason}", advice)
    took_ms = (time.monotonic() - begun) * 1000
    if found.cluster_id != cluster.cluster_id:
        return problem(
            "advertised", f"{told}, where another cluster answers: {found.cluster_id}", advice
        )
    only = ", from this machine only" if is_loopback(address.host) else ""
    return ok("advertised", f"{name} at {address} answers in {took_ms:.0f} ms{only}")


def is_loopback(host: str) -> bool:
    """Whether the address means the machine that uses it."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def check_port(address: Address) -> CheckFinding:
    """Whether a broker could listen there."""
    try:
        found = socket.getaddrinfo(
            address.host or None,
            address.port,
            type=socket.SOCK_STREAM,
            flags=socket.AI_PASSIVE,
        )
        family, kind, _, _, place = found[0]
        with socket.socket(family, kind) as listening:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(place)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            return ok("port", f"{address} is in use, by a broker that runs already or by another")
        return problem(
            "port",
            f"cannot listen at {address}: {(error.strerror or str(error)).lower()}",
            "name an address of this machine with --host or listeners",
        )
    return ok("port", f"{address} is free for a broker")


async def check_zookeeper(connect: str) -> AsyncIterator[CheckFinding]:
    """Each server of the ensemble; brokers need more than half of them."""
    servers = connect.partition("/")[0].split(",")
    answers = 0
    for text in servers:
        try:
            server = parse_address(text if text.rpartition(":")[2].isdigit() else f"{text}:2181")
        except ValueError:
            yield problem("zookeeper", f"{text!r} is no address", "one looks like host:2181")
            continue
        try:
            async with asyncio.timeout(TIMEOUT_MS / 1000):
                said = await four_letters(server, b"srvr")
        except (OSError, TimeoutError) as error:
            # asyncio and getaddrinfo have texts with numbers and addresses of their own.
            number = error.errno or 0
            told = os.strerror(number) if number > 0 else error.strerror
            reason = (told or str(error)).lower() or f"no answer within {TIMEOUT_MS} ms"
            yield warning("zookeeper", f"{server} does not answer: {reason}", "start it")
            continue
        answers += 1
        yield read_answer(server, said)
    if answers * 2 <= len(servers):
        yield problem(
            "zookeeper",
            f"{answers} of {len(servers)} servers answer, which is no majority",
            "no broker can start and none can lead until there is one",
        )


async def four_letters(server: Address, word: bytes) -> str:
    """Ask and read to the end. Raises OSError."""
    reader, writer = await asyncio.open_connection(server.host, server.port)
    try:
        writer.write(word)
        return (await reader.read(ANSWER_BYTES)).decode("utf-8", "replace")
    finally:
        writer.close()


def read_answer(server: Address, said: str) -> CheckFinding:
    """What a server says of itself, if it is allowed to."""
    facts = dict(
        (name.strip(), value.strip())
        for name, colon, value in (line.partition(":") for line in said.splitlines())
        if colon
    )
    if "Mode" in facts:
        version = facts.get("Zookeeper version", "").partition("-")[0]
        return ok("zookeeper", f"{server} answers: version {version}, {facts['Mode']}")
    if "not currently serving" in said:
        return warning(
            "zookeeper", f"{server} serves no clients", "start more than half of the servers"
        )
    return ok("zookeeper", f"{server} can be reached")
