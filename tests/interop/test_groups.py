"""subscribe() with unmodified clients: joins, leaves, kills and static restarts under load.

What is demanded is the same of every client: every record is read, none twice unless a member was
killed, and no partition belongs to two members at the same time.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
import uuid
from contextlib import ExitStack
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from ottla.protocol.apis import ApiKey
from tests.interop.clients import needs
from tests.interop.conftest import Bootstrap, running_broker
from tests.interop.environments import go_program, java_classpath, node_program, python_with
from tests.interop.load import PARTITIONS, Load
from tests.interop.members import (
    Member,
    Partition,
    count_read,
    holes,
    overlaps,
    share,
    wait_until,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

SESSION_MS = 6_000
# A member that restarts must be back within its session, and a Java machine that is busy with other
# things takes its time to start.
PATIENT_SESSION_MS = 20_000
SERVER_SESSION_MS = 12_000
SETTLED_S = 40.0
_PYTHON = "tests.interop.programs.python"
# What members alone ask; the rest comes from the writer of a test's records as well.
GROUP_APIS = frozenset(
    {
        ApiKey.FIND_COORDINATOR,
        ApiKey.JOIN_GROUP,
        ApiKey.SYNC_GROUP,
        ApiKey.HEARTBEAT,
        ApiKey.LEAVE_GROUP,
        ApiKey.OFFSET_COMMIT,
        ApiKey.OFFSET_FETCH,
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
    }
)


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
INSTALLED = [
    CONFLUENT,
    CONFLUENT._replace(name="confluent-kafka-cooperative", strategy="cooperative-sticky"),
    CONFLUENT._replace(name="confluent-kafka-848", strategy="uniform", protocol="consumer"),
    KAFKA_PYTHON,
    AIOKAFKA,
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
]


def parameters(kinds: list[Kind], others: list[Kind]) -> list[Any]:
    """The first in make test as well, the others in make interop only."""
    return [pytest.param(kind, id=kind.name) for kind in kinds] + [
        pytest.param(kind, id=kind.name, marks=pytest.mark.interop) for kind in others
    ]


KINDS = parameters(INSTALLED, OTHERS)
WITH_STATIC_MEMBERS = parameters(INSTALLED, [kind for kind in OTHERS if kind.has_static_members])


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bootstrap]:
    """A broker that does not let the first member wait for long.

    GROUPS_AT names another one, such as Apache Kafka, to see what the clients themselves do."""
    if "GROUPS_AT" in os.environ:
        yield Bootstrap(os.environ["GROUPS_AT"])
        return
    options = {"group.initial.rebalance.delay.ms": "500", "log.segment.bytes": "1048576"}
    # The session of a KIP-848 member is the broker's to say.
    options |= {
        f"group.consumer.{which}session.timeout.ms": str(SERVER_SESSION_MS)
        for which in ("", "min.")
    }
    with running_broker(tmp_path_factory.mktemp("groups"), options, GROUP_APIS) as running:
        yield running


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
        """Wait until those present share all partitions, everybody with a fair part."""
        fair = PARTITIONS // len(self.present)

        def holds() -> bool:
            return share(self.present, self.partitions) and all(
                len(member.held) >= fair for member in self.present
            )

        try:
            wait_until(holds, self.present, timeout_s)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.explained()}") from None

    def explained(self) -> str:
        """What the broker has to say of the group, for a failure."""
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


@pytest.fixture
def crew(site: Bootstrap, tmp_path: Path) -> Iterator[Crew]:
    with ExitStack() as stack:
        yield Crew(stack, site, tmp_path)


@pytest.mark.requirement("ARC-03", "CON-22", "GRP-15")
@pytest.mark.parametrize("kind", KINDS)
def test_members_come_and_go_and_every_record_is_read(crew: Crew, kind: Kind) -> None:
    """One alone, then four at once, one more leaves: nothing is lost and nothing is read twice."""
    crew.join(kind)
    crew.settle()
    load = Load(crew.address, crew.topic, 20_000, 4_000)
    for _ in range(3):
        crew.join(kind)
    crew.settle()
    crew.members[1].leave()
    crew.settle()
    crew.check(load.finish(), exactly_once=True)

    assert [member.rebalance_count > 0 for member in crew.members] == [True] * 4


@pytest.mark.parametrize("kind", KINDS)
def test_a_killed_member_is_replaced(crew: Crew, kind: Kind) -> None:
    """Its partitions go to the others when its session has ended; what it did not commit is read
    again."""
    for _ in range(3):
        crew.join(kind)
    crew.settle()
    load = Load(crew.address, crew.topic, 20_000, 5_000)
    victim = crew.members[1]
    wait_until(lambda: count_read([victim]) > 0, crew.present, SETTLED_S)
    victim.kill()
    crew.join(kind)
    crew.settle(90.0)
    crew.check(load.finish(), exactly_once=False)


@pytest.mark.parametrize("kind", WITH_STATIC_MEMBERS)
def test_a_static_member_that_returns_in_time_moves_nothing(crew: Crew, kind: Kind) -> None:
    """Restarting one instance must not disturb the others (KIP-345)."""
    for number in range(3):
        crew.join(kind, f"instance-{number}", session_ms=PATIENT_SESSION_MS)
    crew.settle()
    load = Load(crew.address, crew.topic, 10_000, 5_000)
    before = [member.rebalance_count for member in crew.members]
    held = crew.members[1].held
    if kind.protocol == "classic":
        crew.members[1].kill()
    else:
        # Here an instance must say that it will be back, or its name is taken until its session
        # ends (KIP-848).
        crew.members[1].leave()
    back = crew.join(kind, "instance-1", session_ms=PATIENT_SESSION_MS)
    wait_until(lambda: back.held == held, crew.present, SETTLED_S)
    crew.settle()
    crew.check(load.finish(), exactly_once=False)

    after = [member.rebalance_count for member in crew.members]
    assert (after[0], after[2]) == (before[0], before[2])


@pytest.mark.requirement("ARC-11")
def test_who_comes_after_the_last_partition_has_none(crew: Crew) -> None:
    """Partitions are the bound of a group's parallelism."""
    for _ in range(PARTITIONS):
        crew.join(CONFLUENT)
    crew.settle()
    extra = crew.join(CONFLUENT)
    time.sleep(4)
    wait_until(lambda: share(crew.present, crew.partitions), crew.present, SETTLED_S)

    assert sorted(len(member.held) for member in crew.present) == [0] + [1] * PARTITIONS
    assert extra.is_running()


