"""``ottla produce`` and ``ottla consume`` against a real broker: what goes in comes out."""

from __future__ import annotations

import asyncio
import json
import signal
from typing import TYPE_CHECKING

import pytest

from tests.client.cli.command import ottla as run_ottla
from tests.client.cli.test_pipes import start

if TYPE_CHECKING:
    from pathlib import Path

    from tests.client.cli.command import Ottla


def test_records_go_to_a_file_and_come_back_the_same(
    broker: str, ottla: Ottla, tmp_path: Path
) -> None:
    """Keys, nulls, headers, timestamps and partitions, through JSON."""
    ottla("topics", "create", "kept", "back", "-p", "2", "-b", broker)
    ottla("produce", "kept", "-K", ":", "-Z", "-H", "h=1", "-b", broker, stdin=b"a:1\nb:\nc:3\n")
    ottla("produce", "kept", "-w", "-b", broker, stdin=b"\xff\n\0")
    kept = ottla("consume", "kept", "-o", "beginning", "-e", "--json", "-b", broker)
    file = tmp_path / "kept.jsonl"
    file.write_bytes(kept.output)

    sent = ottla("produce", "back", "-J", "--same-partitions", str(file), "--json", "-b", broker)
    back = ottla("consume", "back", "-o", "beginning", "-e", "--json", "-b", broker)

    assert json.loads(sent.output) == {"topic": "back", "records": 4}
    by_partition = {
        ended: sorted(ended.output.replace(b'"back"', b'"kept"').splitlines())
        for ended in (kept, back)
    }
    assert by_partition[kept] == by_partition[back]
    assert b'"value":null' in kept.output
    assert b'"value_base64":"/woA"' in kept.output


def test_files_lines_and_delimiters(broker: str, ottla: Ottla, tmp_path: Path) -> None:
    """Several files, one of them standard input; a delimiter of more than one byte."""
    ottla("topics", "create", "cut", "-p", "1", "-b", broker)
    (tmp_path / "one").write_bytes(b"1||2||")
    (tmp_path / "two").write_bytes(b"4|5")
    files = [str(tmp_path / "one"), "-", str(tmp_path / "two")]

    sent = ottla("produce", "cut", "-D", "||", *files, "-b", broker, stdin=b"3")
    lines = ottla("consume", "cut", "-o", "beginning", "-e", "-b", broker)
    nulls = ottla("consume", "cut", "-o", "-2", "-e", "--null", "-b", broker)
    missing = ottla("produce", "cut", str(tmp_path / "none"), "-b", broker)

    assert (sent.status, sent.errors) == (0, "")
    assert lines.output == b"1\n2\n3\n4|5\n"
    assert nulls.output == b"3\x004|5\0"
    assert missing.status == 1
    assert "no such file" in missing.errors


def test_a_line_that_is_no_record_stops_after_those_before_it(broker: str, ottla: Ottla) -> None:
    """Earlier records are delivered, and the error shows the line."""
    ottla("topics", "create", "broken", "-p", "1", "-b", broker)

    ended = ottla("produce", "broken", "-J", "-b", broker, stdin=b'{"value":"a"}\n{oops\n')
    stored = ottla("consume", "broken", "-o", "beginning", "-e", "-b", broker)

    assert ended.status == 1
    assert "this line is no record" in ended.errors
    assert "{oops" in ended.errors
    assert stored.output == b"a\n"


def test_records_that_are_not_delivered_are_counted(broker: str, ottla: Ottla) -> None:
    """With the reason, and as JSON for programs."""
    ottla("topics", "create", "small", "-p", "1", "-c", "max.message.bytes=200", "-b", broker)

    ended = ottla("produce", "small", "--json", "-b", broker, stdin=b"x" * 5000 + b"\n")

    assert ended.status == 1
    assert "1 record is not delivered, of 1 that were sent" in ended.errors
    assert "MESSAGE_TOO_LARGE" in ended.errors or "large" in ended.errors
    document = json.loads(ended.output)
    assert (document["records"], document["failed"]) == (0, 1)


@pytest.mark.parametrize("options", [(), ("-K", ":")])
def test_one_record_too_large_fails_alone(
    broker: str, ottla: Ottla, options: tuple[str, ...]
) -> None:
    """Its batch is sent in pieces (KIP-126), and each piece counts for itself."""
    topic = f"one-too-large-{len(options)}"
    ottla("topics", "create", topic, "-p", "1", "-c", "max.message.bytes=1000", "-b", broker)
    lines = [b"k:%d" % n for n in range(10)]
    lines[5] += b"x" * 5000

    ended = ottla("produce", topic, *options, "--json", "-b", broker, stdin=b"\n".join(lines))
    stored = ottla("consume", topic, "-o", "beginning", "-e", "-b", broker)

    assert ended.status == 1
    assert len(stored.output.splitlines()) == 9
    assert "1 record is not delivered, of 10 that were sent" in ended.errors
    assert "go on with --from-line 6, which sends 4 records again" in ended.errors
    document = json.loads(ended.output)
    assert (document["records"], document["failed"], document["stored_after"]) == (9, 1, 4)


