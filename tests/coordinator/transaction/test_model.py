"""Any order of requests, outcomes, failures, alarms and moves of the coordinator.

Requests come from every instance of a producer that ever was, with whatever it was ever told, so
late and repeated ones of both versions are most of them. What must hold is in oracle.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from ottla.coordinator.transaction.metadata import TransactionMetadata
from ottla.coordinator.transaction.records import state_record
from ottla.coordinator.transaction.scope import Alarm
from ottla.coordinator.transaction.settings import TransactionSettings
from ottla.coordinator.transaction.states import TransactionState
from ottla.protocol.errors import ErrorCode
from tests.coordinator.transaction.oracle import Oracle
from tests.coordinator.transaction.scene import (
    A0,
    A1,
    B0,
    CLASSIC,
    NOBODY_YET,
    TIMEOUT_MS,
    VERSION_2,
    WALL_MS,
    Producer,
    Scene,
)

if TYPE_CHECKING:
    from collections.abc import Callable

IDS = ["one", "two"]
HOUR_MS = 3_600_000
SETTINGS = TransactionSettings(expiration_ms=4 * HOUR_MS, expiry_check_interval_ms=HOUR_MS)
FAILURES = [
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.MESSAGE_TOO_LARGE,
]
STRANGER = Producer(7, 0)


class Ids(RuleBasedStateMachine):
    """A scene, everything that producers were told in it, and the oracle beside."""

    def __init__(self) -> None:
        super().__init__()
        self.oracle = Oracle()
        self.scene = Scene(SETTINGS)
        # Newest last.
        self.given: dict[str, list[Producer]] = {name: [STRANGER] for name in IDS}
        self.open: dict[int, Callable[[Any], None]] = {}
        self.noted = 0

    @initialize(epochs=st.sampled_from([None, 32_762, 32_764, 32_766]))
    def begin(self, epochs: int | None) -> None:
        """Perhaps with one id that has nearly used up its producer id."""
        if epochs is None:
            return
        known = TransactionMetadata(500, epochs, TIMEOUT_MS, last_update_wall_ms=WALL_MS)
        producer = Producer(500, epochs)
        record = state_record(IDS[0], known)
        self.oracle.epochs[500] = epochs - 1
        self.oracle.on_committed([record])
        self.oracle.on_initialised(NOBODY_YET, producer)
        self.given[IDS[0]].append(producer)
        self.scene = Scene(SETTINGS, [record])

    def producers(self, name: str, drawn: st.DataObject) -> Producer:
        """Mostly the newest producers, and now and then one with an epoch that was never given."""
        known = self.given[name]
        back = drawn.draw(st.sampled_from([1, 1, 1, 2, 2, 3, 4, 0]))
        if back:
            return known[-min(back, len(known))]
        producer_id = known[-1].producer_id
        return Producer(producer_id, self.oracle.epochs.get(producer_id, 0) + 1)

    # Requests.

    @rule(name=st.sampled_from(IDS), is_new=st.booleans(), drawn=st.data())
    def init(self, name: str, is_new: bool, drawn: st.DataObject) -> None:
        had = NOBODY_YET if is_new else self.producers(name, drawn)
        known = self.oracle.last.get(name)
        may_abort = is_new or known is None or known[:2] == had
        is_open = known is not None and known.state is TransactionState.ONGOING
        asked = len(self.scene.appends) + len(self.scene.draws)

        def on_answer(answer: Any) -> None:
            if answer.error_code == ErrorCode.NONE:
                given = Producer(answer.producer_id, answer.producer_epoch)
                self.oracle.on_initialised(had, given)
                self.give(name, given)

        self.wait(self.scene.init(had, transactional_id=name), on_answer)
        if is_open and not may_abort:
            assert len(self.scene.appends) + len(self.scene.draws) == asked

    @rule(
        name=st.sampled_from(IDS),
        partitions=st.sets(st.sampled_from([A0, A1, B0]), min_size=1),
        version=st.sampled_from([1, 2, 2]),
        drawn=st.data(),
    )
    def add(self, name: str, partitions: set[Any], version: int, drawn: st.DataObject) -> None:
        producer = self.producers(name, drawn)

        def on_answer(answer: Any) -> None:
            # Hazard T-20: partitions that a producer may write to are in the log.
            (error,) = set(answer.errors.values())
            if error is ErrorCode.NONE:
                known = self.oracle.last[name]
                assert known.state is TransactionState.ONGOING
                assert known[:2] == producer
                assert partitions <= known.partitions

        ticket = self.scene.add(
            producer, *sorted(partitions), transaction_version=version, transactional_id=name
        )
        self.wait(ticket, on_answer)

    @rule(
        name=st.sampled_from(IDS),
        is_commit=st.booleans(),
        api_version=st.sampled_from([CLASSIC, VERSION_2, VERSION_2]),
        drawn=st.data(),
    )
    def end(self, name: str, is_commit: bool, api_version: int, drawn: st.DataObject) -> None:
        producer = self.producers(name, drawn)
        bumps = api_version == VERSION_2

        def on_answer(answer: Any) -> None:
            if answer.error_code == ErrorCode.NONE:
                given = Producer(answer.producer_id, answer.producer_epoch)
                self.oracle.on_ended(producer, given, is_commit=is_commit, bumps=bumps)
                if bumps:
                    self.give(name, given)

        ticket = self.scene.end(
            producer, is_commit=is_commit, api_version=api_version, transactional_id=name
        )
        self.wait(ticket, on_answer)

    def give(self, name: str, producer: Producer) -> None:
        known = self.given[name]
        if producer in known:
            known.remove(producer)
        known.append(producer)

    def wait(self, ticket: int, on_answer: Callable[[Any], None]) -> None:
        self.open[ticket] = on_answer
        self.note()

    def note(self) -> None:
        """Look at what has come since the last time."""
        for markers in self.scene.all_markers[self.noted :]:
            self.oracle.on_markers(markers)
        self.noted = len(self.scene.all_markers)
        for ticket in sorted(self.open.keys() & self.scene.answers.keys()):
            self.open.pop(ticket)(self.scene.answers[ticket])

    # Outcomes.

    @precondition(lambda self: self.scene.appends)
    @rule()
    def commit(self) -> None:
        """The high watermark passes appends in their order."""
        self.oracle.on_committed(self.scene.appends[0].records)
        self.scene.commit()
        self.note()

    @precondition(lambda self: self.scene.appends)
    @rule(error=st.sampled_from(FAILURES))
    def fail(self, error: ErrorCode) -> None:
        """The newest one was refused by the log."""
        self.scene.fail(error, len(self.scene.appends) - 1)
        self.note()

    @precondition(lambda self: self.scene.appends)
    @rule()
    def overdue(self) -> None:
        self.scene.overdue()
        self.note()

    @precondition(lambda self: self.scene.draws)
    @rule(is_given=st.booleans())
    def draw(self, is_given: bool) -> None:
        if is_given:
            self.scene.give()
        else:
            self.scene.give_nothing()
        self.note()

    @precondition(lambda self: self.scene.markers)
    @rule(is_written=st.sampled_from([True, True, False]))
    def mark(self, is_written: bool) -> None:
        if is_written:
            self.oracle.on_marked(self.scene.markers[0])
            self.scene.mark()
        else:
            self.scene.refuse_markers()
        self.note()

    @rule()
    def settle(self) -> None:
        """All that is on its way comes well."""
        while self.scene.appends or self.scene.draws or self.scene.markers:
            if self.scene.draws:
                self.draw(True)
            elif self.scene.appends:
                self.commit()
            else:
                self.mark(True)

    @precondition(lambda self: self.scene.appends or self.scene.draws)
    @rule()
    def settle_when_there_is_something(self) -> None:
        """Or else most steps would find an id that is on its way."""
        self.settle()

    # Time, and other coordinators.

    @rule(
        by_ms=st.sampled_from([1_000, TIMEOUT_MS, 6 * HOUR_MS]), wall_ms=st.sampled_from([None, 0])
    )
    def advance(self, by_ms: int, wall_ms: int | None) -> None:
        self.scene.advance(by_ms, wall_ms=wall_ms)
        self.note()

    @rule(survivors=st.integers(0, 4), is_told=st.booleans())
    def move(self, survivors: int, is_told: bool) -> None:
        """Another coordinator takes over, with some of the uncommitted records in its log.

        Waiting requests get the error that this coordinator is none any more, or no answer."""
        old = self.scene
        before = {name: old.metadata(name) for name in IDS}
        kept = old.appends[:survivors]
        if is_told:
            old.perform(old.shard.unload(ErrorCode.NOT_COORDINATOR))
            self.note()
            assert not self.open, "somebody waits for ever"
        self.open.clear()
        for append in kept:
            self.oracle.on_committed(append.records)
            old.log += append.records
        self.scene = old.reloaded()
        self.noted = 0
        self.note()
        if not kept:
            for name in IDS:
                assert kin(self.scene.metadata(name)) == kin(before[name])

    # What always holds.

    @invariant()
    def memory_is_what_is_committed(self) -> None:
        for name in IDS:
            assert kin(self.scene.metadata(name)) == kin(self.oracle.last.get(name))

    @invariant()
    def a_waiter_waits_for_something(self) -> None:
        scene = self.scene
        on_their_way = len(scene.appends) + len(scene.draws)
        alarms = scene.shard.scope.deadlines
        is_held = any((name, Alarm.WAITING) in alarms for name in IDS)
        assert not self.open or on_their_way or is_held
        assert scene.shard.scope.outbox.waits == bool(on_their_way or scene.markers)

    def teardown(self) -> None:
        """When nothing fails any more everything comes to its end."""
        for _ in range(4):
            self.settle()
            self.scene.advance(2 * TIMEOUT_MS, wall_ms=0)
            self.note()
        assert not self.open
        for name in IDS:
            known = self.scene.metadata(name)
            assert known is None or known.state.is_idle
            self.init(name, True, None)
        self.settle()
        for name in IDS:
            newest = self.given[name][-1]
            assert self.scene.metadata(name)[:2] == newest  # type: ignore[index]


def kin(known: TransactionMetadata | None) -> TransactionMetadata | None:
    """Without what the log does not have."""
    return None if known is None else known._replace(last_producer_epoch=-1)


TestIds = Ids.TestCase
TestIds.settings = settings(
    max_examples=100, stateful_step_count=50, deadline=None, report_multiple_bugs=False
)
