"""``ottla spark``: runs the job, if Spark is installed."""

from __future__ import annotations

import importlib
import sys
from typing import TYPE_CHECKING

from ottla.client.cli.run import FAILED

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable


def main(arguments: argparse.Namespace) -> int:
    """Run the command."""
    try:
        # The import error says what is missing or too old, and how to get it.
        importlib.import_module("ottla.client.spark.pyspark_api")
    except ImportError as error:
        sys.stderr.write(f"ottla: {error}\n")
        return FAILED
    command = importlib.import_module("ottla.client.spark.jobs.command")
    perform: Callable[[argparse.Namespace], int] = command.main
    return perform(arguments)
