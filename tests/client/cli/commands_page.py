"""The reference part of docs/commands.md, written from the parsers.

``python -m tests.client.cli.commands_page`` puts it into the page.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from ottla.client.cli.arguments import Parser, add_client_options
from ottla.verbs import VERBS
from tests.tidy.tree import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE = ROOT / "docs" / "commands.md"
BEGIN = "<!-- from here on written from the parsers -->\n"
# What an argument without a help text of its own names.
OPERANDS = {
    "GROUP": "the consumer group, or groups",
    "NAME": "names",
    "PROFILE": "the profile",
    "NAME=LEVEL": "a feature and its new level",
    "TOPIC": "the topic, or topics",
    "TOPIC:PARTITION": "a partition",
    "TRANSACTIONAL-ID": "the transactional ids",
}


def commands() -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """Every command that can be typed, with the parser that reads what follows it."""
    for name, verb in VERBS.items():
        parser: argparse.ArgumentParser = verb.load_parser()()
        inner = [one for one in parser._actions if isinstance(one, argparse._SubParsersAction)]
        if not inner:
            yield f"ottla {name}", parser
        for action in inner:
            for word, choice in action.choices.items():
                yield f"ottla {name} {word}", choice


def arguments_of(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    """Arguments that belong to this command alone."""
    common = _common()
    return [
        one
        for one in parser._actions
        if (*one.option_strings, one.help) not in common and one.help != argparse.SUPPRESS
    ]


def _common() -> set[tuple[str | None, ...]]:
    """Options that are described once, for all verbs."""
    parser = Parser()
    add_client_options(parser)
    return {(*action.option_strings, action.help) for action in parser._actions}


def shown(action: argparse.Action) -> str:
    """How it is typed."""
    metavar = action.metavar if isinstance(action.metavar, str) else None
    if metavar is None and action.choices is not None:
        metavar = "|".join(map(str, action.choices))
    value = metavar or action.dest.upper()
    if not action.option_strings:
        more = {"+": f"{value} ...", "*": f"[{value} ...]", "?": f"[{value}]"}
        return more.get(str(action.nargs), value)
    names = ", ".join(action.option_strings)
    return names if action.nargs == 0 else f"{names} {value}"


def meaning(action: argparse.Action) -> str:
    """Its help, with what a table and Markdown would take for their own."""
    text = (action.help or "").replace("%%", "%").replace("|", "\\|").replace("<", "\\<")
    return text if action.option_strings or text else OPERANDS[str(action.metavar)]


def reference() -> str:
    """A heading, an example and a table for every command."""
    parts = []
    for name, parser in commands():
        example = (parser.epilog or "").removeprefix("example: ")
        rows = [
            f"| `{shown(one)}` | {meaning(one)} |".replace("|`", "| `")
            for one in arguments_of(parser)
        ]
        # A bar within code still ends a cell.
        rows = [row if row.count("|") == 3 else escaped(row) for row in rows]
        table = "\n".join(["| argument | meaning |", "|---|---|", *rows]) + "\n\n" if rows else ""
        parts.append(f"### {name}\n\n{parser.description}\n\n```sh\n{example}\n```\n\n{table}")
    return "".join(parts).rstrip() + "\n"


def escaped(row: str) -> str:
    """The row with the bars of its first cell escaped."""
    first, code, rest = row.partition("`")
    inside, tick, after = rest.partition("`")
    return first + code + inside.replace("|", "\\|") + tick + after


def expected(page: str) -> str:
    """The page with its reference as it should be."""
    return page.partition(BEGIN)[0] + BEGIN + "\n" + reference()


if __name__ == "__main__":
    PAGE.write_text(expected(PAGE.read_text("utf-8")), "utf-8")
