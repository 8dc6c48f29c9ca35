"""Runs a verb's coroutine and turns every outcome into an exit status.

A mistake of the user or a broker that is down is reported in one sentence on standard error, never
with a traceback; a traceback means a defect of Ottla.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import logging
import os
import signal
import sys
from typing import TYPE_CHECKING, Any

from ottla.client.settings.config import parse_addresses
from ottla.client.settings.profiles import ProfileError
from ottla.protocol.errors import ErrorCode
from ottla.wire.errors import AuthenticationFailed, BrokerUnreachable, ClientError, RequestRefused
from ottla.wire.signals import SIGNALLED, hangups

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Coroutine

    Perform = Callable[[argparse.Namespace], Coroutine[Any, Any, int]]

FAILED = 1
USAGE_ERROR = 2
# 128 plus the number of SIGINT, as in shells.
INTERRUPTED = SIGNALLED + signal.SIGINT


class CommandError(Exception):
    """A request that cannot be carried out; the text is one sentence that says why."""


class UndecodableBytes(CommandError):
    """Data that does not fit its schema, or whose schema the registry does not have."""


class UsageError(CommandError):
    """Options that contradict each other, or miss another one."""


def run(perform: Perform, arguments: argparse.Namespace, *, is_busy: bool = False) -> int:
    """Run a verb on its own event loop and return the exit status.

    ``is_busy``: it moves many records, so that a faster loop is worth its loading time."""
    try:
        parse_addresses(arguments.bootstrap)
    except ValueError as error:
        sys.stderr.write(f"ottla: {error}\n")
        return USAGE_ERROR
    # The library's log lines about a failure would repeat the sentence written below.
    logging.getLogger("ottla").addHandler(logging.NullHandler())
    occupy_standard_descriptors()
    try:
        with asyncio.Runner(loop_factory=loop_factory(is_busy=is_busy)) as runner:
            return runner.run(terminable(perform(arguments)))
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # The reader of our output has closed it. Nothing may be flushed to it at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (ClientError, CommandError, ProfileError, OSError) as error:
        sys.stderr.write(f"ottla: {sentence(error)}\n")
        return USAGE_ERROR if isinstance(error, UsageError | ProfileError) else FAILED


async def terminable(work: Coroutine[Any, Any, int]) -> int:
    """Run ``work``; SIGTERM and SIGHUP end it as Ctrl-C does, so that a member leaves its group and
    a temporary topic is deleted. A second signal ends the process."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    asked: signal.Signals | None = None
    signals = (signal.SIGTERM, *hangups())

    def stop(number: signal.Signals) -> None:
        nonlocal asked
        asked = number
        stop_listening()
        task.cancel()

    def stop_listening() -> None:
        for one in signals:
            with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):
                loop.remove_signal_handler(one)

    # Not available on Windows or outside of the main thread.
    with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):
        for one in signals:
            loop.add_signal_handler(one, stop, one)
    try:
        status = await work
    except asyncio.CancelledError:
        if asked is None:
            raise
        task.uncancel()
        return SIGNALLED + asked
    finally:
        if asked is None:
            stop_listening()
    return status if asked is None else SIGNALLED + asked


def occupy_standard_descriptors() -> None:
    """Open closed standard descriptors: otherwise the event loop's own files would get these
    numbers, and the loop ends the process when it finds them there."""
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            os.open(os.devnull, os.O_RDWR)


def loop_factory(*, is_busy: bool) -> Callable[[], asyncio.AbstractEventLoop]:
    """uvloop if it is installed and worth loading; otherwise a loop that can watch raw sockets."""
    if not is_busy:
        return asyncio.SelectorEventLoop
    try:
        uvloop = importlib.import_module("uvloop")
    except ImportError:
        return asyncio.SelectorEventLoop
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory


def sentence(error: Exception) -> str:
    """The error as a sentence with, if known, what to do about it."""
    if isinstance(error, BrokerUnreachable) and not isinstance(error, AuthenticationFailed):
        return f"{error}; is it running there? -b HOST:PORT names another"
    if isinstance(error, RequestRefused):
        return refusal(error)
    if isinstance(error, OSError):
        where = f" {error.filename!r}" if error.filename else ""
        return f"{(error.strerror or str(error)).lower()}{where}"
    return str(error)


def refusal(error: RequestRefused) -> str:
    """A broker's refusal as a sentence."""
    topic = f"topic {error.topic!r}"
    if error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and error.topic is not None:
        if error.partition is not None:
            return f"{topic} has no partition {error.partition}; {error.message.lower()}"
        return f"{topic} does not exist; 'ottla topics list' shows those that do"
    if error.code is ErrorCode.TOPIC_ALREADY_EXISTS and error.topic is not None:
        return f"{topic} exists already"
    if error.code is ErrorCode.MESSAGE_TOO_LARGE and "request_bytes_max" in error.message:
        return f"{error}; -X max.request.size=N raises it"
    if error.code is ErrorCode.SECURITY_DISABLED:
        return f"{error}; set authorizer.class.name, or start with --secure"
    if error.code is ErrorCode.NOT_CONTROLLER:
        # The request was retried until the call timed out.
        is_told = error.message != error.code.text and error.broker is not None
        reason = f" ({error.broker}: {error.message})" if is_told else ""
        return (
            f"the cluster has no controller now{reason}; try again, or see who is up with "
            "'ottla cluster describe', and read the brokers' logs"
        )
    return str(error)
