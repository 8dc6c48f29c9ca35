"""Our assignors against Apache Kafka's own, on many groups: the same answer, or one as even."""

from __future__ import annotations

import subprocess
from random import Random
from typing import NamedTuple

import pytest

from ottla.client.group.assignors.assignor import GroupDetails
from ottla.client.group.assignors.registry import make_assignors
from tests.interop.support.clients import needs
from tests.interop.support.environments import PROGRAMS, java_classpath

pytestmark = pytest.mark.interop
CASES = 150
Answer = dict[str, list[str]]


class Member(NamedTuple):
    """One member of a case; empty texts mean that there is none."""

    name: str
    instance: str
    rack: str
    topics: tuple[str, ...]


class Case(NamedTuple):
    """A group, and the racks of each partition's replicas."""

    members: list[Member]
    racks: dict[str, list[str]]

    def line(self, name: str) -> str:
        """For the Java program."""
        members = [",".join([*one[:3], "+".join(one.topics)]) for one in self.members]
        topics = [f"{topic}={'/'.join(racks)}" for topic, racks in self.racks.items()]
        return f"{name}|{';'.join(members)}|{';'.join(topics)}"

    def ours(self, name: str) -> Answer:
        """Our assignor's result."""
        (assignor,) = make_assignors([name])
        members = {
            one.name: assignor.subscription(one.topics, [], -1, one.rack or None)
            for one in self.members
        }
        details = GroupDetails(
            {one.name: one.instance for one in self.members if one.instance},
            {topic: [frozenset(one) for one in racks] for topic, racks in self.racks.items()},
        )
        counts = {topic: len(racks) for topic, racks in self.racks.items()}
        found = assignor.assign(members, counts, details)
        return {
            member: sorted(f"{topic}p{number}" for topic, number in assignor.on_assignment(one, 1))
            for member, one in found.items()
        }


def case(random: Random, *, with_racks: bool, alike: bool) -> Case:
    """A group of up to six with up to four topics. Every member subscribes to at least one: Java's
    sticky assignors give partitions to members without subscriptions."""
    topics = ["a", "b", "c", "d"][: random.randint(1, 4)]
    racks = {}
    for topic in topics:
        count = random.choice([4, 4, random.randint(1, 9)])
        racks[topic] = [
            "".join(sorted(random.sample("xyz", random.randint(1, 3)))) if with_racks else ""
            for _ in range(count)
        ]
    members = []
    for number in range(random.randint(1, 6)):
        chosen = topics if alike else [topic for topic in topics if random.random() < 0.7]
        chosen = chosen or topics[:1]
        members.append(
            Member(
                f"m{random.randint(10, 99)}{number}",
                f"i{random.randint(10, 99)}{number}" if random.random() < 0.3 else "",
                random.choice("xyzw") if with_racks and random.random() < 0.9 else "",
                tuple(chosen),
            )
        )
    return Case(members, racks)


def javas(name: str, cases: list[Case]) -> list[Answer]:
    """Kafka's assignor's result for each case."""
    needs("java", "mvn")
    done = subprocess.run(
        ["java", "-Xmx256m", "-cp", java_classpath("3.9.1"), PROGRAMS / "oracles" / "Assign.java"],
        input="\n".join(one.line(name) for one in cases) + "\n",
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-2_000:]
    answers = []
    for line in done.stdout.splitlines():
        pairs = (one.partition("=") for one in line.split(";"))
        answers.append(
            {member: sorted(held.split(",")) if held else [] for member, _, held in pairs}
        )
    return answers


@pytest.mark.parametrize("with_racks", [False, True], ids=["anywhere", "racks"])
@pytest.mark.parametrize("alike", [True, False], ids=["alike", "different"])
@pytest.mark.parametrize("name", ["range", "roundrobin"])
def test_range_and_round_robin_answer_as_java_does(
    name: str, alike: bool, with_racks: bool
) -> None:
    """In a mixed group a change of the leader must not move partitions."""
    if name == "roundrobin" and with_racks:
        pytest.skip("it does not know racks")
    random = Random(f"{name}{alike}{with_racks}")
    cases = [case(random, with_racks=with_racks, alike=alike) for _ in range(CASES)]

    answers = javas(name, cases)

    wrong = [
        (one.line(name), ours, expected)
        for one, expected in zip(cases, answers, strict=True)
        if (ours := one.ours(name)) != expected
    ]
    assert wrong[:1] == [], f"{len(wrong)} of {CASES} differ"


@pytest.mark.parametrize("alike", [True, False], ids=["alike", "different"])
@pytest.mark.parametrize("name", ["sticky", "cooperative-sticky"])
def test_the_sticky_ones_are_as_even_as_javas(name: str, alike: bool) -> None:
    """Which partitions a member has is not promised; that no member has needlessly more is."""
    random = Random(f"{name}{alike}")
    cases = [case(random, with_racks=False, alike=alike) for _ in range(CASES)]

    answers = javas(name, cases)

    for one, theirs in zip(cases, answers, strict=True):
        ours = one.ours(name)
        squares = [sum(len(held) ** 2 for held in found.values()) for found in (ours, theirs)]
        assert squares[0] <= squares[1], one.line(name)
