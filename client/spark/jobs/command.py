"""``ottla spark``: the job of that name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.client.spark.jobs import aggregate, copy, load, transform
from ottla.client.spark.jobs.running import run

if TYPE_CHECKING:
    import argparse

JOBS = {
    "load": load.perform,
    "copy": copy.perform,
    "transform": transform.perform,
    "aggregate": aggregate.perform,
}


def main(arguments: argparse.Namespace) -> int:
    """Run the command."""
    return run(JOBS[arguments.verb], arguments)
