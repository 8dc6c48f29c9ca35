"""How many watches brokers have in a real ZooKeeper."""

from __future__ import annotations

import socket
import time
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from ottla import NewTopic
from ottla.sync import Admin
from tests.zookeeper.test_brokers import LIMIT_SECONDS, Site

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FEW, MANY = 2, 60


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """A site without running brokers."""
    made = Site(tmp_path)
    yield made
    made.close()


def watches(place: str) -> Counter[str]:
    """How many sessions watch each path, as the server itself counts them."""
    address, _, chroot = place.partition("/")
    host, _, port = address.partition(":")
    with socket.create_connection((host, int(port)), timeout=30) as asked:
        asked.sendall(b"wchp")
        text = b"".join(iter(lambda: asked.recv(65_536), b"")).decode()
    found: Counter[str] = Counter()
    path = ""
    for line in text.splitlines():
        if line.startswith("/"):
            path = line.strip()
        elif line.strip() and path.startswith(f"/{chroot}/"):
            found[path.removeprefix(f"/{chroot}")] += 1
    return found


def watches_at_rest(place: str) -> Counter[str]:
    """The same once the controller watches the list of topics and the topic again: it reads what it
    has written itself a moment later."""
    begin = time.monotonic()
    while "/brokers/topics/t" not in (found := watches(place)):
        assert time.monotonic() - begin < LIMIT_SECONDS
        time.sleep(0.02)
    return found


def wait_until_led(site: Site, count: int) -> None:
    """Each partition of the topic has a leader, by what is written in the tree."""
    begin = time.monotonic()
    paths = [f"/brokers/topics/t/partitions/{number}/state" for number in range(count)]
    while not all(site.tree.exists(path) and site.read(path)["leader"] != -1 for path in paths):
        assert time.monotonic() - begin < LIMIT_SECONDS
        time.sleep(0.02)


@pytest.mark.requirement("CTL-47")
def test_watches_do_not_grow_with_partitions(site: Site) -> None:
    """A watch of each broker on each partition would call all of them at every election: thousands
    of reads at the moment when the ensemble has the most to do."""
    first = site.broker(1, "first").start()
    second = site.broker(2, "second").start()
    with Admin(f"{first.address},{second.address}") as admin:
        admin.create_topic(NewTopic("t", FEW, 2))
        wait_until_led(site, FEW)
        before = watches_at_rest(site.place)
        admin.create_partitions("t", MANY)
        wait_until_led(site, MANY)
        after = watches_at_rest(site.place)

    assert before["/controller"] >= 1
    assert after.total() == before.total()
    assert [path for path in after if "/partitions/" in path] == []
