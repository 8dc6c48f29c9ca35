"""Runs many seeds, each in a separate process, as many at a time as there are lanes.

The first seed runs here: its children find all modules loaded and all codecs compiled. None of them
clears up after its world, which is a fifth of what a seed costs otherwise; and one that crashes, or
runs out of memory, is one failed seed.
"""

from __future__ import annotations

import gc
import os
import pickle
import signal
import sys
import traceback
from contextlib import suppress
from selectors import EVENT_READ, DefaultSelector
from typing import TYPE_CHECKING, NamedTuple, Never

from tests.simulation.world.world import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    Run = Callable[[int], Outcome]

READ_BYTES = 1 << 16


class Child(NamedTuple):
    """One seed under way. ``received`` grows to its pickled outcome."""

    seed: int
    pid: int
    source: int
    received: bytearray


def outcomes(run: Run, seeds: Iterator[int], lanes: int) -> Generator[Outcome, None, None]:
    """Outcomes of the seeds, in the order in which they end; closing it ends those under way."""
    if not hasattr(os, "fork"):
        yield from map(run, seeds)
        return
    for seed in seeds:
        yield run(seed)
        break
    gc.collect()
    gc.freeze()
    selector = DefaultSelector()
    children: dict[int, Child] = {}
    try:
        yield from _in_children(run, seeds, lanes, selector, children)
    finally:
        selector.close()
        for child in children.values():
            with suppress(ProcessLookupError):
                os.kill(child.pid, signal.SIGKILL)
            _close(child)


def _in_children(
    run: Run,
    seeds: Iterator[int],
    lanes: int,
    selector: DefaultSelector,
    children: dict[int, Child],
) -> Iterator[Outcome]:
    while True:
        while len(children) < lanes and (seed := next(seeds, None)) is not None:
            child = _begin(run, seed)
            children[child.source] = child
            selector.register(child.source, EVENT_READ)
        if not children:
            return
        for key, _ in selector.select():
            child = children[key.fd]
            content = os.read(child.source, READ_BYTES)
            if content:
                child.received.extend(content)
                continue
            selector.unregister(child.source)
            del children[child.source]
            yield _outcome(child, _close(child))


def _begin(run: Run, seed: int) -> Child:
    sys.stdout.flush()
    sys.stderr.flush()
    source, target = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(source)
        _live(run, seed, target)
    os.close(target)
    return Child(seed, pid, source, bytearray())


def _live(run: Run, seed: int, target: int) -> Never:
    """The whole life of a child."""
    status = 1
    try:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        gc.disable()
        outcome = run(seed)
        with os.fdopen(target, "wb") as pipe:
            pickle.dump(outcome, pipe)
        status = 0
    except BaseException:
        # Nothing above this frame is a child's business.
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def _close(child: Child) -> int:
    os.close(child.source)
    return os.waitstatus_to_exitcode(os.waitpid(child.pid, 0)[1])


def _outcome(child: Child, status: int) -> Outcome:
    if status == 0:
        found = pickle.loads(child.received)
        assert isinstance(found, Outcome)
        return found
    told = f"crash: the process of this seed ended with status {status}"
    return Outcome(child.seed, [told], "", 0, 0.0, {}, "", [])
