"""With zookeeper.set.acl every node belongs to the brokers: strangers see and change nothing."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError, NoNodeError

import ottla
from ottla.protocol.acls import AclPattern, AclResourceType, AclRule, Operation, Permission
from tests.support.broker_process import BrokerProcess
from tests.zookeeper.shared import fresh_place

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

LIMIT_S = 60


async def test_no_node_of_a_protected_broker_is_open_to_the_world(tmp_path: Path) -> None:
    """Tried (SEC-13): to read, list, write and extend every node without a login, while the broker
    has topics, settings, users, rules, groups and transactions."""
    place = fresh_place()
    options = {
        "zookeeper.connect": place,
        "zookeeper.set.acl": "true",
        "ottla.zookeeper.digest": "kafka:secret",
        "broker.id": "1",
        "authorizer.class.name": "ottla.acl",
        "super.users": "User:ANONYMOUS",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
    }
    with BrokerProcess(tmp_path / "data", options=options) as broker:
        await _use(broker.address)
        schemes = await asyncio.to_thread(_schemes, place)
        done = await asyncio.to_thread(_done_by_a_stranger, place, list(schemes))

    # A broker, a controller, topics, partitions, settings, a user, rules, producer ids, a cluster.
    assert len(schemes) > 30
    assert {path: found for path, found in schemes.items() if found != {"digest"}} == {}
    assert done == []


async def _use(address: str) -> None:
    """Have the broker make nodes of all kinds."""
    async with ottla.Admin(address) as admin:
        await admin.create_topic(ottla.NewTopic("t", 2))
        change = ottla.ConfigChange("retention.ms", ottla.ConfigOperation.SET, "1000")
        await admin.alter_configs(ottla.ResourceType.TOPIC, "t", [change])
        await admin.users.set_password("alice", "secret")
        await admin.quotas.alter_quotas({"user": "alice"}, {"producer_byte_rate": 1e6})
        pattern = AclPattern(AclResourceType.TOPIC, "t")
        rule = AclRule(pattern, "User:alice", "*", Operation.READ, Permission.ALLOW)
        await admin.acls.create_acls([rule])
    async with ottla.Producer(address, transactional_id="x") as producer:
        await producer.init_transactions()
        async with producer.transaction():
            await producer.send("t", b"x")


def _schemes(place: str) -> dict[str, set[str]]:
    """Every node of the broker, with the schemes of those who have a right, for its owner."""
    client = KazooClient(place, auth_data=[("digest", "kafka:secret")])
    client.start(LIMIT_S)
    found: dict[str, set[str]] = {}
    waiting = ["/"]
    try:
        while waiting:
            path = waiting.pop()
            with contextlib.suppress(NoNodeError):
                found[path] = {one.id.scheme for one in client.get_acls(path)[0]}
                waiting += [f"{path.rstrip('/')}/{name}" for name in client.get_children(path)]
    finally:
        client.stop()
        client.close()
    return found


def _done_by_a_stranger(place: str, paths: list[str]) -> list[str]:
    """What is not refused."""
    address, _, chroot = place.partition("/")
    client = KazooClient(address)
    client.start(LIMIT_S)
    attempts: dict[str, Callable[[str], object]] = {
        "read": client.get,
        "list": client.get_children,
        "write": lambda path: client.set(path, b"forged"),
        "extend": lambda path: client.create(f"{path.rstrip('/')}/forged"),
    }
    done = []
    try:
        for path in paths:
            for name, attempt in attempts.items():
                try:
                    attempt(f"/{chroot}{path}".rstrip("/"))
                except (NoAuthError, NoNodeError):
                    continue
                done.append(f"{name} {path}")
    finally:
        client.stop()
        client.close()
    return done
