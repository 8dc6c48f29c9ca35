"""The real worker: a second Python process of low priority, fed through pipes.

Not multiprocessing, which would import the program that started the broker once more. Messages are
pickles behind their length. The child ends when its input does, so it cannot outlive the broker
however that ends; and after a minute without work, so that an idle broker is one small process.
"""

from __future__ import annotations

import asyncio
import os
import pickle
import queue
import signal
import struct
import subprocess
import sys
import threading
import time
from typing import IO, TYPE_CHECKING, Any, TypeVar

from ottla.broker.system.real_disk import RealDisk, RealOffload
from ottla.protocol.errors import CorruptLogError, ErrorCode, KafkaError
from ottla.wire.signals import hangups

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Iterator

    from ottla.protocol.ports import Disk, Result

IDLE_S = 60.0
_NICENESS = 19
_LENGTH = struct.Struct(">Q")
# The child finds modules where its parent does, installed or not.
_PROGRAM = (
    "import sys; sys.path[:] = sys.argv[1:]; "
    "from ottla.broker.system.worker_process import serve; serve()"
)
_BEGUN, _ITEM, _END, _FAILED = "begun", "item", "end", "failed"
Value = TypeVar("Value")


class RealWorker:
    """``ports.Worker``: one child at a time. Runs that overlap take turns."""

    def __init__(self, idle_s: float = IDLE_S) -> None:
        self._idle_s = idle_s
        self._child: subprocess.Popen[bytes] | None = None
        self._turn = asyncio.Lock()

    @property
    def process_id(self) -> int | None:
        """The child's, None while there is none."""
        child = self._child
        return child.pid if child is not None and child.poll() is None else None

    def close(self) -> None:
        """End the child, which would also end by itself, and wait for it."""
        child, self._child = self._child, None
        if child is not None:
            child.kill()
            _reap(child)

    async def run(
        self, function: Callable[..., Iterator[Result]], *arguments: object
    ) -> AsyncGenerator[Result, None]:
        """As ``ports.Worker.run`` says."""
        async with self._turn:
            is_over = False
            try:
                await _in_thread(self._begin, (function, arguments))
                while True:
                    kind, value = await _in_thread(self._next)
                    if kind == _ITEM:
                        yield value
                        continue
                    is_over = True
                    if kind == _FAILED:
                        raise _error_of(*value)
                    return
            finally:
                if not is_over:
                    self._kill()

    # In a thread that only waits for the child.

    def _begin(self, work: tuple[object, ...]) -> None:
        """Start the work, in a fresh child if the last one has ended meanwhile."""
        for _ in range(2):
            child = self._child
            if child is None or child.poll() is not None:
                if child is not None:
                    _reap(child)
                child = self._child = _start(self._idle_s)
            assert child.stdin is not None
            assert child.stdout is not None
            try:
                _write(child.stdin, work)
                if _read(child.stdout) == (_BEGUN, None):
                    return
            except (OSError, EOFError):
                child.kill()
                child.wait()
        raise _lost("cannot be started")

    def _next(self) -> tuple[str, Any]:
        child = self._child
        assert child is not None
        assert child.stdin is not None
        assert child.stdout is not None
        try:
            _write(child.stdin, None)
            kind, value = _read(child.stdout)
        except (OSError, EOFError):
            raise _lost(f"has ended with status {child.wait()}") from None
        return kind, value

    def _kill(self) -> None:
        child, self._child = self._child, None
        if child is not None:
            child.kill()
            # Reaped elsewhere: it may have to wait for the disk before it can die.
            threading.Thread(target=_reap, args=(child,), daemon=True).start()


def _reap(child: subprocess.Popen[bytes]) -> None:
    child.wait()
    for pipe in (child.stdin, child.stdout):
        if pipe is not None:
            try:
                pipe.close()
            except OSError:
                continue


def _error_of(kind: str, facts: tuple[Any, ...]) -> Exception:
    if kind == "os":
        return OSError(*facts)
    if kind == "corrupt":
        return CorruptLogError(*facts)
    return KafkaError(ErrorCode(facts[0]), facts[1])


def _lost(what: str) -> KafkaError:
    return KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"the worker process {what}")


