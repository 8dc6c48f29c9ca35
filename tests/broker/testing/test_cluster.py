"""A cluster inside the test's process: any client, any thread, and nothing left behind."""

from __future__ import annotations

import gc
import logging
import multiprocessing
import os
import threading
import time
from typing import TYPE_CHECKING

import pytest

import ottla
from ottla.broker.testing.cluster import Cluster
from ottla.broker.testing.members import ClusterError
from tests.broker.testing.clients import read, send

if TYPE_CHECKING:
    from pathlib import Path


def descriptors() -> int:
    """How many this process has open."""
    gc.collect()
    return len(os.listdir("/proc/self/fd"))


def test_a_blocking_client_works_in_the_thread_of_the_test() -> None:
    """Most Python programs use one; a loop of the test's own would starve it."""
    with Cluster() as cluster:
        cluster.create_topic("t")

        assert send(cluster, "t", [b"a", b"b"]).offsets == [0, 1]
        assert read(cluster, "t", 2) == [b"a", b"b"]


async def test_the_same_object_works_in_a_coroutine() -> None:
    """The other half of Python's programs."""
    async with ottla.Cluster(brokers=3) as cluster:
        cluster.create_topic("t", 3)
        async with ottla.Producer(cluster.bootstrap_servers) as producer:
            delivery = await producer.send("t", b"value", partition=1)
            delivered = await delivery

        assert delivered.offset == 0
        assert {cluster.leader("t", one) for one in range(3)} == {1, 2, 3}


def test_topics_created_by_use_have_the_replicas_of_the_cluster() -> None:
    """A test that kills a leader must not depend on how its topic came to be."""
    with Cluster(brokers=3) as cluster:
        send(cluster, "by-itself", [b"a"])
        cluster.faults.kill(cluster.leader("by-itself"))

        assert read(cluster, "by-itself", 1) == [b"a"]


def test_fifty_clusters_leave_nothing_behind() -> None:
    """A suite of a thousand tests starts a thousand of them in one process."""
    with Cluster(brokers=3) as cluster:
        cluster.create_topic("t")
    gc.collect()
    # Those of other tests may end meanwhile.
    threads, open_files = set(threading.enumerate()), descriptors()
    handlers = list(logging.getLogger("ottla").handlers)

    for number in range(50):
        with Cluster(brokers=1 + 2 * (number % 10 == 0)) as cluster:
            cluster.create_topic("t")
            if number % 10 == 0:
                cluster.faults.kill(2)
            elif number % 10 == 1:
                cluster.faults.kill(1)
                cluster.faults.restart(1)
            elif number % 10 == 2:
                cluster.faults.pause(1)

    assert set(threading.enumerate()) <= threads
    assert descriptors() <= open_files
    assert logging.getLogger("ottla").handlers == handlers


def test_a_temporary_directory_goes_with_the_cluster() -> None:
    """Disks of build machines fill up."""
    with Cluster(data_dir="temporary") as cluster:
        send(cluster, "t", [b"a"])
        directory = cluster.data_dir
        assert directory is not None
        assert os.path.exists(f"{directory}/1/meta.properties")

    assert not os.path.exists(directory)


def test_a_directory_that_is_given_keeps_its_records(tmp_path: Path) -> None:
    """Upgrades and recoveries are tested with the data of an earlier life."""
    with Cluster(data_dir=tmp_path / "data") as cluster:
        send(cluster, "t", [b"a"])

    with Cluster(data_dir=tmp_path / "data") as cluster:
        assert read(cluster, "t", 1) == [b"a"]


def test_settings_reach_the_brokers() -> None:
    """By Kafka's names, and with values as Python has them."""
    with Cluster(settings={"auto.create.topics.enable": False}) as cluster:
        sent = send(cluster, "nobody", [b"a"], message_timeout_ms=1_500)

        assert sent.offsets == []


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Cluster(0), "at least one broker"),
        (lambda: Cluster("3"), "at least one broker"),  # type: ignore[arg-type]
        (lambda: Cluster(data_dir=""), "data_dir names no directory"),
        (lambda: Cluster(settings={"listeners": "x"}), "listeners is set by the cluster itself"),
        (lambda: Cluster().bootstrap_servers, "not running"),
        (lambda: Cluster().faults, "not running"),
        (lambda: Cluster().leader("t"), "not running"),
    ],
)
def test_what_cannot_be_is_said_in_a_sentence(make: object, words: str) -> None:
    """An AttributeError of a None explains nothing."""
    assert callable(make)
    with pytest.raises(ClusterError, match=words):
        make()


