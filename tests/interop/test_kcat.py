"""kcat, the tool on a command line that people reach for first."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING

import pytest

from tests.interop.support.clients import needs

if TYPE_CHECKING:
    from tests.interop.conftest import Bootstrap

pytestmark = pytest.mark.interop


def kcat(broker: Bootstrap, *arguments: str, stdin: str = "") -> str:
    """Run it and return what it wrote to standard output."""
    needs("kcat")
    version = subprocess.run(["kcat", "-V"], capture_output=True, text=True, check=True).stdout
    broker.used_by(f"kcat_{version.partition('Version ')[2].split()[0]}")
    done = subprocess.run(
        ["kcat", "-b", broker.address, *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_lines_come_back_with_keys_and_headers(broker: Bootstrap, topic: str, codec: str) -> None:
    """-K splits keys, -Z makes empty values null, -J shows what was stored."""
    lines = "".join(f"k{n}:value {n}\n" for n in range(500)) + "gone:\n"
    sending = ["-P", "-t", topic, "-p", "0", "-K:", "-Z", "-H", "a=1", "-H", "b=2", "-z", codec]
    kcat(broker, *sending, stdin=lines)

    text = kcat(broker, "-C", "-t", topic, "-p", "0", "-o", "beginning", "-e", "-q", "-J")

    found = [json.loads(line) for line in text.splitlines()]
    assert [one["offset"] for one in found] == list(range(501))
    assert [one["payload"] for one in found] == [f"value {n}" for n in range(500)] + [None]
    assert found[7]["key"] == "k7"
    assert found[7]["headers"] == ["a", "1", "b", "2"]


@pytest.mark.parametrize(
    ("offset", "first"), [("beginning", 0), ("-3", 7), ("4", 4), ("s@1", 0)], ids=str
)
def test_reading_begins_where_it_is_told(
    broker: Bootstrap, topic: str, offset: str, first: int
) -> None:
    """By name, from the end, by number and by time."""
    kcat(broker, "-P", "-t", topic, "-p", "0", stdin="".join(f"{n}\n" for n in range(10)))

    text = kcat(broker, "-C", "-t", topic, "-p", "0", "-o", offset, "-e", "-q")

    assert text.split() == [str(n) for n in range(first, 10)]


def test_the_cluster_is_listed(broker: Bootstrap, topic: str) -> None:
    """Users call ``kcat -L`` first, to see whether a broker is there at all."""
    kcat(broker, "-P", "-t", topic, stdin="x\n")

    listed = json.loads(kcat(broker, "-L", "-J"))

    assert [one["id"] for one in listed["brokers"]] == [1]
    (found,) = [one for one in listed["topics"] if one["topic"] == topic]
    assert [one["leader"] for one in found["partitions"]] == [1, 1]


def test_an_offset_is_asked_for_by_time(broker: Bootstrap, topic: str) -> None:
    """-Q asks for one offset and reads nothing."""
    kcat(broker, "-P", "-t", topic, "-p", "0", stdin="a\nb\n")

    assert kcat(broker, "-Q", "-t", f"{topic}:0:1").split() == [topic, "[0]", "offset", "0"]
