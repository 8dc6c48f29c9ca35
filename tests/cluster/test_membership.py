"""Brokers that join and leave without a configuration change on any other process."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.cluster.support.real import RealCluster
from tests.cluster.support.wire import View
from tests.zookeeper.servers import ZooKeeperServer

if TYPE_CHECKING:
    from pathlib import Path

TOPIC = "known"
NEW = 4


def all_brokers_know(cluster: RealCluster, node_ids: set[int]) -> bool:
    """Whether each running broker lists these, and no others."""
    views = cluster.views(TOPIC)
    return all(isinstance(view, View) and view.broker_ids == node_ids for view in views.values())


@pytest.mark.timeout(400)
@pytest.mark.requirement("ARC-02", "CTL-27", "ZKT-04", "ZKT-05", "ZKT-27")
def test_a_fourth_broker_comes_and_goes_and_a_second_first_one_is_refused(tmp_path: Path) -> None:
    """Membership is decided by the brokers' own registrations, each under a unique id."""
    with (
        ZooKeeperServer() as zookeeper,
        RealCluster(tmp_path, zookeeper.address) as cluster,
        cluster.tree() as tree,
    ):
        cluster.create_topic(TOPIC, 1)
        fourth = cluster.add(NEW).start()
        cluster.wait_for("all know four", lambda: all_brokers_know(cluster, {1, 2, 3, NEW}))
        assert sorted(tree.get_children("/brokers/ids")) == ["1", "2", "3", "4"]
        entry = json.loads(tree.get("/brokers/ids/4")[0])
        assert (entry["host"], entry["port"]) == ("127.0.0.1", fourth.port)
        # It is a broker like the others: it can lead what is made now.
        cluster.create_placed("on-the-new-one", (NEW, 1))
        cluster.wait_for("it leads", lambda: cluster.newest("on-the-new-one")[0].leader == NEW)

        assert fourth.stop() == 0
        assert tree.exists("/brokers/ids/4") is None
        cluster.wait_for("all know three", lambda: all_brokers_know(cluster, {1, 2, 3}))

        fourth.start()
        cluster.wait_for("all know four", lambda: all_brokers_know(cluster, {1, 2, 3, NEW}))
        fourth.kill()
        # Ended by the servers at the next tick of their own clock, or by the controller before.
        cluster.wait_for("nobody is there", lambda: not tree.exists("/brokers/ids/4"))
        cluster.wait_for("all know three", lambda: all_brokers_know(cluster, {1, 2, 3}))

        second_first(cluster)
        assert sorted(tree.get_children("/brokers/ids")) == ["1", "2", "3"]


def second_first(cluster: RealCluster) -> None:
    """Another process with the id of a running broker."""
    with cluster.tree() as tree:
        before = tree.get("/brokers/ids/1")
        with pytest.raises(RuntimeError, match="another process has registered as broker 1"):
            cluster.add(1, "stranger").start()
        after = tree.get("/brokers/ids/1")
    assert (after[0], after[1].czxid) == (before[0], before[1].czxid)
    assert all_brokers_know(cluster, {1, 2, 3})
    cluster.wait_until_healed(TOPIC)
