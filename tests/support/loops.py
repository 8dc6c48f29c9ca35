"""Runs a coroutine test once on asyncio's own event loop and once on uvloop.

Only for code that touches real sockets, files or signals: readiness, timers and closing differ
between the two. Everything else is tested without a loop or in simulation.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
from typing import TYPE_CHECKING, Any

import pytest
import uvloop

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

LOOPS: dict[str, Callable[[], asyncio.AbstractEventLoop]] = {
    "asyncio": asyncio.SelectorEventLoop,
    "uvloop": uvloop.new_event_loop,
}


def on_both_loops(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Make two tests of one coroutine function; its parameters stay fixtures."""

    @functools.wraps(test)
    def run(new_loop: str, **fixtures: Any) -> None:
        with asyncio.Runner(loop_factory=LOOPS[new_loop]) as runner:
            runner.run(test(**fixtures))

    own = inspect.Parameter("new_loop", inspect.Parameter.KEYWORD_ONLY)
    parameters = [*inspect.signature(test).parameters.values(), own]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    both: Callable[..., None] = pytest.mark.parametrize("new_loop", list(LOOPS))(run)
    return both
