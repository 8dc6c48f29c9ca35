"""The real randomness and network, behind the seams of ``protocol/ports.py``.

Sockets are raw and non-blocking; readiness comes from the event loop's ``add_reader`` and
``add_writer``, never from transports or streams, so that the owner of a connection also owns its
buffers and may use sendfile.
"""

from __future__ import annotations

import asyncio
import errno
import os
import random
import select
import socket
import sys
from typing import TYPE_CHECKING, Protocol

from ottla.protocol.ports import Address, SocketOptions

if sys.platform != "win32":
    import resource

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ottla.protocol.ports import Buffer, File

# Linux's UIO_MAXIOV; more buffers in one call are refused with EMSGSIZE.
BUFFERS_PER_CALL_MAX = 1024

# A peer that vanished without a FIN is detected after about two minutes when idle and three when
# bytes are unacknowledged (N-06). The last limit also ends peers that keep their window closed that
# long, so it must exceed the time a correct consumer needs between two reads.
KEEPALIVE_IDLE_SECONDS = 60
KEEPALIVE_INTERVAL_SECONDS = 10
KEEPALIVE_PROBES = 6
USER_TIMEOUT_MS = 180_000

# The part of the process's descriptors that accepted connections may not use, and its maximum.
RESERVED_PART, RESERVED_MAX = 8, 1024

# Other systems have no SO_RCVLOWAT, or acknowledge on their own schedule.
IS_LINUX = sys.platform == "linux"
# The poll event of a peer that sends nothing more. poll reports errors in any case.
HUNG_UP: int = getattr(select, "POLLRDHUP", 0)
MSG_MORE: int = getattr(socket, "MSG_MORE", 0)
SENDFILE = getattr(os, "sendfile", None)
# The errors of file systems and kernels without sendfile for this pair of descriptors.
NO_SENDFILE = frozenset({errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOTSUP})


class Poller(Protocol):
    """Reports readable descriptors in place of the event loop, in whose thread it calls back."""

    def add(self, descriptor: int, callback: Callable[[], object]) -> None:
        """Call back whenever the descriptor can be read. Raises OSError."""

    def remove(self, descriptor: int) -> None:
        """Call back no more. To be called before the descriptor is closed."""

    def close(self) -> None:
        """End once all descriptors are removed. May be called again."""


class RealRandom:
    """The operating system's randomness, which is not predictable from earlier values."""

    __slots__ = ("_source",)

    def __init__(self) -> None:
        self._source = random.SystemRandom()

    def child(self, name: str) -> RealRandom:
        assert name
        return RealRandom()

    def random(self) -> float:
        return self._source.random()

    def below(self, limit: int) -> int:
        return self._source.randrange(limit)

    def token(self, count: int) -> bytes:
        return os.urandom(count)


