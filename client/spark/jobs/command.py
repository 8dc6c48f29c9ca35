"""Runs the job that ``ottla spark`` names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.client.spark.jobs import aggregate, bulk_copy, load, transform
from ottla.client.spark.jobs.running import Job, run

if TYPE_CHECKING:
    import argparse

JOBS: dict[str, Job] = {
    "load": load.JOB,
    "copy": bulk_copy.JOB,
    "transform": transform.JOB,
    "aggregate": aggregate.JOB,
}


def main(arguments: argparse.Namespace) -> int:
    """Run the command."""
    return run(JOBS[arguments.verb], arguments)
