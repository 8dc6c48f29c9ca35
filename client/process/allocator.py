"""Memory that has been freed stays with the process, so that large buffers do not cost it again.

The C library takes large blocks from the kernel and gives them back when they are freed; every
batch and every answer of half a megabyte then begins with pages that the kernel has to find, clear
and map. Producers and consumers go through the same few sizes again and again.
"""

from __future__ import annotations

import importlib
import os
import sys
from functools import cache

# Of mallopt in glibc.
_TRIM_THRESHOLD = -1
_MMAP_THRESHOLD = -3
# The most that glibc takes: half of what it gives threads at a time.
LARGE_BYTES = 32 * 1024 * 1024
KEPT_BYTES_MAX = 64 * 1024 * 1024
VARIABLE = "OTTLA_KEEP_FREED_MEMORY"


@cache
def keep_freed_memory() -> bool:
    """Keep up to ``KEPT_BYTES_MAX`` at the end of the heap when they are free; for the whole
    process, from the first call on.

    Returns False, having done nothing, without glibc, where the environment says
    ``OTTLA_KEEP_FREED_MEMORY=0``, and where it has settings of its own for the allocator."""
    if os.environ.get(VARIABLE, "1") == "0" or not sys.platform.startswith("linux"):
        return False
    if any(name.startswith("MALLOC_") or name == "GLIBC_TUNABLES" for name in os.environ):
        return False
    try:
        mallopt = importlib.import_module("ctypes").CDLL(None).mallopt
    except (ImportError, OSError, AttributeError):
        return False
    return bool(mallopt(_MMAP_THRESHOLD, LARGE_BYTES) and mallopt(_TRIM_THRESHOLD, KEPT_BYTES_MAX))