def test_what_is_not_there_is_said_in_a_sentence() -> None:
    """A leader of -1 would not show that the name of the topic is mistyped."""
    with Cluster() as cluster:
        with pytest.raises(ClusterError, match="there is no broker 0, only 1"):
            cluster.brokers[0]
        with pytest.raises(ClusterError, match="no broker knows ordres-0"):
            cluster.leader("ordres")
        assert 0 not in cluster.brokers


def test_a_cluster_without_a_broker_says_so() -> None:
    """It used to fail with a missing address or with leaders that never agree."""
    with Cluster() as cluster:
        cluster.create_topic("t")
        cluster.faults.kill(1)

        for ask in (cluster.leader, cluster.create_topic):
            with pytest.raises(ClusterError, match="no broker is running: restart one first"):
                ask("t")


def test_two_clusters_do_not_share_a_directory(tmp_path: Path) -> None:
    """The second cluster gets a clear error, and the first is undisturbed."""
    with Cluster(data_dir=tmp_path) as cluster:
        threads = threading.active_count()
        with pytest.raises(ClusterError, match="is in use by another cluster"):
            Cluster(data_dir=tmp_path).start()

        assert threading.active_count() == threads
        assert send(cluster, "t", [b"a"]).errors == []


def test_a_wrong_setting_leaves_no_thread() -> None:
    """The first attempt of every new user."""
    threads = threading.active_count()

    with pytest.raises(Exception, match=r"num\.partitions"):
        Cluster(settings={"num.partitions": "many"}).start()
    assert threading.active_count() == threads


def test_a_cluster_that_was_stopped_can_be_started_again() -> None:
    """A fixture of a session may want a clean one for every test."""
    cluster = Cluster()
    with cluster:
        send(cluster, "t", [b"a"])
    with cluster:
        assert send(cluster, "t", [b"b"]).offsets == [0]
    cluster.stop()


def test_the_report_tells_what_was_injected_and_what_the_brokers_said() -> None:
    """On a build machine the report is all that a developer has."""
    with Cluster(brokers=3) as cluster:
        cluster.create_topic("t")
        victim = cluster.leader("t")
        cluster.faults.kill(victim)
        send(cluster, "t", [b"a"])
        logging.getLogger("ottla.test").warning("not a broker's")

        assert [one.what for one in cluster.injected] == [f"kill({victim})"]
        assert f"kill({victim})" in cluster.report()
        assert "not a broker's" not in cluster.report()
        assert cluster.brokers[victim].state.value == "dead"
        assert all("ottla." in line for line in cluster.log_lines())
    assert "not running" in cluster.report()
    assert f"kill({victim})" in cluster.report()


@pytest.mark.parametrize(("brokers", "limit_s"), [(1, 0.3), (3, 1.0)])
def test_a_start_takes_little(brokers: int, limit_s: float) -> None:
    """In processor time, which a busy machine stretches least: ten times of what it should be
    would make people share one cluster between tests."""
    Cluster(brokers).start().stop()
    begun_s = time.process_time()
    cluster = Cluster(brokers).start()
    took_s = time.process_time() - begun_s
    cluster.stop()

    assert took_s < limit_s


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_forked_child_is_told_that_the_cluster_is_elsewhere() -> None:
    """It waited for ever for a thread that it does not have."""
    with Cluster() as cluster:
        answers = multiprocessing.get_context("fork").SimpleQueue()

        def ask() -> None:
            try:
                cluster.create_topic("t")
            except RuntimeError as error:
                answers.put(str(error))

        child = multiprocessing.get_context("fork").Process(target=ask)
        child.start()
        child.join(20)
        child.kill()
        child.join()
        assert not answers.empty()
        assert "belongs to the process that started it" in answers.get()
