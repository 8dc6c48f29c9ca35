"""A broker that starts over its data: what the controller and the broker make of its replicas."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

import pytest

import ottla
from ottla.sync import Producer

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SETTINGS = {"replica.high.watermark.checkpoint.interval.ms": "100"}


def until(is_so: Callable[[], bool]) -> None:
    """Wait for it, for a minute at most."""
    deadline = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def lines_of(checkpoint: Path) -> list[str]:
    """The lines of a checkpoint of high watermarks."""
    return checkpoint.read_text("ascii").splitlines() if checkpoint.exists() else []


@pytest.mark.requirement("CTL-28")
def test_replicas_of_a_broker_that_starts_are_online_and_their_watermarks_are_saved(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A replica that is not online leads nothing, and without a saved watermark the broker would
    not know after its next start what was acknowledged. States are the controller's own log of
    them, watermarks the file in the data directory of the broker that was started."""
    with (
        caplog.at_level(logging.DEBUG, "ottla.state_change"),
        ottla.Cluster(brokers=2, data_dir=tmp_path, settings=SETTINGS) as cluster,
    ):
        cluster.create_topic("t", 2)
        with Producer(cluster.bootstrap_servers) as producer:
            producer.send("t", b"x", partition=0).result()
        cluster.faults.kill(2)
        caplog.clear()
        cluster.faults.restart(2)
        wanted = {f"t-{one} on broker 2: OfflineReplica -> OnlineReplica" for one in range(2)}
        until(lambda: wanted <= {*caplog.messages})
        with Producer(cluster.bootstrap_servers) as producer:
            for partition in range(2):
                for _ in range(3):
                    producer.send("t", b"x", partition=partition).result()
        (checkpoint,) = tmp_path.rglob("2/replication-offset-checkpoint")
        until(lambda: {"t 0 4", "t 1 3"} <= {*lines_of(checkpoint)})
