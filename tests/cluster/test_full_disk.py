"""One broker's disk is full, or cannot be written: a real file system of 64 MB, separately
mounted."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer

from tests.cluster.support.load import QUIET
from tests.cluster.support.real import RealCluster
from tests.cluster.support.records import put_for_sure, values_of
from tests.zookeeper.servers import ZooKeeperServer

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from typing import Any

SMALL_MB = 64
VICTIM = 3
RECORD = bytes(range(256)) * 64
OPTIONS = {
    "zookeeper.session.timeout.ms": "6000",
    "replica.lag.time.max.ms": "2000",
    "log.segment.bytes": str(4 << 20),
    "ottla.free.space.floor.bytes": str(8 << 20),
    "log.segment.delete.delay.ms": "0",
}
LARGE, SMALL = "large", "small"


def missing() -> str | None:
    """Why the test cannot mount disks; None if it can."""
    if sys.platform != "linux":
        return "small disks are mounted on Linux only"
    tried = subprocess.run(
        ["unshare", "-m", "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True, check=False
    )
    return None if tried.returncode == 0 else f"nothing can be mounted: {tried.stderr.decode()}"


REASON = missing()
pytestmark = pytest.mark.skipif(REASON is not None, reason=REASON or "")


def on_disk(folder: Path, options: str) -> Sequence[str]:
    """Command prefix that mounts a private file system there; it disappears with the process."""
    folder.mkdir(parents=True)
    return [
        *("unshare", "-m", "sh", "-c", f'mount -t tmpfs -o {options} none "$0" && exec "$@"'),
        str(folder),
    ]


def pour(cluster: RealCluster, megabytes: int) -> int:
    """Write with acks=all; how many records were acknowledged, which all have to be."""
    failed: list[Any] = []
    producer = Producer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "enable.idempotence": True,
            "message.timeout.ms": 60_000,
            "compression.type": "none",
        },
        logger=QUIET,
    )
    count = (megabytes << 20) // len(RECORD)

    def on_delivery(error: Any, _message: Any) -> None:
        if error is not None:
            failed.append(error)

    for _ in range(count):
        while True:
            try:
                producer.produce(LARGE, RECORD, partition=0, on_delivery=on_delivery)
                break
            except BufferError:
                producer.poll(0.01)
        producer.poll(0)
    assert producer.flush(60) == 0
    assert failed == []
    return count


@pytest.mark.timeout(400)
def test_a_full_disk_costs_its_broker_and_no_other(tmp_path: Path) -> None:
    """S-11: a follower that cannot write leaves the in-sync set; freed, it catches up by itself."""
    launcher = on_disk(tmp_path / f"broker-{VICTIM}", f"size={SMALL_MB}m")
    with (
        ZooKeeperServer() as zookeeper,
        RealCluster(
            tmp_path, zookeeper.address, options=OPTIONS, launchers={VICTIM: launcher}
        ) as cluster,
    ):
        cluster.create_placed(LARGE, (1, 2, VICTIM))
        cluster.create_placed(SMALL, (VICTIM, 1, 2))
        for topic in (LARGE, SMALL):
            cluster.wait_until_whole(topic)
        put_for_sure(cluster, SMALL, "before")
        count = pour(cluster, SMALL_MB + 16)
        cluster.wait_for(
            "the small one has left",
            lambda: cluster.newest(LARGE)[0].isr == frozenset({1, 2}),
        )
        cluster.tell(f"{count} records acknowledged")
        assert cluster.brokers[VICTIM].is_running
        # What it has led is led by others with room, writable and readable.
        cluster.wait_for("another one leads", lambda: cluster.newest(SMALL)[0].leader in (1, 2))
        put_for_sure(cluster, SMALL, "meanwhile")
        assert values_of(cluster, SMALL) == ["before", "meanwhile"]
        cluster.delete_topic(LARGE)
        cluster.wait_for("there is room again", lambda: cluster.newest(LARGE) == {})
        cluster.wait_until_healed(SMALL)
        assert values_of(cluster, SMALL)[:2] == ["before", "meanwhile"]


@pytest.mark.timeout(400)
def test_a_disk_that_cannot_be_written_is_said_at_the_start(tmp_path: Path) -> None:
    """A broker that cannot keep anything must not join, and say so in a sentence."""
    launcher = on_disk(tmp_path / f"broker-{VICTIM}", "ro")
    with ZooKeeperServer() as zookeeper:
        cluster = RealCluster(
            tmp_path, zookeeper.address, options=OPTIONS, launchers={VICTIM: launcher}
        )
        with pytest.raises(RuntimeError, match=r"[Rr]ead-only") as refused:
            cluster.brokers[VICTIM].start()
        assert "Traceback" not in str(refused.value)
        with cluster.tree() as tree:
            assert not tree.exists("/brokers/ids") or tree.get_children("/brokers/ids") == []
