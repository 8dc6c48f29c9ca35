"""The supervisor's handle of one broker process: start, messages both ways, exit."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import ottla
from ottla.coordinator.store.served.messages import encode_parts
from ottla.coordinator.store.served.stream import MessageStream
from ottla.protocol.ports import Address
from ottla.wire.unix import UnixSocket

if TYPE_CHECKING:
    from collections.abc import Callable

CHILD_MODULE = "ottla.broker.cli.child"


class SupervisedProcess:
    """A broker process; creating the object starts it. It calls ``on_closed`` once, when its
    channel has closed: the process has exited or is about to."""

    def __init__(
        self, on_message: Callable[[list[Any]], object], on_closed: Callable[[], object]
    ) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", CHILD_MODULE, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                # Only the supervisor writes to standard output.
                stdout=sys.stderr.fileno(),
                env=_environment(),
                pass_fds=[theirs.fileno()],
                # The supervisor also handles Ctrl-C of a terminal: it stops the processes in order.
                # The process gets no session of its own: some kernels schedule sessions like
                # separate users.
                process_group=0,
            )
        ours.setblocking(False)
        self._stream = MessageStream(
            UnixSocket(ours, Address("", 0)), on_message, lambda _reason: on_closed()
        )

    @property
    def pid(self) -> int:
        """Of the process."""
        return self._process.pid

    def tell(self, *parts: object) -> None:
        """Send a message; a message to a process that has exited is dropped."""
        self._stream.send(encode_parts(*parts))

    def kill(self) -> None:
        """End it at once."""
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()

    def end(self) -> str | None:
        """How it has ended; None while it lives."""
        status = self._process.poll()
        if status is None:
            return None
        self._stream.close()
        if status >= 0:
            return f"has ended with status {status}"
        try:
            return f"was ended by {signal.Signals(-status).name}"
        except ValueError:
            return f"was ended by signal {-status}"


def _environment() -> dict[str, str]:
    """Return the environment of this process, with its Ottla on PYTHONPATH."""
    root = os.path.dirname(os.path.dirname(os.path.abspath(ottla.__file__)))
    paths = [root, *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
