"""Completion: the words that may come next, and the scripts in the shells themselves."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ottla.client.cli.completing import CandidateSource
from ottla.completion import completion_of

if TYPE_CHECKING:
    from tests.client.cli.command import Ottla


def texts(line: str) -> list[str]:
    """The words that may end the line, which begins behind ``ottla``."""
    return [word.text for word in completion_of(line.split(" ")).words]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("co", ["consume", "configs", "console", "completion"]),
        ("topics cr", ["create"]),
        ("-b x:1 topics cr", ["create"]),
        ("topics -b x:1 cr", ["create"]),
        ("topics --json a", ["alter", "alter-config", "add-partitions"]),
        ("consume t --format ", ["text", "json"]),
        ("consume t --format=j", ["--format=json"]),
        ("produce t -z l", ["lz4"]),
        ("produce -z lz4 t --ac", ["--acks"]),
        ("completion ", ["bash", "zsh", "fish"]),
        ("configs describe b", ["broker"]),
        ("topics create t --part", ["--partitions"]),
        ("consume t --ex", ["--exit"]),
        ("consume t -e --ex", []),
        ("consume -o end t --off", ["--offset"]),
        ("--ver", ["--version"]),
        ("nonsense x", []),
    ],
)
def test_words_come_from_the_parsers(line: str, expected: list[str]) -> None:
    """A list kept by hand would be wrong after the next option."""
    assert texts(line) == expected


@pytest.mark.parametrize(
    ("line", "source"),
    [
        ("consume ", CandidateSource.TOPICS),
        ("consume a ", CandidateSource.TOPICS),
        ("consume -c 5 ", CandidateSource.TOPICS),
        ("groups describe ", CandidateSource.GROUPS),
        ("consume t -g ", CandidateSource.GROUPS),
        ("consume t -c ", CandidateSource.NOWHERE),
        ("produce t ", CandidateSource.FILES),
        ("log dump ", CandidateSource.FILES),
        ("topics ", CandidateSource.NOWHERE),
    ],
)
def test_names_and_files_are_known_by_what_help_calls_them(
    line: str, source: CandidateSource
) -> None:
    """A value that the help calls TOPIC is completed with topic names."""
    assert completion_of(line.split(" ")).source is source


def test_topics_and_groups_come_from_the_broker(broker: str, ottla: Ottla) -> None:
    """Without a broker the completion offers nothing and prints no error."""
    ottla("topics", "create", "completed-1", "completed-2", "-b", broker)

    found = ottla("__complete", "-b", broker, "consume", "complet")
    none = ottla("__complete", "-b", "127.0.0.1:1", "consume", "complet")

    assert found.output == b":words\ncompleted-1\t\ncompleted-2\t\n"
    assert none == (0, b":words\n", "")


BASH = r"""
source <(ottla completion bash)
COMP_LINE="$1" COMP_POINT=${#1}
# As readline does: : and = are words of their own.
read -ra COMP_WORDS <<< "$(sed 's/\([:=]\)/ \1 /g' <<< "$1")"
[[ "$1" == *[[:space:]] ]] && COMP_WORDS+=("")
COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
compopt() { echo "files"; }
_ottla
printf '%s\n' "${COMPREPLY[@]}"
"""
ZSH = r"""
autoload -Uz compinit && compinit -u -D
source <(ottla completion zsh)
_describe() { print -l -- "${(@)found%%:*}"; }
_files() { print files; }
words=("${(@s: :)1}")
CURRENT=$#words
_ottla
"""
FISH = r"""
ottla completion fish | source
complete -C "$argv[1]" | string replace -r '\t.*' ''
"""
SHELLS = {"bash": ("-c", BASH, "bash"), "zsh": ("-fc", ZSH, "zsh"), "fish": ("-c", FISH)}


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("ottla conf", ["configs"]),
        ("ottla -b x:1 topics cre", ["create"]),
        ("ottla produce t -z ", ["none", "gzip", "snappy", "lz4", "zstd"]),
        ("ottla produce t --acks", ["--acks"]),
    ],
)
def test_the_shells_complete(shell: str, line: str, expected: list[str], tmp_path: Path) -> None:
    """The script is run by the shell that it is for."""
    assert completed(shell, line, tmp_path) == expected


def completed(shell: str, line: str, tmp_path: Path) -> list[str]:
    """The shell's completions at the end of the line, with our script loaded."""
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"{shell} is not installed")
    command = tmp_path / "ottla"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m ottla "$@"\n')
    command.chmod(0o755)
    root = Path(__file__).parents[3]
    surroundings = {
        **os.environ,
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "PYTHONPATH": str(root),
        "HOME": str(tmp_path),
    }

    done = subprocess.run(
        [program, *SHELLS[shell], line],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=surroundings,
    )

    assert done.stderr == ""
    return [word for word in done.stdout.split("\n") if word]


def test_equal_signs_and_colons_are_not_repeated_by_bash(tmp_path: Path) -> None:
    """Bash replaces only what follows them."""
    assert completed("bash", "ottla consume t --format=j", tmp_path) == ["json"]
