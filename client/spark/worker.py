"""What a worker of Spark does for all tasks that it runs."""

from __future__ import annotations

import gc
import itertools
import os
from functools import cache

from ottla.client.spark.pyspark_api import TaskContext


def begin_task() -> None:
    """Call it where a task begins. Does nothing outside of Spark's tasks.

    After each task Spark has the worker look through all its objects for garbage, and its next
    task waits for that, longer than a short task takes. Nearly all of them are modules, which never
    go. So what is there when the second task begins, just looked through, is passed over from then
    on."""
    if TaskContext.get() is not None and next(_tasks(os.getpid())) == 1:
        gc.freeze()


@cache
def _tasks(process_id: int) -> itertools.count[int]:
    return itertools.count()
