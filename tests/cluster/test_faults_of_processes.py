"""The faults of a cluster whose brokers are processes: the same calls, the same consequences."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from ottla.broker.testing.cluster import Cluster
from ottla.broker.testing.members import ClusterError, ProcessState
from ottla.protocol.errors import ErrorCode
from tests.broker.testing.clients import Sent, read, send
from tests.support.broker_process import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

TIMED_OUT = -192  # librdkafka's _MSG_TIMED_OUT
TOPIC = "t"

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def running() -> Iterator[Cluster]:
    with Cluster(brokers=3, subprocess=True) as cluster:
        cluster.create_topic(TOPIC)
        yield cluster


@pytest.fixture
def cluster(running: Cluster) -> Iterator[Cluster]:
    yield running
    running.faults.clear()
    for broker_id, broker in running.brokers.items():
        if broker.state is ProcessState.DEAD:
            running.faults.restart(broker_id)


def refused(cluster: Cluster) -> bool:
    return send(cluster, TOPIC, [b"x"], message_timeout_ms=1_500).errors == [TIMED_OUT]


def accepted(cluster: Cluster) -> bool:
    sent: Sent = send(cluster, TOPIC, [b"x"], message_timeout_ms=60_000)
    return sent.errors == []


def until(holds: Callable[[], bool], timeout_s: float = 60.0) -> None:
    end = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_kill_and_restart(cluster: Cluster) -> None:
    """A process that was killed has written what it had acknowledged."""
    assert accepted(cluster)
    victim, address = cluster.leader(TOPIC), cluster.bootstrap_servers

    cluster.faults.kill(victim)

    assert accepted(cluster)
    assert cluster.leader(TOPIC) != victim
    cluster.faults.restart(victim)
    assert cluster.bootstrap_servers == address
    assert read(cluster, TOPIC, 2)[:2] == [b"x", b"x"]


def test_pause_and_the_end_of_its_session(cluster: Cluster) -> None:
    """SIGSTOP: requests are not answered; a pause beyond the session costs the leadership."""
    victim = cluster.leader(TOPIC)
    cluster.faults.pause(victim)
    assert refused(cluster)

    cluster.faults.advance(20_000)

    until(lambda: cluster.leader(TOPIC) != victim)
    assert accepted(cluster)
    cluster.faults.resume(victim)
    until(lambda: accepted(cluster))


def test_partition(cluster: Cluster) -> None:
    """A leader without followers cannot acknowledge until they have left the ISR, or are back."""
    leader = cluster.leader(TOPIC)
    cluster.faults.partition({leader}, {1, 2, 3} - {leader})
    assert refused(cluster)

    cluster.faults.heal()

    assert accepted(cluster)


def test_clients_that_are_cut_off(cluster: Cluster) -> None:
    """The brokers still reach each other."""
    cluster.faults.partition({1, 2, 3}, {"clients"})
    assert refused(cluster)

    cluster.faults.heal()

    assert accepted(cluster)


def test_disks(cluster: Cluster) -> None:
    """Slow, full, and torn in the middle of a write."""
    leader = cluster.leader(TOPIC)
    cluster.faults.slow_disk(leader, 3_000)
    begun = time.monotonic()
    assert accepted(cluster)
    assert time.monotonic() - begun >= 3.0
    cluster.faults.mend_disk(leader)

    cluster.faults.full_disk(leader)
    until(lambda: cluster.leader(TOPIC) != leader)
    assert accepted(cluster)
    cluster.faults.mend_disk(leader)

    leader = cluster.leader(TOPIC)
    cluster.faults.torn_write(leader)
    assert accepted(cluster)
    assert cluster.brokers[leader].state is ProcessState.DEAD
    cluster.faults.restart(leader)
    assert "in the middle of a write to t-0/" in cluster.report()


def test_requests(cluster: Cluster) -> None:
    """Errors by name, and replies that are lost."""
    cluster.faults.fail_request("Produce", "TOPIC_AUTHORIZATION_FAILED")
    errors = send(cluster, TOPIC, [b"x"]).errors
    cluster.faults.lose_reply("Produce", 2)
    assert accepted(cluster)

    assert errors == [ErrorCode.TOPIC_AUTHORIZATION_FAILED]
    assert sum("lost a reply to PRODUCE" in one.what for one in cluster.injected) == 2


def test_session_and_clock(cluster: Cluster) -> None:
    """A broker registers again, and its clock is off by an hour."""
    leader = cluster.leader(TOPIC)
    cluster.faults.expire_session(leader)
    cluster.faults.jump_clock(-3_600_000)

    until(lambda: cluster.leader(TOPIC) != leader)
    assert accepted(cluster)
    cluster.faults.jump_clock(3_600_000)


def test_a_process_that_ends_by_itself_is_noticed(cluster: Cluster) -> None:
    """A kill from outside, such as the kernel's when memory runs out, must be reported."""
    children = subprocess.run(
        ["pgrep", "-P", str(os.getpid()), "-f", "ottla.broker.testing.child"],
        capture_output=True,
        text=True,
        check=True,
    )
    os.kill(int(children.stdout.split()[0]), signal.SIGKILL)

    until(lambda: ProcessState.DEAD in {broker.state for broker in cluster.brokers.values()})
    assert "its process has ended" in cluster.report()


def test_the_dead_cannot_be_disturbed(cluster: Cluster) -> None:
    """Faults on a dead process raise the same error as in one process."""
    cluster.faults.kill(2)

    with pytest.raises(ClusterError, match="broker 2 is not running"):
        cluster.faults.pause(2)


def test_processes_go_with_a_program_that_forgets_them() -> None:
    """A test run that is interrupted must not leave brokers that hold ports and memory."""
    code = (
        "import ottla\n"
        "cluster = ottla.Cluster(subprocess=True).start()\n"
        "cluster.faults.pause(1)\n"
        "print(cluster._members.members[1].node._process._process.pid)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT
    )
    process_id = int(done.stdout)

    def is_gone() -> bool:
        try:
            os.kill(process_id, 0)
        except ProcessLookupError:
            return True
        return False

    until(is_gone)