def _start(idle_s: float) -> subprocess.Popen[bytes]:
    environment = {**os.environ, "OTTLA_WORKER_IDLE_S": str(idle_s)}
    return subprocess.Popen(
        [sys.executable, "-c", _PROGRAM, *sys.path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=environment,
    )


async def _in_thread(function: Callable[..., Value], *arguments: object) -> Value:
    """Run as an executor would, in a daemon thread: the end of the program does not wait for it."""
    loop = asyncio.get_running_loop()
    waiter: asyncio.Future[Value] = loop.create_future()

    def settle(result: Value | None, error: BaseException | None) -> None:
        if waiter.done():
            return
        if error is not None:
            waiter.set_exception(error)
        else:
            waiter.set_result(result)  # type: ignore[arg-type]  # Value may include None

    def work() -> None:
        result, failure = None, None
        try:
            result = function(*arguments)
        except Exception as error:
            failure = error
        try:
            loop.call_soon_threadsafe(settle, result, failure)
        except RuntimeError:
            return  # the loop has been closed: no caller waits any more

    threading.Thread(target=work, name="worker", daemon=True).start()
    return await waiter


def _write(pipe: IO[bytes], message: object) -> None:
    content = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
    pipe.write(_LENGTH.pack(len(content)) + content)
    pipe.flush()


def _read(pipe: IO[bytes]) -> Any:
    """The next message. Raises EOFError at the end."""
    head = pipe.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        raise EOFError
    content = pipe.read(_LENGTH.unpack(head)[0])
    return pickle.loads(content)


# ---- in the child ----


class RealApart:
    """``ports.Apart``."""

    def __init__(self) -> None:
        self.disk: Disk = RealDisk(RealOffload(1))

    def now_ms(self) -> float:
        return time.monotonic() * 1000

    def pause(self, delay_ms: float) -> None:
        time.sleep(delay_ms / 1000)


def serve() -> None:
    """Work until no order has come for a while, or until the parent process is gone."""
    # Ctrl-C and a closed terminal are for the broker, which tells us.
    for number in (signal.SIGINT, *hangups()):
        signal.signal(number, signal.SIG_IGN)
    if hasattr(os, "nice"):
        os.nice(_NICENESS)
    orders, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    # Code that prints must not write into the answers.
    os.dup2(2, 1)
    idle_s = float(os.environ.get("OTTLA_WORKER_IDLE_S", IDLE_S))
    inbox: queue.SimpleQueue[Any] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(orders, inbox), daemon=True).start()
    apart = RealApart()
    wait_s = None  # the first work is on its way
    while True:
        try:
            function, arguments = inbox.get(timeout=wait_s)
        except queue.Empty:
            return
        wait_s = idle_s
        _write(answers, (_BEGUN, None))
        _answer(answers, inbox, function(apart, *arguments))


def _listen(orders: IO[bytes], inbox: queue.SimpleQueue[Any]) -> None:
    """Pass on what comes; the end of it is the end of the broker, and so of this process."""
    try:
        while True:
            inbox.put(_read(orders))
    finally:
        os._exit(0)


def _answer(answers: IO[bytes], inbox: queue.SimpleQueue[Any], items: Iterator[object]) -> None:
    while True:
        inbox.get()
        try:
            message = (_ITEM, next(items))
        except StopIteration:
            _write(answers, (_END, None))
            return
        except Exception as error:
            # Reported to the caller: no failure may be silent.
            _write(answers, (_FAILED, _facts_of(error)))
            return
        _write(answers, message)


def _facts_of(error: Exception) -> tuple[str, tuple[Any, ...]]:
    """What the other side needs to make the error again; not every exception can be pickled."""
    if isinstance(error, KafkaError):
        return "kafka", (int(error.code), error.message)
    if isinstance(error, CorruptLogError):
        return "corrupt", (str(error),)
    if isinstance(error, OSError) and error.errno is not None:
        return "os", (error.errno, error.strerror, error.filename)
    unknown = f"{type(error).__name__} in the worker process: {error}"
    return "kafka", (int(ErrorCode.UNKNOWN_SERVER_ERROR), unknown)
