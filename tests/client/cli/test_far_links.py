"""``ottla produce`` of a file to a broker behind a link of 4 Mbit/s with 400 ms in each direction.

The client, the link and the broker are hosts of their own. The broker tells clients the address of
the link, so the client reaches it in no other way.
"""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, NamedTuple, Self

import pytest

from ottla.client.cli.progress import CLEAR_LINE
from tests.cluster.support.namespaces import Network, missing, network
from tests.support.broker_process import ROOT, BrokerProcess
from tests.support.relays.far_link import FarLink

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

BYTES_PER_S, DELAY_MS = 500_000, 400
FAST_BYTES_PER_S = 1_000_000_000
CUT_S = 10.0
LINE_BYTES = 100
PORT = 9092
TOPIC = "far"
SHARE = re.compile(r" +(\d+)%")
REASON = missing()
pytestmark = [
    pytest.mark.soak,
    pytest.mark.skipif(REASON is not None, reason=REASON or ""),
    pytest.mark.timeout(600),
]


class FarSite(NamedTuple):
    """The hosts, with a broker that serves at the link's address."""

    network: Network

    @property
    def address(self) -> str:
        return f"{self.network.addresses['link']}:{PORT}"

    def link(self, bytes_per_s: int, delay_ms: int) -> FarLink:
        """A link that is not running yet."""
        target = f"{self.network.addresses['broker']}:{PORT}"
        launcher = self.network.launcher("link")
        return FarLink(launcher, self.address, target, bytes_per_s, delay_ms)

    def command(self, *arguments: str) -> list[str]:
        """Of the client's host."""
        words = [sys.executable, "-m", "ottla", *arguments, "-b", self.address]
        return [*self.network.launcher("client"), *words]

    def run(self, *arguments: str) -> bytes:
        """What a command writes that has to succeed, over a link that is no hindrance."""
        with self.link(FAST_BYTES_PER_S, 0):
            done = subprocess.run(
                self.command(*arguments), capture_output=True, cwd=ROOT, timeout=120, check=False
            )
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout

    def stored(self) -> bytes:
        """All records, a line each."""
        return self.run("consume", TOPIC, "-o", "beginning", "-e")


class Shown:
    """A command whose standard error is a terminal."""

    def __init__(self, command: list[str]) -> None:
        self.text = ""
        self._ours, theirs = pty.openpty()
        environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100"}
        self.process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stderr=theirs, cwd=ROOT, env=environment
        )
        os.close(theirs)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.status()
        os.close(self._ours)

    @property
    def is_running(self) -> bool:
        return self.process.poll() is None

    @property
    def shares(self) -> list[int]:
        """Per cent, as shown one after the other."""
        return [int(one) for one in SHARE.findall(self.text)]

    def status(self) -> int:
        """Of the exit, which it waits for."""
        status = self.process.wait(300)
        self._reader.join()
        return status

    def _read(self) -> None:
        """Linux reports the end of a terminal as an error."""
        read = b""
        try:
            while piece := os.read(self._ours, 65_536):
                read += piece
                self.text = read.decode("utf-8", "ignore")
        except OSError:
            pass


@pytest.fixture
def site(tmp_path: Path) -> Iterator[FarSite]:
    with network(("client", "link", "broker")) as made:
        site = FarSite(made)
        broker = BrokerProcess(
            tmp_path / "data",
            options={"advertised.listeners": f"PLAINTEXT://{site.address}"},
            port=PORT,
            extra=["--host", made.addresses["broker"]],
            launcher=made.launcher("broker"),
        )
        with broker:
            site.run("topics", "create", TOPIC, "-p", "1")
            yield site


def lines_file(folder: Path, size: int) -> Path:
    """A file of numbered lines, no two of them alike."""
    path = folder / "lines.txt"
    numbers = range(1, size // LINE_BYTES + 1)
    path.write_bytes(b"".join(b"%08d %s\n" % (one, b"x" * (LINE_BYTES - 10)) for one in numbers))
    return path


def test_a_file_arrives_whole_and_once_over_a_slow_link_that_is_cut(
    site: FarSite, tmp_path: Path
) -> None:
    """26 MB take a minute, more than ``--timeout``; in the middle the link is dead for 10 s."""
    path = lines_file(tmp_path, 26_000_000)
    begun = time.monotonic()
    with (
        site.link(BYTES_PER_S, DELAY_MS) as link,
        Shown(site.command("produce", TOPIC, str(path))) as produce,
    ):
        link.wait_until_carried(13_000_000, lambda: produce.is_running)
        site.network.cut_both("client", "link")
        time.sleep(2)
        at_the_cut = link.carried_bytes
        time.sleep(CUT_S - 2)
        assert link.carried_bytes == at_the_cut
        site.network.heal()
        status = produce.status()
        took_s = time.monotonic() - begun
        print(f"{took_s:.1f} s, {link.carried_bytes} bytes")

    assert status == 0, produce.text
    assert took_s > path.stat().st_size / BYTES_PER_S + CUT_S
    # The bar shows what is read. All of the file fits into memory, where it waits for the link.
    assert produce.text.endswith(CLEAR_LINE)
    assert "ottla:" not in produce.text
    assert site.stored() == path.read_bytes()


def test_a_cut_longer_than_the_timeout_is_reported_and_the_rest_sent_later(
    site: FarSite, tmp_path: Path
) -> None:
    """The error says at which line to go on. A batch may be stored although its acknowledgement is
    lost, so the broker may get it again; no line is missing. With little memory the bar goes as
    the link does, and it is removed before the error."""
    path = lines_file(tmp_path, 4_000_000)
    memory = ("-X", "buffer.memory=500000")
    command = ("produce", TOPIC, str(path), "--timeout", "5", *memory)
    with (
        site.link(BYTES_PER_S, DELAY_MS) as link,
        Shown(site.command(*command)) as produce,
    ):
        link.wait_until_carried(1_500_000, lambda: produce.is_running)
        site.network.cut_both("client", "link")
        status = produce.status()
        site.network.heal()
        text, shares = produce.text, produce.shares
        print(f"{shares[-1]} % at the cut, {len(shares)} times: {text[-300:]!r}")

    assert status == 1
    assert shares == sorted(shares)
    # A piece of the file is a sixteenth of it.
    assert len(set(shares)) > 3
    assert 35 < shares[-1] < 80
    assert f"{CLEAR_LINE}ottla: " in text
    assert "no acknowledgement within 5000 ms" in text
    place = re.search(r"go on with --from-line (\d+)", text)
    assert place is not None, text
    assert int(place[1]) > 1
    stored = site.stored().splitlines()
    assert len(stored) >= int(place[1]) - 1
    assert len(set(stored)) == len(stored)

    site.run(*command, "--from-line", place[1])

    assert sorted(set(site.stored().splitlines())) == path.read_bytes().splitlines()
