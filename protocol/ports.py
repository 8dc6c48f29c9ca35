"""The seams: everything outside this process that Ottla talks to, as types only.

Nothing in the machines, and no shell but ``wire/clock.py``, ``wire/real.py`` and
``broker/system/real_disk.py``, touches a clock, a random source, a socket, a file or a thread
directly: it is handed one of these. That is what lets the whole cluster run inside one seeded
simulation. The metadata store is the one seam that is not here: its meaning is long enough for
``coordinator/store/store.py``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence

Buffer = bytes | bytearray | memoryview
Result = TypeVar("Result")


class Address(NamedTuple):
    """A TCP end point. Port 0 in a listen address means: any free one."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


class Timer(Protocol):
    """A callback that is still to come."""

    def cancel(self) -> None:
        """Make sure that the callback does not run. May be called at any time, repeatedly."""


class Clock(Protocol):
    """Two clocks with two names: monotonic for intervals, wall for record timestamps."""

    def now_ms(self) -> float:
        """Milliseconds on a clock that never goes back and has no meaning outside the process."""

    def wall_ms(self) -> int:
        """Milliseconds since 1970-01-01 UTC; may jump either way."""

    def call_at(self, deadline_ms: float, callback: Callable[[], object]) -> Timer:
        """Run the callback once ``now_ms()`` has reached the deadline."""

    async def sleep(self, delay_ms: float) -> None:
        """Return after the delay."""


class Random(Protocol):
    """A source of randomness; in simulation every draw follows from the seed."""

    def child(self, name: str) -> Random:
        """An independent source that depends only on this one's seed and the name."""

    def random(self) -> float:
        """A float in [0, 1)."""

    def below(self, limit: int) -> int:
        """An integer in [0, limit)."""

    def token(self, count: int) -> bytes:
        """That many random bytes, good enough for ids."""


class File(Protocol):
    """An open file. Its descriptor is closed when the last reference to this object goes, so a
    reply that is still being sent keeps a deleted segment readable; there is no ``close``."""

    @property
    def path(self) -> str: ...

    @property
    def size_bytes(self) -> int: ...

    def fileno(self) -> int: ...

    def append(self, buffers: Sequence[Buffer]) -> int:
        """Write all buffers at the end in order and return the bytes written.

        Raises OSError; the file may then end in a part of what was asked (disk full, torn)."""

    def pread(self, count: int, position: int) -> bytes:
        """Up to ``count`` bytes from ``position``; fewer only at the end of the file."""

    def is_resident(self, position: int, count: int) -> bool:
        """Whether a read there is known not to wait for the disk; True where it is unknown."""

    def truncate(self, size_bytes: int) -> None:
        """Cut the file to that size."""

    async def fsync(self) -> None:
        """Return when all that was appended before the call is on the disk. Raises OSError, after
        which nothing about the file's unsynced content may be believed (hazard S-09)."""


class FileLock(Protocol):
    """An exclusive lock that dies with the process."""

    def release(self) -> None: ...


class Disk(Protocol):
    """Files by path. Paths have '/' as separator on every platform.

    Every call may raise OSError with any errno. What only touches the page cache is synchronous;
    what may wait for the device is awaitable."""

    def open(self, path: str, *, create: bool = False) -> File:
        """Open for reading and appending. ``create`` makes an empty file if there is none."""

    def exists(self, path: str) -> bool: ...

    def is_directory(self, path: str) -> bool: ...

    def free_bytes(self, path: str) -> int:
        """Bytes still free on the file system that holds the path."""

    def total_bytes(self, path: str) -> int:
        """The size of the file system that holds the path."""

    def absolute(self, path: str) -> str:
        """The path from the root, with '/' as separator, wherever the process works."""

    def modified_ms(self, path: str) -> int:
        """Wall time of a file's last change, -1 where the disk does not keep it."""

    def boot_id(self) -> str:
        """An id of the machine's current boot; empty where the system has none.

        Data written under another id and not flushed may be lost."""

    def make_directory(self, path: str) -> None:
        """Make the directory and its parents; one that exists already is fine."""

    def lock(self, path: str) -> FileLock:
        """Take the lock file, creating it. Raises BlockingIOError when another process has it."""

    async def scan(self, directory: str) -> list[str]:
        """The names in a directory, sorted. Raises FileNotFoundError."""

    async def rename(self, source: str, target: str) -> None:
        """Atomically replace ``target``; durable after ``fsync_directory`` of its directory."""

    async def unlink(self, path: str) -> None:
        """Remove a file. One that is gone already is fine."""

    async def remove_tree(self, directory: str) -> None:
        """Remove a directory and all below it. What is gone already is fine."""

    async def fsync_directory(self, directory: str) -> None:
        """Make created, renamed and removed names in the directory durable."""


class Transport(Protocol):
    """How the bytes of one connection leave: plaintext or TLS, zero-copy or buffered."""

    def write(self, buffers: Sequence[Buffer], *, more: bool = False) -> int:
        """Send a prefix of the buffers, return its length. Raises BlockingIOError, OSError."""

    def transfer_from(self, file: File, position: int, count: int) -> int:
        """Send a prefix of a file region, return its length; 0 only if the file ended early."""