def test_ranges_of_time_and_several_topics(broker: str, ottla: Ottla) -> None:
    """A range of times, over all topics that match."""
    ottla("topics", "create", "year-1", "year-2", "-p", "1", "-b", broker)
    for topic in ("year-1", "year-2"):
        lines = [b'{"value":"%d","timestamp":%d}\n' % (n, n * 1000) for n in range(5)]
        ottla("produce", topic, "-J", "-b", broker, stdin=b"".join(lines))

    between = ottla("consume", "year-1", "-o", "s@1000", "-o", "e@3000", "-b", broker)
    both = ottla("consume", "^year-", "-o", "-1", "-e", "-f", "%t:%v ", "-b", broker)
    two = ottla("consume", "year-1", "-o", "beginning", "-c", "2", "-b", broker)

    assert between.output == b"1\n2\n"
    assert sorted(both.output.split()) == [b"year-1:4", b"year-2:4"]
    assert two.output == b"0\n1\n"


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_member_goes_on_where_its_group_stands(broker: str, ottla: Ottla, protocol: str) -> None:
    """The commit covers exactly the records that were written."""
    topic = f"shared-{protocol}"
    ottla("topics", "create", topic, "-p", "1", "-b", broker)
    ottla("produce", topic, "-b", broker, stdin=b"".join(b"%d\n" % n for n in range(10)))
    member = ("consume", topic, "-g", f"g-{protocol}", "--group-protocol", protocol, "-b", broker)

    some = ottla(*member, "-o", "beginning", "-c", "4")
    rest = ottla(*member, "-e")
    stored = ottla("consume", topic, "-g", f"g-{protocol}", "-p", "0", "-e", "-b", broker)
    described = ottla("groups", "describe", f"g-{protocol}", "--json", "-b", broker)

    assert some.output == b"0\n1\n2\n3\n"
    assert rest.output == b"4\n5\n6\n7\n8\n9\n"
    assert stored.output == b""
    assert json.loads(described.output)[0]["positions"][0]["lag"] == 0


async def test_ctrl_c_commits_what_a_member_has_written(broker: str) -> None:
    """The usual end of a consumer must not lose its place."""
    await run_ottla("topics", "create", "stopped", "-p", "1", "-b", broker)
    await run_ottla("produce", "stopped", "-b", broker, stdin=b"1\n2\n")
    member = ("consume", "stopped", "-g", "stopping", "--group-protocol", "consumer", "-b", broker)
    process = await start(*member, "-o", "beginning")
    assert process.stdout is not None
    async with asyncio.timeout(60):
        assert await process.stdout.readexactly(4) == b"1\n2\n"
    process.send_signal(signal.SIGINT)

    output, errors = await process.communicate()
    left = await run_ottla("offsets", "-g", "stopping", "--csv", "-b", broker)

    assert (process.returncode, output, errors) == (130, b"", b"")
    assert left.output == b"stopped,0,2\n"


def test_a_format_writes_what_it_reads_and_a_filter_keeps_what_it_wants(
    broker: str, ottla: Ottla
) -> None:
    """Binary values as text, and back; -n counts what is written."""
    ottla("topics", "create", "formed", "again", "-p", "1", "-b", broker)
    lines = b"".join(b"%d\t%s\n" % (n, bytes([n, 255, 10]).hex().encode()) for n in range(9))

    sent = ottla("produce", "formed", "-f", r"%k\t%v{hex}\n", "-b", broker, stdin=lines)
    back = ottla("consume", "formed", "-o0", "-e", "-f", r"%k\t%v{hex}\n", "-b", broker)
    some = ottla(
        *("consume", "formed", "-o0", "-n", "2", "-b", broker),
        *("--filter", "key =~ '[357]' and offset > 3", "-f", "%k,%v{pack:BBs$} "),
    )
    wrong = ottla("produce", "formed", "-f", r"%k\t%v{hex}\n", "-b", broker, stdin=b"1\t00\n2\n")
    short = ottla("consume", "formed", "-o0", "-e", "-f", "%v{pack:q}", "-b", broker)

    assert (sent.status, sent.errors, back.output) == (0, "", lines)
    assert some.output == b"5,5 255 \n 7,7 255 \n "
    assert wrong.status == 1
    assert "line 2: this line is not of the form of -f" in wrong.errors
    assert wrong.errors.endswith("go on with --from-line 2\n")
    assert "the record formed-0@0: 3 bytes are fewer than {pack:q} has" in short.errors
