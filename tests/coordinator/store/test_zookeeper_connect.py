"""The text of ``zookeeper.connect``."""

from __future__ import annotations

import pytest

from ottla.coordinator.store.zookeeper import ConnectString, parse_connect


@pytest.mark.parametrize(
    ("text", "hosts", "chroot"),
    [
        ("localhost:2181", "localhost:2181", ""),
        ("a:1,b:2, c:3/kafka", "a:1,b:2,c:3", "/kafka"),
        ("zk-1.example.org", "zk-1.example.org", ""),
        ("a:1/x/y/", "a:1", "/x/y"),
        ("a:1/", "a:1", ""),
        ("[::1]:2181,b/x", "[::1]:2181,b", "/x"),
    ],
)
def test_hosts_and_chroot_are_told_apart(text: str, hosts: str, chroot: str) -> None:
    """One chroot follows all hosts, as in Kafka."""
    assert parse_connect(text) == ConnectString(hosts, chroot)


@pytest.mark.parametrize(
    "text", ["", "/x", "a:1,", "a:0", "a:70000", "a:x", "a b:1", "a:1//x", "a:1/../x", "a:1/x/./y"]
)
def test_a_slip_of_the_pen_is_told_at_once(text: str) -> None:
    """Otherwise the broker would look for a host of that name until its time is up."""
    with pytest.raises(ValueError, match=r"zookeeper\.connect"):
        parse_connect(text)
