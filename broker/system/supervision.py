"""What the process owes the program that supervises it: a container's engine, or systemd.

The first process of a container gets the orphans of all others, such as those of commands that an
engine runs inside, and has to take their exit statuses, or they stay in the table of processes.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import FrameType

FIRST = 1
REAP_INTERVAL_S = 5.0
NOTIFY_VARIABLE = "NOTIFY_SOCKET"


def serve_as_first(process_id: int, *, reaps: bool = True) -> None:
    """Do what only the first process of a container has to do; nothing in any other process.

    Without ``reaps`` the caller takes the exit statuses itself, by ``reap``. The kernel ignores
    signals of the first process that have no handler: until the loop has its own, SIGTERM ends the
    process, which has nothing to flush yet."""
    if process_id != FIRST or sys.platform == "win32":
        return
    signal.signal(signal.SIGTERM, _leave)
    if reaps:
        threading.Thread(target=_reap_for_ever, name="ottla-reaper", daemon=True).start()


def _leave(number: int, frame: FrameType | None) -> None:
    sys.exit(0)


def _reap_for_ever() -> None:
    pause = threading.Event()
    while not pause.wait(REAP_INTERVAL_S):
        reap()


def reap() -> int:
    """Take the exit statuses of all children that have ended; return how many.

    The worker's may be among them: its owner then finds that it has gone."""
    count = 0
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            count += 1
    except ChildProcessError:
        pass
    return count


def tell_systemd(state: str, environment: Mapping[str, str]) -> bool:
    """Send a state, such as ``READY=1``, to a systemd that waits for it; return whether one does.

    A unit of ``Type=notify`` counts as started when its process has said so."""
    address = environment.get(NOTIFY_VARIABLE, "")
    if not address.startswith(("/", "@")) or not hasattr(socket, "AF_UNIX"):
        return False
    # A name that begins with @ is one in the abstract namespace.
    path = address.replace("@", "\0", 1) if address.startswith("@") else address
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
            channel.sendto(state.encode(), path)
    except OSError:
        return False
    return True
