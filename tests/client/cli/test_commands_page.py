"""The reference page, the examples in the help, and how little is loaded for either."""

from __future__ import annotations

import shlex
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from ottla.client.cli.arguments import Parser
from ottla.verbs import VERBS
from tests.client.cli.commands_page import PAGE, commands, expected

if TYPE_CHECKING:
    import argparse

COMMANDS = dict(commands())


def test_the_page_says_what_the_parsers_say() -> None:
    """``python -m tests.client.cli.commands_page`` regenerates the page."""
    page = PAGE.read_text("utf-8")

    assert page == expected(page)
    assert "SUPPRESS" not in page


@pytest.mark.parametrize("name", COMMANDS)
def test_every_example_is_a_command_line_that_is_understood(name: str) -> None:
    """An example that does not work is worse than none."""
    epilog = COMMANDS[name].epilog or ""
    assert epilog.startswith(f"example: {name}"), epilog
    example = epilog.removeprefix("example: ").partition(" > ")[0].partition(" < ")[0]
    _ottla, verb, *words = shlex.split(example)

    VERBS[verb].load_parser()().parse_args(words)


def _all_parsers() -> list[argparse.ArgumentParser]:
    return [*COMMANDS.values(), *(verb.load_parser()() for verb in VERBS.values())]


def test_all_verbs_use_the_same_words() -> None:
    """One sentence for mistakes, no abbreviations that a new option could break, and --json
    wherever there is --format."""
    for parser in _all_parsers():
        options = {name for one in parser._actions for name in one.option_strings}

        assert isinstance(parser, Parser)
        assert parser.epilog, parser.prog
        assert ("--json" in options) == ("--format" in options), parser.prog


def _loaded(*arguments: str) -> set[str]:
    """The modules that a command has loaded when it ends."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "ottla", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    lines = [line for line in done.stderr.splitlines() if line.startswith("import time:")]
    return {line.rpartition("|")[2].strip() for line in lines}


@pytest.mark.parametrize(
    "arguments",
    [["--version"], ["--help"], ["topics", "--help"], ["start", "--help"], ["__complete", "co"]],
)
def test_help_loads_no_client_and_no_broker(arguments: list[str]) -> None:
    """A command that takes half a second to say its version feels broken."""
    loaded = _loaded(*arguments)

    assert not loaded & {"asyncio", "ssl", "uvloop", "ottla.wire.connection"}
    assert not [name for name in loaded if name.startswith("ottla.protocol.messages.")]
    if arguments == ["--version"]:
        assert "argparse" not in loaded
