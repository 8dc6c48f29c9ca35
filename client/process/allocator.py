"""Keeps freed memory in the process, so that large buffers are cheap to allocate again.

The C library maps large blocks from the kernel and returns them when they are freed; every batch
and every answer of half a megabyte would begin with pages that the kernel has to find, clear and
map. Producers and consumers reuse the same few sizes.
"""

from __future__ import annotations

import importlib
import os
import sys
from functools import cache

# Parameters of glibc's mallopt.
_TRIM_THRESHOLD = -1
_MMAP_THRESHOLD = -3
# The largest threshold that glibc accepts: half of a thread's heap.
LARGE_BYTES = 32 * 1024 * 1024
KEPT_BYTES_MAX = 64 * 1024 * 1024
VARIABLE = "OTTLA_KEEP_FREED_MEMORY"


@cache
def keep_freed_memory() -> bool:
    """Keep up to ``KEPT_BYTES_MAX`` of freed memory at the end of the heap, for the whole process,
    from the first call on.

    Changes nothing and returns False without glibc, if the environment has
    ``OTTLA_KEEP_FREED_MEMORY=0``, or if it configures the allocator itself."""
    if os.environ.get(VARIABLE, "1") == "0" or not sys.platform.startswith("linux"):
        return False
    if any(name.startswith("MALLOC_") or name == "GLIBC_TUNABLES" for name in os.environ):
        return False
    try:
        mallopt = importlib.import_module("ctypes").CDLL(None).mallopt
    except (ImportError, OSError, AttributeError):
        return False
    return bool(mallopt(_MMAP_THRESHOLD, LARGE_BYTES) and mallopt(_TRIM_THRESHOLD, KEPT_BYTES_MAX))
