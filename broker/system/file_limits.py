"""What this process may use: open files and sockets, and core dumps."""

from __future__ import annotations

import contextlib
import sys

if sys.platform != "win32":
    import resource

# Some machines allow a thousand million, and programs have tables that grow with it.
DESCRIPTORS_MAX = 1_048_576


def reachable(soft: int, hard: int) -> int:
    """What a process with these limits can give itself; -1 stands for no limit, as in them."""
    if soft == -1:
        return soft
    return max(soft, DESCRIPTORS_MAX if hard == -1 else min(hard, DESCRIPTORS_MAX))


def raise_descriptor_limit() -> None:
    """Take all that is allowed: shells and service managers begin with 1,024, for programs of long
    ago, and every segment and connection needs some."""
    if sys.platform == "win32":
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    # Some kernels allow less than they say.
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (reachable(soft, hard), hard))


def forbid_core_dumps() -> None:
    """A dump of a broker's memory would contain its passwords and keys."""
    if sys.platform != "win32":
        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
