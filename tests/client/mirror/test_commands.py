"""``ottla mirror`` on the command line, and its page in the documentation."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
import signal
import tomllib
from typing import TYPE_CHECKING

import pytest

from ottla import Cluster, Consumer, TopicPartition
from ottla.client.mirror.settings import from_document
from ottla.verbs import VERBS
from tests.client.cli.command import in_process, is_one_sentence
from tests.client.mirror.clusters import fill
from tests.tidy.tree import ROOT

if TYPE_CHECKING:
    from tests.client.cli.command import Ottla

PAGE = (ROOT / "docs" / "mirror.md").read_text("utf-8")


@pytest.fixture
def ottla(capfdbinary: pytest.CaptureFixture[bytes]) -> Ottla:
    return in_process(capfdbinary)


async def group_at(bootstrap: str, where: TopicPartition, offset: int) -> None:
    async with Consumer(bootstrap, group_id="billing") as consumer:
        consumer.assign([where])
        await consumer.commit({where: offset})


def test_a_group_moves_with_the_records_it_has_read(
    west: Cluster, central: Cluster, ottla: Ottla
) -> None:
    """A common reason to mirror is to continue in the other cluster."""
    west.create_topic("orders", 1)
    asyncio.run(fill(west.bootstrap_servers, "orders", [b"%d" % n for n in range(10)]))
    run = ("mirror", "run", "-b", central.bootstrap_servers, "--exit", "--json")
    options = ("--from", f"west={west.bootstrap_servers}", "--rename", "{source}.{topic}")
    copied = ottla(*run, *options, "orders")
    assert copied.status == 0, copied.errors
    last = json.loads(copied.output.splitlines()[-1])
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    # The last line of output says whether all records were copied.
    assert (last["records"], last["partitions"], last["lag"]) == (10, 1, 0)
    asyncio.run(group_at(west.bootstrap_servers, TopicPartition("orders", 0), 4))

    found = ottla("mirror", "translate", "-b", central.bootstrap_servers, "west", "orders:0", "4")
    carried = ottla(
        *("mirror", "groups", "-b", central.bootstrap_servers, "--json"),
        *("--from", f"west={west.bootstrap_servers}", "^bill"),
    )
    stands = ottla("groups", "describe", "-b", central.bootstrap_servers, "--json", "billing")

    assert found.output == b"west.orders:0 4\n"
    assert [one["status"] for one in json.loads(carried.output)] == ["stored"]
    (group,) = json.loads(stands.output)
    assert [(one["topic"], one["position"]) for one in group["positions"]] == [("west.orders", 4)]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("run", "orders"), "name sources by --from"),
        (("run", "--from", "west", "orders"), "not of the form ALIAS=HOST:PORT"),
        (("run", "--from", "a=x:1", "--rename", "x", "orders"), "rename is made of"),
        (("run", "--from", "a=x:1", "--file", "x.toml"), "in the file or on the command line"),
        (("translate", "nowhere", "orders:0", "4"), "has no copies of 'nowhere'"),
        (("translate", "west", "orders", "4"), "not of the form TOPIC:PARTITION"),
    ],
)
def test_a_mistake_is_one_sentence(
    central: Cluster, ottla: Ottla, arguments: tuple[str, ...], sentence: str
) -> None:
    """An operator who mistypes reads one line instead of a traceback."""
    ended = ottla("mirror", arguments[0], "-b", central.bootstrap_servers, *arguments[1:])

    assert ended.status != 0
    assert is_one_sentence(ended.errors)
    assert sentence in ended.errors


def blocks(language: str) -> list[str]:
    """The page's examples in that language."""
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def test_the_commands_of_the_page_are_commands() -> None:
    """Commands that a reader copies from the page have to work."""
    lines = [
        line
        for block in blocks("sh")
        for line in block.replace("\\\n", " ").splitlines()
        if line.startswith("ottla ")
    ]
    assert len(lines) >= 5
    for line in lines:
        words = shlex.split(line)[1:]
        VERBS[words[0]].load_parser()().parse_args(words[1:])


def test_the_file_of_the_page_is_a_configuration() -> None:
    """The example would otherwise keep a setting that was renamed."""
    (text,) = blocks("toml")

    made = from_document(tomllib.loads(text))

    assert [source.alias for source in made.sources] == ["west", "east"]


async def test_the_code_of_the_page_copies(west: Cluster, central: Cluster) -> None:
    """Users start from the code of the page."""
    (code,) = blocks("python")
    west.create_topic("page", 1)
    await fill(west.bootstrap_servers, "page", [b"1"])
    code = code.replace("west:9092", west.bootstrap_servers)
    code = code.replace("central:9092", central.bootstrap_servers).replace('"orders"', '"page"')
    names: dict[str, object] = {}
    exec(code, names)
    copy = names["copy"]
    assert callable(copy)

    assert [one.records for one in await copy()] == [1]
