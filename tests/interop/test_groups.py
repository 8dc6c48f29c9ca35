"""subscribe() with unmodified clients: joins, leaves, kills and static restarts under load.

What is demanded is the same of every client: every record is read, none twice unless a member was
killed, and no partition belongs to two members at the same time.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from tests.interop.support.crews import (
    AIOKAFKA,
    CONFLUENT,
    INSTALLED,
    KAFKA_PYTHON,
    KINDS,
    OTHERS,
    SETTLED_S,
    WITH_STATIC_MEMBERS,
    Crew,
    Kind,
)
from tests.interop.support.load import PARTITIONS, Load
from tests.interop.support.members import count_read, share, wait_until

if TYPE_CHECKING:
    from pathlib import Path

    from tests.interop.conftest import Bootstrap

# A member that restarts must be back within its session, and a Java machine that is busy with other
# things takes its time to start.
PATIENT_SESSION_MS = 20_000


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
