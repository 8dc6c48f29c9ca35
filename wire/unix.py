"""Connections between processes of one machine, through a socket in a directory.

The host of an address is the socket's path, its port 0. Only the user who made the socket can
connect to it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import stat
from typing import TYPE_CHECKING

from ottla.wire.real import RealListener, RealSocket, descriptors_for_peers

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ottla.protocol.ports import Address, SocketOptions

# 108 bytes with the closing zero on Linux, 104 elsewhere.
PATH_BYTES_MAX = 103
BACKLOG = 128


class UnixSocket(RealSocket):
    """A connected socket."""

    __slots__ = ()

    def __init__(self, connected: socket.socket, address: Address) -> None:
        self._socket = connected
        self.descriptor = connected.fileno()
        self.poller = None
        self._loop = asyncio.get_running_loop()
        self._reading = self._writing = False
        self.local = self.peer = address
        self.recv_into = connected.recv_into


class UnixListener(RealListener):
    """A listening socket; its name goes when it is closed."""

    __slots__ = ()

    def __init__(self, listening: socket.socket, address: Address) -> None:
        self._listening = listening
        self._poller = None
        self._descriptors_max = descriptors_for_peers()
        self._loop = asyncio.get_running_loop()
        self._reading = False
        self.address = address

    def accept(self) -> UnixSocket:
        connected, _ = self._listening.accept()
        connected.setblocking(False)
        return UnixSocket(connected, self.address)

    def close(self) -> None:
        super().close()
        with contextlib.suppress(OSError):
            os.unlink(self.address.host)


class UnixNet:
    """See ``Net``."""

    __slots__ = ()

    def listen(self, address: Address, options: SocketOptions) -> UnixListener:
        """Listen at the path. The caller makes sure that no other process listens there, for
        example by a lock: a socket that was left there is removed. Raises OSError."""
        path = address.host
        with contextlib.suppress(FileNotFoundError):
            if stat.S_ISSOCK(os.lstat(path).st_mode):
                os.unlink(path)
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            listening.setblocking(False)
            # Linux makes the name with the mode of the socket, so it is never open to others.
            os.fchmod(listening.fileno(), stat.S_IRUSR | stat.S_IWUSR)
            with _short(path) as name:
                listening.bind(name)
            os.chmod(path, stat.S_IRUSR | stat.S_IWUSR)
            listening.listen(max(options.backlog, BACKLOG))
            return UnixListener(listening, address)
        except BaseException:
            listening.close()
            raise

    async def connect(self, address: Address, options: SocketOptions) -> UnixSocket:
        """Connect. Raises OSError."""
        connecting = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connecting.setblocking(False)
            with _short(address.host) as name:
                await asyncio.get_running_loop().sock_connect(connecting, name)
            return UnixSocket(connecting, address)
        except BaseException:
            connecting.close()
            raise


@contextlib.contextmanager
def _short(path: str) -> Iterator[str]:
    """The path, or for one that is too long for a socket's name a shorter one through an open
    directory, which Linux has."""
    if len(os.fsencode(path)) <= PATH_BYTES_MAX:
        yield path
        return
    directory, name = os.path.split(path)
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        yield f"/proc/self/fd/{descriptor}/{name}"
    finally:
        os.close(descriptor)
