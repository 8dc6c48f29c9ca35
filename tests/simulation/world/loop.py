"""An event loop under virtual time: when nothing is ready, the clock jumps to the next timer.

Ready callbacks run first in, first out, as in asyncio; shuffling them would show interleavings
that cannot happen. Timers due at the same instant run in seeded order. Each callback belongs to
the domain (a simulated process) in whose context it was scheduled: a dead domain's callbacks
vanish, a stopped one's wait, and that is all that kill -9 and SIGSTOP need.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
import traceback
from contextvars import copy_context
from heapq import heapify, heappop, heappush
from itertools import count
from typing import TYPE_CHECKING, Any, Never

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Callable, Coroutine, Generator

    from tests.simulation.world.random import SimRandom

STEPS_PER_INSTANT_MAX = 20_000
TIMERS_PURGE_MIN = 4_096


class Deadlock(Exception):
    """No task is ready and no timer is set, yet the run is not over."""


class BusyLoop(BaseException):
    """Work is scheduled for ever without time passing: a real process would burn a core for ever.

    Not an Exception, so that the spinning code cannot catch it.
    """


class OutOfSteps(Exception):
    """The run took more steps than it was allowed."""


class Domain:
    """Tasks and timers that run, stop and die together, as those of a process."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.dead = False
        self.stopped = False
        self.held: list[asyncio.Handle] = []
        self.tasks: list[asyncio.Task[Any]] = []

    def context(self) -> contextvars.Context:
        """A fresh context in which everything scheduled belongs to this domain."""
        context = contextvars.Context()
        context.run(DOMAIN.set, self)
        return context


DOMAIN: contextvars.ContextVar[Domain | None] = contextvars.ContextVar("domain", default=None)


class SimHandle(asyncio.Handle):
    """asyncio's own handle, without the checks for debug mode."""

    __slots__ = ()

    def __init__(
        self,
        callback: Callable[..., object],
        arguments: tuple[Any, ...],
        loop: SimLoop,
        context: contextvars.Context | None,
    ) -> None:
        self._context = copy_context() if context is None else context
        self._loop = loop
        self._callback = callback
        self._args = arguments
        self._cancelled = False
        self._repr = None
        self._source_traceback = None


class SimTimer(asyncio.TimerHandle):
    """The same of a timer."""

    __slots__ = ()

    def __init__(
        self,
        when: float,
        callback: Callable[..., object],
        arguments: tuple[Any, ...],
        loop: SimLoop,
        context: contextvars.Context | None,
    ) -> None:
        self._context = copy_context() if context is None else context
        self._loop = loop
        self._callback = callback
        self._args = arguments
        self._cancelled = False
        self._repr = None
        self._source_traceback = None
        self._when = when
        self._scheduled = True

    def cancel(self) -> None:
        if self._cancelled:
            return
        if self._scheduled:
            self._loop._timer_handle_cancelled(self)
        self._cancelled = True
        # What is cancelled keeps nothing alive.
        self._callback = self._args = None  # type: ignore[assignment]


