"""Prepares a Spark worker for the tasks that it runs."""

from __future__ import annotations

import gc
import itertools
import os
from functools import cache

from ottla.client.spark.pyspark_api import TaskContext


def begin_task() -> None:
    """Call at the start of a task. Does nothing outside of Spark's tasks.

    After each task Spark runs a full garbage collection in the worker, and the next task waits for
    it, longer than a short task takes. Nearly all objects belong to modules and stay. So the
    objects that exist when the second task begins, just collected, are frozen."""
    if TaskContext.get() is not None and next(_tasks(os.getpid())) == 1:
        gc.freeze()


@cache
def _tasks(process_id: int) -> itertools.count[int]:
    return itertools.count()
