"""Numbers and words that no request can hold are refused in one sentence, before any request."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from ottla.client.cli.arguments import natural, positive
from ottla.client.cli.cluster.reassign import read_plan
from ottla.client.cli.groups.group_moves import read_positions
from ottla.client.cli.parsers.perf import parser as perf_parser
from ottla.client.cli.records.perf_load import VALUES_BYTES_MAX, Load
from ottla.client.cli.run import CommandError
from ottla.client.cli.settings import perf_producer_config
from tests.client.cli.command import is_one_sentence
from tests.client.cli.test_formats import FULL, parsed, written

if TYPE_CHECKING:
    from pathlib import Path

    from ottla.client.producer import Producer
    from tests.client.cli.command import Ottla

HUGE = "9" * 5_000
INT32 = str(2**31)


@pytest.mark.parametrize(
    "arguments",
    [
        ["topics", "create", "t", "-p", INT32],
        ["topics", "create", "t", "-r", "32768"],
        ["topics", "alter", "t", "-p", INT32],
        ["topics", "add-partitions", "t", "-n", INT32],
        ["topics", "trim", f"t:{INT32}", "-o", "end"],
        ["topics", "trim", "t", "-o", f"@{2**63}"],
        ["produce", "t", "-p", INT32],
        ["consume", "t", "-p", INT32],
        ["consume", "t", "-o", f"@{HUGE}"],
        ["consume", "t", "-o", f"e@{2**63}"],
        ["consume", "t", "-c", HUGE],
        ["consume", "^[", "-e"],
        ["consume", "t", "-g", ""],
        ["offsets", "t", "-o", f"@{2**63}"],
        ["groups", "seek", "g", f"t:{INT32}", "--to", "end"],
        ["groups", "delete-offsets", "g", f"t:{INT32}"],
        ["features", "upgrade", "transaction.version=32768"],
        ["transactions", "list", "--longer-than", str(2**63)],
        ["transactions", "abort", f"t:{INT32}"],
        ["cluster", "log-dirs", "--brokers", INT32],
        ["perf", "produce", "-s", "104857601"],
        ["perf", "produce", "--batch-bytes", "33554433"],
        ["perf", "produce", "--linger", INT32],
    ],
)
def test_what_fits_into_no_request_is_a_mistake(ottla: Ottla, arguments: list[str]) -> None:
    """Such input used to end in a traceback, or to take a gigabyte of memory."""
    ended = ottla(*arguments, "-b", "127.0.0.1:1")

    assert ended.status == 2
    assert is_one_sentence(ended.errors)


def test_the_largest_numbers_are_taken() -> None:
    """The next larger number is refused; leading zeros do not count."""
    assert natural(str(2**63 - 1)) == 2**63 - 1
    assert positive("0" * 5_000 + "7", most=7) == 7
    with pytest.raises(ValueError, match="7 is the most"):
        positive("8", most=7)


@pytest.mark.parametrize("line", ["t,0,9223372036854775808", f"t,{INT32},0", "t,0", f"t,0,{HUGE}"])
def test_impossible_positions_are_no_positions(line: str) -> None:
    """The error names the line, since the file may have a thousand."""
    with pytest.raises(CommandError, match="line 1 is not of the form"):
        read_positions(line)


@pytest.mark.parametrize(
    "text",
    [
        '{"partitions": [{"topic": "t", "partition": 2147483648, "replicas": [1]}]}',
        '{"partitions": [{"topic": "t", "partition": 0, "replicas": [2147483648]}]}',
        "[" * 200_000,
    ],
)
def test_a_plan_that_cannot_be_carried_out_is_none(text: str, tmp_path: Path) -> None:
    """A plan written by a program may contain anything."""
    path = tmp_path / "plan.json"
    path.write_text(text)
    with pytest.raises(CommandError, match="is no plan"):
        read_plan(str(path))


@pytest.mark.parametrize(
    "line",
    [
        b"[" * 200_000,
        b'{"value": "v", "timestamp": %d}' % (2**63 - 1),
        b'{"value": "v", "timestamp": %d}' % 10**30,
    ],
)
def test_a_line_that_cannot_be_sent_is_no_record(line: bytes) -> None:
    """The producer or the parser raised it, as a traceback."""
    with pytest.raises(CommandError, match="this line is no record"):
        parsed(line, "-J")


@pytest.mark.parametrize("timestamp", [253402300800_000, 1_700_000_000_000_000, 2**63 - 1])
def test_a_time_that_is_no_date_is_written_as_its_number(timestamp: int) -> None:
    """One record with a timestamp in microseconds must not make the topic unreadable with
    %T{...}."""
    record = FULL._replace(timestamp=timestamp)

    assert written(record, "-f", "%T{%Y}") == b"%d" % timestamp


def test_a_long_linger_leaves_time_to_deliver() -> None:
    """A batch that waits for longer than it may take could never be sent."""
    arguments = perf_parser().parse_args(["produce", "--linger", "60000"])

    assert perf_producer_config(arguments).linger_ms == 60_000


async def test_values_of_a_load_do_not_fill_the_memory() -> None:
    """256 of them, of 100 MB each, were 25 GB before the first was sent."""
    sent: list[bytes] = []

    class Taker:
        async def partition_count(self, _: str) -> None: ...

        async def flush(self) -> None: ...

        async def send_batch(self, _: str, values: list[bytes]) -> Any:
            sent.extend(values)
            return SimpleNamespace(parts=[])

    arguments = perf_parser().parse_args(["produce", "-n", "5", "-s", "20000000", "--batch"])
    load = Load(cast("Producer", Taker()), "t", arguments)
    progress: Any = SimpleNamespace(add=lambda _: None)
    await asyncio.wait_for(load.run(progress), 10)

    assert len(sent) == 5
    assert sum({id(value): len(value) for value in sent}.values()) <= VALUES_BYTES_MAX
