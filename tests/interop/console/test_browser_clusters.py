"""Each page in a real browser: of Apache Kafka, and of a cluster that loses a broker under load.

Screenshots are kept in ``build/console``.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

import ottla
from ottla.sync import Admin, Producer
from tests.interop.console.consoles import PICTURES, console_process
from tests.interop.console.test_browser import PAGES
from tests.interop.console.webdriver import chromium, is_installed
from tests.interop.support.apache import ApacheCluster
from tests.interop.support.clients import JAVA_VERSIONS, needs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.interop.console.webdriver import Chromium

pytestmark = [
    pytest.mark.interop,
    pytest.mark.slow,
    pytest.mark.timeout(600),
    pytest.mark.skipif(not is_installed(), reason="needs chromium and chromium-driver"),
]
STATUS = "return performance.getEntriesByType('navigation')[0].responseStatus"
COUNT = 20


@pytest.fixture(scope="module")
def browser() -> Iterator[Chromium]:
    """Chromium."""
    with chromium() as found:
        yield found


def _fill(servers: str) -> None:
    """Records of a topic, and a group with positions."""
    with Producer(servers) as producer:
        for number in range(COUNT):
            producer.send("orders", b'{"n": %d}' % number, key=b"k", partition=0)
        producer.flush()
    with Admin(servers) as admin:
        admin.groups.commit("readers", {ottla.TopicPartition("orders", 0): ottla.Committed(5)})


def _look(browser: Chromium, address: str, name: str, prefix: str) -> str:
    """The text of a page, which is one: no error, and nothing that the policy refuses."""
    browser.open(address + PAGES[name])
    browser.until("return document.readyState === 'complete'")
    browser.picture(PICTURES / f"{prefix}-{name}.png")

    text: str = browser.run("return document.querySelector('main').innerText")
    assert browser.run(STATUS) == 200, (name, text)
    assert browser.run("return document.querySelectorAll('main h1').length") == 1, name
    assert browser.complaints() == [], name
    return text


@pytest.mark.parametrize("version", JAVA_VERSIONS)
def test_each_page_shows_apache_kafka(
    browser: Chromium, tmp_path_factory: pytest.TempPathFactory, version: str
) -> None:
    """What Kafka lacks is left out, and breaks no page; what it has is there."""
    needs("java", "mvn")
    with ApacheCluster(version, tmp_path_factory.mktemp("kafka")) as cluster:
        cluster.create_topic("orders", partitions=3)
        _fill(cluster.bootstrap_servers)
        with console_process(cluster.bootstrap_servers) as address:
            browser.open(f"{address}/group?id=readers")
            # Kafka does not tell at once of a group that has positions alone.
            browser.until(
                "const answer = new XMLHttpRequest();"
                "answer.open('GET', '/api/group?id=readers', false);"
                "answer.send(); return answer.status === 200"
            )
            browser.complaints()
            texts = {name: _look(browser, address, name, f"kafka-{version}") for name in PAGES}

    assert "orders" in texts["topics"]
    assert f'"n": {COUNT - 1}' in texts["records"]
    assert str(COUNT - 5) in texts["group"]
    assert cluster.brokers[1].address.rpartition(":")[2] in texts["cluster"]


def _cluster_says(fact: str) -> str:
    """A script that tells whether it holds for what the page of the cluster shows."""
    return (
        "const answer = new XMLHttpRequest(); answer.open('GET', '/api/cluster', false);"
        f"answer.send(); const found = JSON.parse(answer.responseText); return {fact}"
    )


@contextmanager
def _load(cluster: ottla.Cluster) -> Iterator[None]:
    """Records all the time, also while a broker is away."""
    ended = threading.Event()

    def load() -> None:
        with Producer(cluster.bootstrap_servers) as producer:
            while not ended.wait(0.02):
                for _ in range(20):
                    producer.send("orders", b"x" * 200)

    loading = threading.Thread(target=load)
    loading.start()
    try:
        yield
    finally:
        ended.set()
        loading.join()


def test_each_page_is_there_while_a_broker_is_not(browser: Chromium) -> None:
    """An incident is when people look: every page answers before it, in it and after it."""
    with ottla.Cluster(brokers=3) as cluster:
        cluster.create_topic("orders", partitions=3, replication_factor=3)
        _fill(cluster.bootstrap_servers)
        with _load(cluster), console_process(cluster.bootstrap_servers) as address:
            for name in PAGES:
                _look(browser, address, name, "whole")
            cluster.faults.kill(3)
            try:
                browser.until(_cluster_says("found.under_replicated > 0"))
                without = {name: _look(browser, address, name, "without-3") for name in PAGES}
            finally:
                cluster.faults.restart(3)
            browser.until(
                _cluster_says("found.under_replicated === 0 && found.brokers.length === 3")
            )
            again = {name: _look(browser, address, name, "whole-again") for name in PAGES}

    assert "orders" in without["topics"]
    assert "orders" in again["topics"]
    assert without["cluster"] != again["cluster"]
