"""Parked requests under any order of events: one answer each, and nothing left behind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tests.broker.support.scratch import Connection, Room

if TYPE_CHECKING:
    from ottla.broker.engine.purgatory import DelayedOperation


class WaitingModel(RuleBasedStateMachine):
    """Any order of parking, progress, time and disconnects: one answer each, nothing left."""

    def __init__(self) -> None:
        super().__init__()
        self.room = Room(drain_max=3)
        self.connections = [Connection(), Connection()]
        self.parked: dict[str, tuple[DelayedOperation, Connection | None]] = {}
        self.silent: set[str] = set()

    @rule(
        keys=st.sets(st.sampled_from("abc"), max_size=3),
        wait_ms=st.integers(0, 80),
        which=st.integers(0, 2),
    )
    def park(self, keys: set[str], wait_ms: int, which: int) -> None:
        owner = self.connections[which] if which < 2 else None
        name = str(len(self.parked))
        deadline_ms = self.room.clock.now_ms() + wait_ms
        waiter = self.room.park(name, tuple(sorted(keys)), deadline_ms, owner)
        self.parked[name] = (waiter, owner)

    @rule(key=st.sampled_from("abc"), ready=st.booleans())
    def release(self, key: str, ready: bool) -> None:
        if ready:
            self.room.ready.add(key)
        else:
            self.room.ready.discard(key)
        self.room.waiting.release(key)

    @rule()
    def turn(self) -> None:
        self.room.deferred.run()

    @rule(step_ms=st.integers(1, 60))
    def time(self, step_ms: int) -> None:
        self.room.clock.advance_to(self.room.clock.now_ms() + step_ms)

    @precondition(lambda self: self.parked)
    @rule(which=st.integers(0, 100))
    def cancel(self, which: int) -> None:
        name, (waiter, _owner) = list(self.parked.items())[which % len(self.parked)]
        if not waiter.done:
            self.silent.add(name)
        waiter.cancel()

    @rule(which=st.integers(0, 1))
    def disconnect(self, which: int) -> None:
        gone = self.connections[which]
        for name, (waiter, owner) in self.parked.items():
            if owner is gone and not waiter.done:
                self.silent.add(name)
        gone.close()
        self.connections[which] = Connection()

    @invariant()
    def no_waiter_is_answered_twice_or_after_leaving(self) -> None:
        names = [answer.removesuffix(" expired") for answer in self.room.answers]
        assert len(names) == len(set(names))
        assert not self.silent.intersection(names)
        done = {name for name, (waiter, _owner) in self.parked.items() if waiter.done}
        assert done == set(names) | self.silent
        assert self.room.waiting.count == len(self.parked) - len(done)

    def teardown(self) -> None:
        self.room.clock.advance_to(self.room.clock.now_ms() + 1_000)
        self.room.deferred.run_all()
        self.room.assert_at_rest()


TestWaitingModel = WaitingModel.TestCase
TestWaitingModel.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
