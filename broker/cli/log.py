"""``ottla log dump FILE`` and ``ottla log repair DIR``: the files of a broker that is stopped.

``dump`` only reads: for people who want to know why a partition is offline, or what a producer
really sent. Its exit status is 1 if anything is wrong in the file. For ``repair`` read
``log_repair.py``.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from ottla.broker.cli.log_repair import repair
from ottla.broker.log.dump import dump_file, line_of
from ottla.broker.real import RealDisk, RealOffload
from ottla.client.cli.arguments import Parser
from ottla.client.cli.output import json_line

if TYPE_CHECKING:
    from collections.abc import Sequence


def parser() -> Parser:
    """The command line, as ``ottla log --help`` shows it."""
    made = Parser(prog="ottla log", description="Look into the files of a stopped broker.")
    verbs = made.add_subparsers(dest="verb", required=True, metavar="VERB")
    dump = verbs.add_parser(
        "dump",
        help="print what is in a file of a partition",
        description="Print what is in a file of a partition, one line for each batch or entry. "
        "Only reads.",
    )
    dump.add_argument("file", metavar="FILE", help="a segment, one of its indexes, or a checkpoint")
    dump.add_argument("--records", action="store_true", help="print every record as well")
    mend = verbs.add_parser(
        "repair",
        help="say which logs are damaged and, if wanted, cut them there",
        description="Say which logs are damaged, where, and what would be lost by cutting them "
        "there. Changes nothing unless --truncate is given, and then keeps what it cuts.",
    )
    mend.add_argument(
        "directory", metavar="DIR", help="a data directory (log.dirs), or a partition's in it"
    )
    mend.add_argument("--truncate", action="store_true", help="cut damaged logs at the damage")
    for each in (dump, mend):
        each.add_argument(
            "--format",
            choices=("text", "json"),
            default="text",
            help="how to write results (default text)",
        )
    return made


def dump(path: Path, *, records: bool, as_json: bool) -> int:
    """Print what is in a file; 1 if something is wrong there. Raises OSError."""
    status = 0
    file = RealDisk(RealOffload()).open(str(path.resolve()))
    for entry in dump_file(file, records=records):
        if entry.is_problem:
            status = 1
        line = json_line({"kind": entry.kind, **entry.fields}) if as_json else line_of(entry)
        sys.stdout.write(line.removesuffix("\n") + "\n")
    return status


def main(argv: Sequence[str]) -> int:
    """Run the command."""
    arguments = parser().parse_args(argv)
    as_json = arguments.format == "json"
    if arguments.verb == "repair":
        return repair(Path(arguments.directory), truncate=arguments.truncate, as_json=as_json)
    path = Path(arguments.file)
    if not path.is_file():
        if path.is_dir():
            problem = "is a directory; name a file in it"
        else:
            problem = "is not a file" if path.exists() else "does not exist"
        sys.stderr.write(f"ottla: {path} {problem}\n")
        return 1
    try:
        return dump(path, records=arguments.records, as_json=as_json)
    except BrokenPipeError:
        # The reader (head, a pager) has seen enough.
        sys.stderr.close()
        return 0
    except OSError as error:
        sys.stderr.write(f"ottla: cannot read {path}: {error.strerror}\n")
        return 1
