"""Unmodified clients as members of groups: how each is started and what it can, and whole groups.

A crew is one group with its topic and the members that have joined so far.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import uuid
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from ottla.client.admin import Admin
from tests.interop.support.clients import needs
from tests.interop.support.environments import go_program, java_classpath, node_program, python_with
from tests.interop.support.load import PARTITIONS
from tests.interop.support.members import (
    Member,
    Partition,
    count_read,
    holes,
    overlaps,
    share,
    wait_until,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import ExitStack
    from pathlib import Path

    from tests.interop.conftest import Bootstrap

SESSION_MS = 6_000
SETTLED_S = 120.0
_PYTHON = "tests.interop.programs.python"


class Kind(NamedTuple):
    """A client as a member: what its frames are called, its command, how it shares, what it can."""

    name: str
    client: str
    command: Callable[[], list[str | Path]]
    strategy: str = "range"
    protocol: str = "classic"
    has_static_members: bool = True
    # Whether static and dynamic members may be in one group.
    mixes_static_members: bool = True


def _python(module: str, *requirements: str) -> Callable[[], list[str | Path]]:
    def command() -> list[str | Path]:
        python = python_with(*requirements) if requirements else sys.executable
        return [python, "-m", f"{_PYTHON}.{module}"]

    return command


def _java(kafka_version: str) -> Callable[[], list[str | Path]]:
    def command() -> list[str | Path]:
        needs("java", "mvn")
        return ["java", "-Xmx128m", "-cp", java_classpath(kafka_version), "GroupMember"]

    return command


def _go() -> list[str | Path]:
    needs("go")
    return [go_program("franzmember")]


def _node() -> list[str | Path]:
    needs("node", "npm")
    return ["node", node_program("member.js")]


CONFLUENT = Kind(
    "confluent-kafka", f"confluent_kafka_{version('confluent-kafka')}", _python("member_confluent")
)
# Its range strategy forgets members where both kinds come in turns.
KAFKA_PYTHON = Kind(
    "kafka-python",
    f"kafka_python_{version('kafka-python')}",
    _python("member_kafka_python"),
    mixes_static_members=False,
)
AIOKAFKA = Kind("aiokafka", f"aiokafka_{version('aiokafka')}", _python("member_aio"))
OTTLA = Kind("ottla", "ottla", _python("member_ottla"))
OTTLA_COOPERATIVE = OTTLA._replace(name="ottla-cooperative", strategy="cooperative-sticky")
INSTALLED = [
    CONFLUENT,
    CONFLUENT._replace(name="confluent-kafka-cooperative", strategy="cooperative-sticky"),
    CONFLUENT._replace(name="confluent-kafka-848", strategy="uniform", protocol="consumer"),
    KAFKA_PYTHON,
    AIOKAFKA,
    OTTLA_COOPERATIVE,
]
OTHERS = [
    Kind(
        "kafka-python-2.0.2",
        "kafka_python_2.0.2",
        _python("member_kafka_python", "kafka-python==2.0.2", "python-snappy", "lz4", "zstandard"),
        has_static_members=False,
    ),
    Kind(
        "confluent-kafka-2.3.0",
        "confluent_kafka_2.3.0",
        _python("member_confluent", "confluent-kafka==2.3.0"),
    ),
    Kind("java-3.9.1", "java_3.9.1", _java("3.9.1")),
    Kind("java-3.9.1-cooperative", "java_3.9.1", _java("3.9.1"), "cooperative-sticky"),
    Kind("java-4.1.0", "java_4.1.0", _java("4.1.0")),
    Kind("java-4.1.0-848", "java_4.1.0", _java("4.1.0"), "uniform", "consumer"),
    Kind("franz-go", "franz_go_1.22.2", _go),
    Kind("franz-go-cooperative", "franz_go_1.22.2", _go, "cooperative-sticky"),
    Kind("kafkajs", "kafkajs_2.2.4", _node, "roundrobin", has_static_members=False),
    OTTLA,
    OTTLA._replace(name="ottla-sticky", strategy="sticky"),
    OTTLA._replace(name="ottla-roundrobin", strategy="roundrobin"),
    OTTLA._replace(name="ottla-848", strategy="uniform", protocol="consumer"),
]


def parameters(kinds: list[Kind], others: list[Kind]) -> list[Any]:
    """The first in make test as well, the others in make interop only."""
    return [pytest.param(kind, id=kind.name) for kind in kinds] + [
        pytest.param(kind, id=kind.name, marks=pytest.mark.interop) for kind in others
    ]


KINDS = parameters(INSTALLED, OTHERS)
WITH_STATIC_MEMBERS = parameters(INSTALLED, [kind for kind in OTHERS if kind.has_static_members])


class Crew:
    """A group, its topic, and its members so far."""

    def __init__(self, stack: ExitStack, site: Bootstrap, folder: Path) -> None:
        self.address = site.address
        self._site, self._clients = site, set[str]()
        self.name = f"group-{uuid.uuid4().hex[:8]}"
        self.topic = f"topic-{uuid.uuid4().hex[:8]}"
        self.members: list[Member] = []
        self._stack, self._folder = stack, folder
        site.used_by("")
        admin = AdminClient({"bootstrap.servers": self.address})
        admin.create_topics([NewTopic(self.topic, PARTITIONS)])[self.topic].result(15)

    @property
    def partitions(self) -> list[Partition]:
        return [(self.topic, number) for number in range(PARTITIONS)]

    @property
    def present(self) -> list[Member]:
        return [member for member in self.members if member.is_running()]

    def join(self, kind: Kind, instance: str | None = None, **more: Any) -> Member:
        """Start a member; it joins soon."""
        self._clients.add(kind.client)
        self._site.used_by(kind.client if len(self._clients) == 1 else "")
        orders = {
            "group": self.name,
            "topics": [self.topic],
            "strategy": kind.strategy,
            "protocol": kind.protocol,
            "session_ms": SESSION_MS,
            "instance": instance,
            **more,
        }
        name = f"{kind.name}-{len(self.members)}"
        member = Member(name, [*kind.command(), self.address], orders, self._folder)
        self.members.append(self._stack.enter_context(member))
        return member

    def settle(self, timeout_s: float = SETTLED_S) -> None:
        """Wait until the present members share all partitions, each with a fair part."""
        fair = PARTITIONS // len(self.present)

        def holds() -> bool:
            return share(self.present, self.partitions) and all(
                len(member.held) >= fair for member in self.present
            )

        try:
            wait_until(holds, self.present, timeout_s)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.explained()}") from None

    def committed(self) -> dict[Partition, int]:
        """The positions that the broker keeps for the group, read by our own client."""
        self._site.used_by("")

        async def ask() -> dict[Partition, int]:
            async with Admin(self.address) as admin:
                found = await admin.groups.offsets(self.name)
            return {(where.topic, where.partition): one.offset for where, one in found.items()}

        return asyncio.run(ask())

    def explained(self) -> str:
        """The broker's description of the group, for a failure."""
        command = [sys.executable, "-m", "ottla", "groups", "explain", self.name]
        command += ["--bootstrap", self.address]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
        return done.stdout + done.stderr

    def check(self, ends: dict[Partition, int], *, exactly_once: bool) -> None:
        """Everything is read, nothing belonged to two."""
        wait_until(lambda: not holes(self.members, ends), self.present, SETTLED_S)
        assert overlaps(self.members) == []
        if exactly_once:
            assert count_read(self.members) == sum(ends.values())
