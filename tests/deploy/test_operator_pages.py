"""Commands on the pages for operators are command lines that ``ottla`` understands."""

from __future__ import annotations

import re
import shlex

import pytest

from ottla.verbs import VERBS
from tests.tidy.tree import ROOT

PAGES = ("install", "running", "sizing", "incidents", "moving", "backup")
IN_LINE = re.compile(r"`(ottla [a-z][^`]*)`")
IN_BLOCK = re.compile(r"^(?:\S*/bin/)?(ottla .*)$", re.MULTILINE)


def commands() -> list[tuple[str, str]]:
    """Each with its page; those that only name a verb are none."""
    found = []
    for page in PAGES:
        text = (ROOT / "docs" / f"{page}.md").read_text("utf-8")
        blocks = "".join(re.findall(r"```sh\n(.*?)```", text, re.DOTALL))
        written = (*IN_LINE.findall(text), *IN_BLOCK.findall(blocks))
        found += [(page, " ".join(one.split())) for one in written if one != "ottla --version"]
    return sorted(set(found))


@pytest.mark.parametrize(("page", "command"), commands())
def test_a_command_is_understood(page: str, command: str) -> None:
    """In an incident there is no time for a command that does not exist."""
    _ottla, verb, *words = shlex.split(command.partition(" > ")[0].partition(" # ")[0])
    parser = VERBS[verb].load_parser()()
    try:
        parser.parse_args(words)
    except SystemExit as left:
        # A verb that is only named in a sentence has no operands.
        if left.code != 0 and len(words) > 1:
            pytest.fail(f"docs/{page}.md: {command}")
        with pytest.raises(SystemExit, match="0"):
            parser.parse_args([*words, "--help"])


def test_there_are_many() -> None:
    """The pattern finds them."""
    assert len(commands()) > 30