class RealSocket:
    """A connected non-blocking socket. Owned by one connection, which closes it."""

    __slots__ = (
        "_loop",
        "_reading",
        "_socket",
        "_writing",
        "descriptor",
        "local",
        "peer",
        "poller",
        "recv_into",
    )

    def __init__(self, connected: socket.socket, poller: Poller | None = None) -> None:
        self._socket = connected
        # -1 once it is closed.
        self.descriptor = connected.fileno()
        self.poller = poller
        self._loop = asyncio.get_running_loop()
        self._reading = False
        self._writing = False
        # Read once: both are needed after the peer has gone, and on hot paths (N-17).
        self.local = address_of(connected.getsockname())
        self.peer = address_of(connected.getpeername())
        self.recv_into: Callable[[memoryview], int] = connected.recv_into

    def sendmsg(self, buffers: Sequence[Buffer], *, more: bool = False) -> int:
        flags = MSG_MORE if more else 0
        if len(buffers) == 1:
            return self._socket.send(buffers[0], flags)
        return self._socket.sendmsg(buffers[:BUFFERS_PER_CALL_MAX], (), flags)

    def sendfile(self, file: File, position: int, count: int) -> int:
        if SENDFILE is None:
            raise NotImplementedError("this platform has no sendfile")
        try:
            sent: int = SENDFILE(self.descriptor, file.fileno(), position, count)
        except OSError as error:
            if error.errno in NO_SENDFILE:
                raise NotImplementedError(str(error)) from error
            raise
        return sent

    def has_hung_up(self) -> bool:
        if self.descriptor == -1:
            return True
        if not HUNG_UP:
            return self._has_ended()
        poll = select.poll()
        poll.register(self.descriptor, HUNG_UP)
        return bool(poll.poll(0))

    def _has_ended(self) -> bool:
        """Peek for the end of the stream, where poll cannot report it; unread bytes hide it."""
        try:
            return not self._socket.recv(1, socket.MSG_PEEK)
        except (BlockingIOError, InterruptedError):
            return False
        except OSError:
            return True

    def await_bytes(self, count: int) -> None:
        """Call the reader only when this many bytes have arrived; 0 for any number.

        Not part of the seam: see ``receive_buffer.py``. Does nothing on systems other than
        Linux."""
        if IS_LINUX and self.descriptor != -1:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, max(count, 1))

    def on_readable(self, callback: Callable[[], object] | None) -> None:
        poller = self.poller
        if callback is not None:
            if poller is not None:
                poller.add(self.descriptor, callback)
            else:
                self._loop.add_reader(self.descriptor, callback)
        elif self._reading:
            if poller is not None:
                poller.remove(self.descriptor)
            else:
                self._loop.remove_reader(self.descriptor)
        self._reading = callback is not None

    def on_writable(self, callback: Callable[[], object] | None) -> None:
        if callback is not None:
            self._loop.add_writer(self._socket.fileno(), callback)
        elif self._writing:
            self._loop.remove_writer(self._socket.fileno())
        self._writing = callback is not None

    def close(self) -> None:
        # Remove the descriptor from the loop first: its number may be reused as soon as the socket
        # is closed.
        self.on_readable(None)
        self.on_writable(None)
        self.descriptor = -1
        self._socket.close()


class RealListener:
    """A listening socket. Owned by one acceptor, which closes it."""

    __slots__ = ("_descriptors_max", "_listening", "_loop", "_poller", "_reading", "address")

    def __init__(self, listening: socket.socket, poller: Poller | None = None) -> None:
        self._listening = listening
        self._poller = poller
        self._descriptors_max = descriptors_for_peers()
        self._loop = asyncio.get_running_loop()
        self._reading = False
        self.address = address_of(listening.getsockname())

    def accept(self) -> RealSocket:
        connected, _ = self._listening.accept()
        if connected.fileno() >= self._descriptors_max:
            # The kernel assigns the lowest free number. One connection less is better than a broker
            # that cannot open files: its logs would go offline.
            connected.close()
            raise OSError(errno.EMFILE, "the last descriptors are kept for files")
        return prepare(connected, poller=self._poller)

    def on_readable(self, callback: Callable[[], object] | None) -> None:
        if callback is not None:
            self._loop.add_reader(self._listening.fileno(), callback)
        elif self._reading:
            self._loop.remove_reader(self._listening.fileno())
        self._reading = callback is not None

    def close(self) -> None:
        self.on_readable(None)
        self._listening.close()
        if self._poller is not None:
            self._poller.close()


def descriptors_for_peers() -> int:
    """The first descriptor number that accepted connections may not use."""
    if sys.platform == "win32":
        return sys.maxsize
    limit: int = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if limit == resource.RLIM_INFINITY:
        return sys.maxsize
    return limit - min(limit // RESERVED_PART, RESERVED_MAX)


class RealNet:
    """TCP over IPv4 and IPv6. An empty listen host means every interface.

    ``make_poller`` makes for each listener what its accepted sockets are read with, or gives None:
    then, and without it, the event loop reports what can be read."""

    __slots__ = ("_make_poller",)

    def __init__(self, make_poller: Callable[[], Poller | None] | None = None) -> None:
        self._make_poller = make_poller

    def listen(self, address: Address, options: SocketOptions) -> RealListener:
        family, bind_to = listen_address(address)
        listening = socket.socket(family, socket.SOCK_STREAM)
        try:
            listening.setblocking(False)
            if sys.platform != "win32":  # on Windows it would share the port with another process
                listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                only_six = 0 if address.host == "" else 1
                listening.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, only_six)
            set_buffers(listening, options)
            listening.bind(bind_to)
            listening.listen(options.backlog)
            return RealListener(listening, self._make_poller() if self._make_poller else None)
        except BaseException:
            listening.close()
            raise

    async def connect(self, address: Address, options: SocketOptions) -> RealSocket:
        failure: OSError | None = None
        for family, _, _, _, resolved in await resolve(address):
            try:
                return await connect_one(family, resolved, options)
            except OSError as error:
                failure = error
        raise failure or ConnectionRefusedError(errno.ECONNREFUSED, f"no address for {address}")


