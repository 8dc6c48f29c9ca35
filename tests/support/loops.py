"""Runs a coroutine test once on asyncio's own event loop and once on uvloop.

Only for code that touches real sockets, files or signals: readiness, timers and closing differ
between the two. Everything else is tested without a loop or in simulation.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

import pytest
import uvloop

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

LOOPS: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {
    "asyncio": asyncio.SelectorEventLoop,
    "uvloop": uvloop.new_event_loop,
}


# Tests of the broker's network read connections in these ways, and with the compiled reactor.
COMPILED = "compiled"
IS_COMPILED: ContextVar[bool] = ContextVar("is_compiled", default=False)


def on_each_reader(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """As ``on_both_loops``, and once more on uvloop with the compiled reactor."""

    async def compiled(**fixtures: Any) -> None:
        IS_COMPILED.set(True)
        await test(**fixtures)

    @functools.wraps(test)
    def run(new_loop: str, **fixtures: Any) -> None:
        if new_loop == COMPILED:
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                runner.run(compiled(**fixtures))
        else:
            with asyncio.Runner(loop_factory=LOOPS[new_loop]) as runner:
                runner.run(test(**fixtures))

    return _for_each([*LOOPS, COMPILED], test, run)


def on_both_loops(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Make two tests of one coroutine function; its parameters stay fixtures."""

    @functools.wraps(test)
    def run(new_loop: str, **fixtures: Any) -> None:
        with asyncio.Runner(loop_factory=LOOPS[new_loop]) as runner:
            runner.run(test(**fixtures))

    return _for_each([*LOOPS], test, run)


def _for_each(
    names: list[str], test: Callable[..., object], run: Callable[..., None]
) -> Callable[..., None]:
    own = inspect.Parameter("new_loop", inspect.Parameter.KEYWORD_ONLY)
    parameters = [*inspect.signature(test).parameters.values(), own]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    each: Callable[..., None] = pytest.mark.parametrize("new_loop", names)(run)
    return each