class SimLoop(asyncio.BaseEventLoop):
    """Runs unmodified asyncio code; replays exactly from the seed of its random source."""

    _ready: deque[asyncio.Handle]
    _stopping: bool
    _closed: bool

    def __init__(self, random: SimRandom, steps_max: int = 50_000_000) -> None:
        super().__init__()
        self.steps = 0
        self.steps_max = steps_max
        self.failures: list[dict[str, Any]] = []
        self.outside = contextvars.Context()
        self.now_s = 0.0
        self._instant_steps = 0
        self._busy: BusyLoop | None = None
        self._timers: list[tuple[float, float, int, asyncio.TimerHandle]] = []
        self._cancelled_timers = 0
        self._draw_tie = random.child("ties").random
        self._numbers = count()
        self._thread = threading.get_ident()
        self.set_exception_handler(lambda _, context: self.failures.append(context))
        self.set_task_factory(self._make_task)

    def time(self) -> float:
        """Virtual seconds since the world began."""
        return self.now_s

    def call_soon(  # type: ignore[override]
        self,
        callback: Callable[..., object],
        *arguments: Any,
        context: contextvars.Context | None = None,
    ) -> asyncio.Handle:
        if self._closed:
            self._check_closed()
        handle = SimHandle(callback, arguments, self, context)
        self._ready.append(handle)
        return handle

    def call_later(  # type: ignore[override]
        self,
        delay: float,
        callback: Callable[..., object],
        *arguments: Any,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        if self._closed:
            self._check_closed()
        when = self.now_s + delay
        timer = SimTimer(when, callback, arguments, self, context)
        heappush(self._timers, (when, self._draw_tie(), next(self._numbers), timer))
        return timer

    def call_at(  # type: ignore[override]
        self,
        when: float,
        callback: Callable[..., object],
        *arguments: Any,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        if self._closed:
            self._check_closed()
        timer = SimTimer(when, callback, arguments, self, context)
        heappush(self._timers, (when, self._draw_tie(), next(self._numbers), timer))
        return timer

    def drop(self, domain: Domain) -> None:
        """End a domain: none of its callbacks runs again, and its clean-up code does not either."""
        domain.dead = True
        domain.held.clear()

    def stop_domain(self, domain: Domain) -> None:
        """Hold the domain's callbacks back, as SIGSTOP does."""
        domain.stopped = True

    def continue_domain(self, domain: Domain) -> None:
        """Run what was held back, in its order, late timers included."""
        domain.stopped = False
        self._ready.extend(domain.held)
        domain.held.clear()

    def bury(self, domains: list[Domain]) -> None:
        """Close what dead domains left suspended, so that the garbage collector finds no work.

        Their seams are dead by now, so that whatever their clean-up tries reaches nothing."""
        for domain in domains:
            for task in domain.tasks:
                if task.done():
                    continue
                task._log_destroy_pending = False  # type: ignore[attr-defined]
                coroutine = task.get_coro()
                try:
                    coroutine.close()
                except BaseException:  # the dead may fail in any way they like
                    continue

    def run_in_executor(self, *_: object) -> Never:
        raise AssertionError("no threads in simulation: go through the Offload or Disk seam")

    def call_soon_threadsafe(  # type: ignore[override]
        self,
        callback: Callable[..., object],
        *arguments: Any,
        context: contextvars.Context | None = None,
    ) -> asyncio.Handle:
        """Only for asyncio's own finalizers; another thread calling it is a hidden thread."""
        assert threading.get_ident() == self._thread, "no threads in simulation"
        return self.call_soon(callback, *arguments, context=context)

    def _make_task(
        self,
        loop: asyncio.AbstractEventLoop,
        coroutine: Coroutine[Any, Any, Any] | Generator[Any, None, Any],
        **options: Any,
    ) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = asyncio.Task(coroutine, loop=loop, **options)
        context = options.get("context")
        domain = context.get(DOMAIN) if context is not None else DOMAIN.get()
        if domain is not None:
            tasks = domain.tasks
            tasks.append(task)
            if len(tasks) > 256 and len(tasks) & (len(tasks) - 1) == 0:
                tasks[:] = [task for task in tasks if not task.done()]
        return task

    def _timer_handle_cancelled(self, _: asyncio.TimerHandle) -> None:
        self._cancelled_timers += 1
        waiting = len(self._timers)
        if waiting > TIMERS_PURGE_MIN and self._cancelled_timers > waiting // 2:
            # In place: a turn under way continues with the same list.
            self._timers[:] = [entry for entry in self._timers if not entry[3]._cancelled]
            heapify(self._timers)
            self._cancelled_timers = 0

    def _run_once(self) -> None:
        """Run turns until the loop is stopped.

        HOT: a third of what a run costs.
        """
        self._turn()
        while not self._stopping:
            self._turn()

    def _turn(self) -> None:
        """The due timers join the queue, then all that was ready at its start runs."""
        ready = self._ready
        if not ready and not self._stopping:
            self._advance()
        timers = self._timers
        if timers and timers[0][0] <= self.now_s:
            self._take_due_timers()
        for _ in range(len(ready)):
            handle = ready.popleft()
            if handle._cancelled:
                continue
            context: contextvars.Context = handle._context  # type: ignore[attr-defined]
            domain = context.get(DOMAIN)
            if domain is not None:
                if domain.dead:
                    continue
                if domain.stopped:
                    domain.held.append(handle)
                    continue
            self.steps += 1
            self._instant_steps = spent = self._instant_steps + 1
            if spent > STEPS_PER_INSTANT_MAX:
                self._give_up()
            try:
                context.run(handle._callback, *handle._args)  # type: ignore[attr-defined]
            except (SystemExit, KeyboardInterrupt):
                raise
            except BaseException as error:
                message = f"Exception in callback {handle!r}"
                self.call_exception_handler({"message": message, "exception": error})
        if self._busy is not None:
            raise self._busy
        if self.steps > self.steps_max:
            raise OutOfSteps(f"more than {self.steps_max} steps by {self.now_s:.3f} s")

    def spend(self) -> None:
        """Count one piece of work at this instant; raises BusyLoop when there is no end to it.

        The disk counts too: code may spin over it without ever coming back to the loop."""
        self._instant_steps += 1
        if self._instant_steps > STEPS_PER_INSTANT_MAX:
            self._give_up()

    def _give_up(self) -> Never:
        frames = traceback.extract_stack(limit=13)[:-2]
        places = [f"{f.filename.rpartition('/')[2]}:{f.lineno}" for f in frames]
        ready = sorted({repr(handle) for handle in self._ready})[:3]
        self._busy = BusyLoop(f"at {self.now_s:.6f} s in {' '.join(places)}, ready {ready}")
        raise self._busy

    def _advance(self) -> None:
        timers = self._timers
        while timers and timers[0][3]._cancelled:
            heappop(timers)
            self._cancelled_timers -= 1
        if not timers:
            raise Deadlock(f"nothing is ready and nothing is scheduled at {self.now_s:.6f} s")
        if timers[0][0] > self.now_s:
            self.now_s = timers[0][0]
            self._instant_steps = 0

    def _take_due_timers(self) -> None:
        timers, ready, now_s = self._timers, self._ready, self.now_s
        while timers and timers[0][0] <= now_s:
            timer = heappop(timers)[3]
            timer._scheduled = False  # type: ignore[attr-defined]
            if timer._cancelled:
                self._cancelled_timers -= 1
            else:
                ready.append(timer)

    def _write_to_self(self) -> None:
        """Do nothing: this loop never sleeps."""

    def _check_closed(self) -> None:
        if self.is_closed():
            raise RuntimeError("the simulated loop is closed")