async def resolve(address: Address) -> list[tuple[int, int, int, str, tuple[object, ...]]]:
    """Look an address up, as ``getaddrinfo`` does.

    A numeric host is converted here. Only a name may need a resolver that blocks: it is looked up
    in a thread of the loop's default executor.
    """
    try:
        return [
            *socket.getaddrinfo(
                host_name(address.host),
                address.port,
                type=socket.SOCK_STREAM,
                flags=socket.AI_NUMERICHOST,
            )
        ]
    except socket.gaierror:
        found = await asyncio.get_running_loop().getaddrinfo(
            host_name(address.host), address.port, type=socket.SOCK_STREAM
        )
        return [*found]


async def connect_one(
    family: int, resolved: tuple[object, ...], options: SocketOptions
) -> RealSocket:
    """Connect to one resolved address; the socket is closed when that fails or is cancelled."""
    connecting = socket.socket(family, socket.SOCK_STREAM)
    try:
        connecting.setblocking(False)
        set_buffers(connecting, options)
        await asyncio.get_running_loop().sock_connect(connecting, resolved)
        if connecting.getsockname() == connecting.getpeername():
            # If no process listens on a local port of the ephemeral range, the kernel may pick that
            # very port as ours: TCP then connects the socket to itself.
            raise ConnectionRefusedError(errno.ECONNREFUSED, "connected to itself")
        return prepare(connecting, options.silence_ms_max)
    except BaseException:
        connecting.close()
        raise


def prepare(
    connected: socket.socket, silence_ms_max: int = -1, poller: Poller | None = None
) -> RealSocket:
    """Set the options of a connected socket; closes the socket if that fails (N-15)."""
    idle_seconds, interval_seconds = KEEPALIVE_IDLE_SECONDS, KEEPALIVE_INTERVAL_SECONDS
    probes, user_timeout_ms = KEEPALIVE_PROBES, USER_TIMEOUT_MS
    if silence_ms_max != -1:
        # Without TCP_USER_TIMEOUT the last probe ends the connection.
        idle_seconds = interval_seconds = max(1, silence_ms_max // 3000)
        probes, user_timeout_ms = 2, silence_ms_max
    try:
        connected.setblocking(False)
        connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in (
            ("TCP_KEEPIDLE", idle_seconds),
            ("TCP_KEEPINTVL", interval_seconds),
            ("TCP_KEEPCNT", probes),
            ("TCP_USER_TIMEOUT", user_timeout_ms),
        ):
            option = getattr(socket, name, None)
            if option is not None:
                connected.setsockopt(socket.IPPROTO_TCP, option, value)
        return RealSocket(connected, poller)
    except BaseException:
        connected.close()
        raise


def set_buffers(any_socket: socket.socket, options: SocketOptions) -> None:
    """Set the kernel's buffer sizes, before connecting, because the window scale is negotiated
    then. Accepted sockets inherit the sizes of their listener."""
    if options.send_buffer_bytes != -1:
        any_socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, options.send_buffer_bytes)
    if options.receive_buffer_bytes != -1:
        any_socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, options.receive_buffer_bytes)


def listen_address(address: Address) -> tuple[int, tuple[object, ...]]:
    """The address family and the value for ``bind``."""
    if address.host == "":
        if socket.has_dualstack_ipv6():
            return socket.AF_INET6, ("::", address.port)
        return socket.AF_INET, ("0.0.0.0", address.port)
    found = socket.getaddrinfo(
        host_name(address.host), address.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )
    family, _, _, _, bind_to = found[0]
    return family, bind_to


def host_name(host: str) -> str | bytes:
    """The host as the resolver takes it: for text Python would load the IDNA codec."""
    return host.encode("ascii") if host.isascii() else host


def address_of(name: tuple[object, ...]) -> Address:
    """Convert a socket name; an IPv4 peer of a dual-stack listener appears as IPv4."""
    host, port = name[0], name[1]
    assert isinstance(host, str)
    assert isinstance(port, int)
    return Address(host.removeprefix("::ffff:"), port)
