"""The command line of ``ottla completion``."""

from __future__ import annotations

from ottla.client.cli.arguments import Parser, one_line_parser

SHELLS = ("bash", "zsh", "fish")


def parser() -> Parser:
    """The command line, as ``ottla completion --help`` shows it."""
    made = one_line_parser(
        "completion",
        "Write a script that lets a shell complete verbs and options of ottla.",
        "completion bash > ~/.local/share/bash-completion/completions/ottla",
    )
    made.add_argument("shell", choices=SHELLS, help="for which shell")
    return made
