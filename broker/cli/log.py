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
from ottla.broker.log.recovery.dump import dump_file, line_of
from ottla.broker.system.real_disk import RealDisk, RealOffload
from ottla.client.cli.output import json_line

if TYPE_CHECKING:
    import argparse


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


def main(arguments: argparse.Namespace) -> int:
    """Run the command."""
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