@pytest.mark.requirement("ARC-04")
def test_every_group_reads_everything(site: Bootstrap, tmp_path: Path) -> None:
    """Four groups of one member each: publish and subscribe."""
    with ExitStack() as stack:
        crews = [Crew(stack, site, tmp_path)]
        for _ in range(3):
            another = Crew(stack, site, tmp_path)
            another.topic = crews[0].topic
            crews.append(another)
        for number, one in enumerate(crews):
            one.join(INSTALLED[number + 1])
        load = Load(site.address, crews[0].topic, 1_000, 5_000)
        for one in crews:
            one.settle()
            one.check(load.finish(), exactly_once=True)


def test_different_libraries_share_one_group(crew: Crew) -> None:
    """They agree on range, the one strategy that all of them know by the same name."""
    kinds = [CONFLUENT, KAFKA_PYTHON, AIOKAFKA]
    crew.join(kinds[0])
    crew.settle()
    load = Load(crew.address, crew.topic, 20_000, 4_000)
    for kind in kinds[1:]:
        crew.join(kind)
    crew.settle()
    crew.members[0].leave()
    crew.settle()
    crew.check(load.finish(), exactly_once=True)


@pytest.mark.interop
def test_libraries_of_four_languages_share_one_group(crew: Crew) -> None:
    """Java, Go, C and Python in one group."""
    kinds = [CONFLUENT, KAFKA_PYTHON, AIOKAFKA, OTHERS[2], OTHERS[6]]
    for kind in kinds:
        crew.join(kind)
    crew.settle(60)
    load = Load(crew.address, crew.topic, 50_000, 5_000)
    time.sleep(2)
    crew.members[3].leave()
    crew.settle()
    crew.check(load.finish(), exactly_once=True)


@pytest.mark.interop
@pytest.mark.timeout(400)
@pytest.mark.parametrize("kind", KINDS)
def test_eight_members_under_load(crew: Crew, kind: Kind) -> None:
    """200,000 records while eight join at once, some leave, some are killed, some return."""
    statics = 3 if kind.has_static_members and kind.mixes_static_members else 0
    for number in range(PARTITIONS):
        crew.join(kind, f"instance-{number}" if number < statics else None)
    load = Load(crew.address, crew.topic, 200_000, 8_000)
    crew.settle(90)
    for number in range(statics):
        member = crew.members[number]
        member.kill() if kind.protocol == "classic" else member.leave()
        crew.join(kind, f"instance-{number}")
    crew.settle(90)
    crew.members[5].leave()
    crew.members[6].kill()
    crew.settle(90)
    crew.join(kind)
    crew.join(kind)
    crew.settle(90)
    crew.check(load.finish(), exactly_once=False)