class FileRegion(NamedTuple):
    """Records that stay in their file until the kernel copies them into a socket."""

    file: File
    position: int
    size_bytes: int

    def write_to(self, transport: Transport) -> int:
        """Send a prefix over the transport's fastest path and return its length."""
        return transport.transfer_from(self.file, self.position, self.size_bytes)

    def read(self) -> bytes:
        """The bytes themselves, for callers that read records (rarely the broker)."""
        return self.file.pread(self.size_bytes, self.position)


class Socket(Protocol):
    """A connected non-blocking stream socket with readiness callbacks on the loop."""

    @property
    def local(self) -> Address: ...

    @property
    def peer(self) -> Address: ...

    def recv_into(self, buffer: memoryview) -> int:
        """Read what is there; 0 means the peer has finished. Raises BlockingIOError, OSError."""

    def sendmsg(self, buffers: Sequence[Buffer], *, more: bool = False) -> int:
        """Send a prefix; ``more`` tells the kernel that the rest of a packet follows at once."""

    def sendfile(self, file: File, position: int, count: int) -> int:
        """Send a prefix of the file region without copying; 0 means the file ended early.

        Raises BlockingIOError, OSError; NotImplementedError where the platform has none."""

    def has_hung_up(self) -> bool:
        """Whether the peer has closed the connection or its sending half, whatever of its bytes
        is still unread. False where that cannot be told. A call into the kernel."""

    def on_readable(self, callback: Callable[[], object] | None) -> None:
        """Call back whenever bytes (or the end) can be read, level-triggered; None stops it."""

    def on_writable(self, callback: Callable[[], object] | None) -> None:
        """Call back whenever there is room to send, level-triggered; None stops it."""

    def close(self) -> None:
        """Drop the callbacks, then close. May be called again."""


class Listener(Protocol):
    """A listening socket."""

    @property
    def address(self) -> Address: ...

    def accept(self) -> Socket:
        """The next waiting connection. Raises BlockingIOError when there is none, OSError."""

    def on_readable(self, callback: Callable[[], object] | None) -> None: ...

    def close(self) -> None: ...


class SocketOptions(NamedTuple):
    """-1 leaves a size to the kernel, as in Kafka's ``socket.*.buffer.bytes``.

    ``silence_ms_max``: a connection whose other side has acknowledged nothing for so long, not even
    that it is there, is given up. Its kernel does that, also for a process that is busy or stopped;
    what does not acknowledge is a cut cable or a dead machine (N-06). -1: some minutes."""

    send_buffer_bytes: int = -1
    receive_buffer_bytes: int = -1
    backlog: int = 50
    silence_ms_max: int = -1


class Net(Protocol):
    """TCP."""

    def listen(self, address: Address, options: SocketOptions) -> Listener:
        """Bind and listen, taking the port at once even after a crash. Raises OSError."""

    async def connect(self, address: Address, options: SocketOptions) -> Socket:
        """Connect. Raises OSError. No time limit of its own: the caller cancels."""


class Offload(Protocol):
    """Work that would stall the event loop: runs in a worker thread, inline in simulation."""

    def run(self, function: Callable[..., Result], *arguments: object) -> Awaitable[Result]:
        """Run the function elsewhere; it must release the GIL or be short, and own its data."""


class Apart(Protocol):
    """What work in a process of its own has of the world. Every call may block."""

    @property
    def disk(self) -> Disk:
        """The files of the broker's disk, by the same paths; nothing awaitable works here."""

    def now_ms(self) -> float:
        """Milliseconds on a clock that never goes back."""

    def pause(self, delay_ms: float) -> None:
        """Return after the delay."""


class Worker(Protocol):
    """A second process of low priority, for work in Python that goes on for long.

    A thread would take turns with the event loop. The process starts at the first use and ends
    some time after the last one, and whenever the broker does."""

    def run(
        self, function: Callable[..., Iterator[Result]], *arguments: object
    ) -> AsyncGenerator[Result, None]:
        """What ``function(apart, *arguments)``, a function of a module, yields over there.

        Each item is made when it is asked for. All goes by value (pickle). Raises what the
        function raises; KafkaError(UNKNOWN_SERVER_ERROR) when the process dies. Closing the
        iteration before its end kills the process."""


class Process(Protocol):
    """The process as its supervisor sees it."""

    @property
    def pid(self) -> int: ...

    def on_stop(self, callback: Callable[[], object]) -> None:
        """Call back on the loop at the first SIGTERM, SIGINT or, unless it is ignored, SIGHUP."""

    def abort(self, reason: str) -> None:
        """Say why on standard error and end at once, without any clean-up."""


class Ports(NamedTuple):
    """Everything outside one broker process, real or simulated.

    Without a worker, as where the disk is in this process's memory, its work is done in slices."""

    clock: Clock
    random: Random
    net: Net
    disk: Disk
    offload: Offload
    process: Process
    worker: Worker | None = None
