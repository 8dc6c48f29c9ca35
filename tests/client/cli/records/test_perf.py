"""``ottla perf`` against a real broker: its results and its progress line."""

from __future__ import annotations

import asyncio
import io
import json
import os
import signal
import termios
from typing import TYPE_CHECKING

import pytest

from ottla.client.cli.progress import CLEAR_LINE, ProgressLine, amount, bar_line
from ottla.client.cli.records.perf_figures import Figures, as_document, as_text, percentile
from tests.client.cli.test_pipes import start

if TYPE_CHECKING:
    from tests.client.cli.command import Ottla
    from tests.client.support.toy_broker import ToyCluster


@pytest.mark.parametrize(
    "arguments",
    [
        ["produce", "-n", "500"],
        ["produce", "-n", "500", "--batch", "-z", "zstd", "--acks", "1", "-s", "10"],
        ["produce", "-n", "50", "-r", "1000"],
        ["consume", "-n", "500"],
        ["consume", "-n", "500", "--batch"],
        ["latency", "-n", "5", "-r", "100"],
    ],
    ids=" ".join,
)
def test_a_cluster_is_measured(broker: str, ottla: Ottla, arguments: list[str]) -> None:
    """All records are counted, and the topic that was created for the run is deleted afterwards."""
    ended = ottla("perf", *arguments, "--json", "-b", broker)
    left = ottla("topics", "list", "-b", broker)

    assert (ended.status, ended.errors) == (0, "")
    document = json.loads(ended.output)
    assert document["kind"] == arguments[0]
    assert document["records"] == int(arguments[2])
    assert document["records_per_second"] > 0
    assert ("latency_ms" in document) == (arguments[0] != "consume")
    assert b"ottla-perf" not in left.output


def test_a_topic_that_is_named_stays(broker: str, ottla: Ottla) -> None:
    """An existing topic is read to its end and not deleted."""
    ottla("topics", "create", "measured", "-p", "2", "-b", broker)

    empty = ottla("perf", "consume", "measured", "-b", broker)
    ottla("perf", "produce", "measured", "-n", "100", "-b", broker)
    read = ottla("perf", "consume", "measured", "-n", "5000", "--json", "-b", broker)

    assert empty.status == 1
    assert "'measured' is empty" in empty.errors
    assert json.loads(read.output)["records"] == 100


@pytest.mark.parametrize(
    ("count", "share", "expected"),
    [(1, 0.5, 1), (2, 0.5, 1), (3, 0.5, 2), (100, 0.99, 99), (1000, 0.999, 999), (10, 1.0, 10)],
)
def test_a_percentile_is_a_value_that_was_measured(count: int, share: float, expected: int) -> None:
    """The smallest that so many do not exceed; nothing is made up between two."""
    assert percentile([float(n) for n in range(1, count + 1)], share) == expected


def test_figures_are_text_and_json() -> None:
    """The same numbers for people and for programs."""
    figures = Figures("produce", "t", 1000, 100_000, 0.5, [1.0] * 999 + [9.0])

    assert as_text(figures) == (
        "produce: 1,000 records in 0.50 s: 2,000 records/s, 0.20 MB/s\n"
        "latency: average 1.01 ms, p50 1.00, p99 1.00, p99.9 1.00, max 9.00\n"
    )
    assert json.loads(as_document(figures))["latency_ms"]["max"] == 9.0


class Terminal(io.StringIO):
    """An output stream that claims to be a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.fixture
def term(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")


@pytest.mark.usefixtures("term")
def test_progress_is_for_terminals_and_leaves_nothing_behind() -> None:
    """In a pipe or a log it would be litter."""
    plain, terminal = io.StringIO(), Terminal()
    for stream in (plain, terminal):
        with ProgressLine("records", 10, stream) as progress:
            progress.add(10)

    assert plain.getvalue() == ""
    assert terminal.getvalue().endswith(CLEAR_LINE)


@pytest.mark.usefixtures("term")
def test_progress_stays_on_one_line_of_a_narrow_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrapped progress line was cleared in its last row only, ten times a second."""
    monkeypatch.setattr("ottla.client.cli.progress.SECONDS_BETWEEN", 0.0)
    ours, theirs = os.openpty()
    termios.tcsetwinsize(theirs, (24, 20))
    with (
        open(theirs, "w", encoding="utf-8") as stream,
        ProgressLine("records", 9, stream) as progress,
    ):
        progress.add(3)
        shown = os.read(ours, 4_096).decode()
    os.close(ours)

    assert shown.startswith(CLEAR_LINE)
    assert len(shown.removeprefix(CLEAR_LINE)) == 19


def test_a_dumb_terminal_gets_no_line_that_it_cannot_clear(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An editor's shell, say."""
    monkeypatch.setenv("TERM", "dumb")
    terminal = Terminal()
    with ProgressLine("records", 10, terminal) as progress:
        progress.add(10)

    assert terminal.getvalue() == ""


@pytest.mark.parametrize(
    ("done", "total", "expected"),
    [
        (0, 100, "························   0%  0 records  0 records/s"),
        (50, 100, "████████████············  50%  50 records  25 records/s  2 s left"),
        (100, 100, "████████████████████████ 100%  100 records  50 records/s"),
        (1234, None, "1,234 records  617 records/s"),
    ],
)
def test_the_line_says_how_far_how_fast_and_how_long(
    done: int, total: int | None, expected: str
) -> None:
    """Without a total there is no bar, but still a sign of life."""
    assert bar_line(done, total, 2.0, "records") == expected


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1536, "1.5 KiB"),
        (3 * 1024**3, "3.0 GiB"),
        (2**50, "1024.0 TiB"),
    ],
)
def test_amounts_are_short(number: int, text: str) -> None:
    """In the units that disks are filled in."""
    assert amount(number, "bytes") == text


@pytest.mark.parametrize("how", [(), ("--batch",)])
async def test_an_interrupted_load_says_nothing(toy: ToyCluster, how: tuple[str, ...]) -> None:
    """Each batch under way left a traceback: some hundred thousand characters."""
    topic = toy.add_topic("t")
    process = await start("perf", "produce", "t", "-n", "1000000000", *how, "-b", toy.bootstrap)
    while not topic.partitions[0].batches:
        await asyncio.sleep(0.005)
    process.send_signal(signal.SIGINT)

    async with asyncio.timeout(60):
        output, errors = await process.communicate()

    assert (process.returncode, output, errors) == (130, b"", b"")
