"""The machine of a transactional producer beside a coordinator, through any order of events."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.client.sending.coordinator_requests import (
    NO_IDENTITY,
    AskEnd,
    AskGroup,
    AskIdentity,
    AskOffsets,
    AskPartitions,
)
from ottla.client.sending.sequences import ProducerIdentity
from ottla.client.sending.transaction_states import ProducerTransactionState
from ottla.protocol.errors import ErrorCode
from tests.client.sending.test_transaction import FIRST, NONE, OFFSETS, ready

if TYPE_CHECKING:
    from ottla.client.sending.transaction import ProducerTransaction


class Coordinator:
    """The other side, with the truth: what is open, and how transactions ended."""

    def __init__(self) -> None:
        self.epoch = 0
        self.is_open = False
        self.ends: list[bool] = []
        self.last: tuple[int, bool] | None = None

    def end(self, epoch: int, is_commit: bool, version: int) -> tuple[ErrorCode, ProducerIdentity]:
        if version == 2:
            if self.last == (epoch, is_commit):
                return NONE, ProducerIdentity(7, self.epoch)
            if epoch != self.epoch or (not self.is_open and is_commit):
                return ErrorCode.INVALID_TXN_STATE, NO_IDENTITY
            self.last = (epoch, is_commit)
            self.epoch += 1
        else:
            if not self.is_open:
                is_same = self.ends and self.ends[-1] is is_commit
                return (NONE if is_same else ErrorCode.INVALID_TXN_STATE), NO_IDENTITY
        self.is_open = False
        self.ends.append(is_commit)
        return NONE, ProducerIdentity(7, self.epoch) if version == 2 else NO_IDENTITY


FATES = st.sampled_from(["done", "done", "done", "lost before", "lost after", "refused", "busy"])
CALLS = st.sampled_from(["send", "offsets", "commit", "abort", "fail", "refuse"])


@settings(max_examples=300, deadline=None)
@given(version=st.sampled_from([1, 2]), calls=st.lists(CALLS, max_size=25), data=st.data())
def test_whatever_happens_the_application_is_told_the_truth(
    version: int, calls: list[str], data: st.DataObject
) -> None:
    """Every transaction ends, once, as the machine says it did; nothing is left open behind it; and
    no epoch is used on after a number was given up."""
    machine, truth = ready(version), Coordinator()
    spent: set[int] = set()
    told: list[tuple[bool, int]] = []
    for call in calls:
        step(machine, truth, call, spent)
        before = machine.outcome
        run(machine, truth, data)
        assert machine.state is not ProducerTransactionState.FATAL
        if (
            machine.state is ProducerTransactionState.READY
            and machine.outcome is not None
            and before is None
        ):
            told.append((machine.outcome, machine.serial))
            assert not truth.is_open
            assert machine.identity.producer_epoch not in spent
            assert machine.identity.producer_epoch == truth.epoch
    committed = sum(1 for outcome, _ in told if outcome)
    assert truth.ends.count(True) <= committed


def step(machine: ProducerTransaction, truth: Coordinator, call: str, spent: set[int]) -> None:
    """One step of the application or a partition."""
    if machine.state is ProducerTransactionState.READY:
        machine.begin()
    if call == "send" and machine.state is ProducerTransactionState.OPEN:
        machine.parts.admit(FIRST)
        if machine.may_go(FIRST):
            machine.parts.is_known = True
            truth.is_open = True
    elif call == "offsets" and machine.state is ProducerTransactionState.OPEN:
        machine.parts.send_offsets(OFFSETS)
    elif call == "commit" and machine.state is ProducerTransactionState.OPEN:
        machine.commit()
    elif call == "abort" and machine.state in (
        ProducerTransactionState.OPEN,
        ProducerTransactionState.BROKEN,
    ):
        machine.abort()
    elif call in ("fail", "refuse") and machine.may_go(FIRST) and truth.is_open:
        spent.add(machine.identity.producer_epoch)
        machine.dropped(was_numbered=True)
        machine.batch_failed(
            ErrorCode.REQUEST_TIMED_OUT if call == "fail" else ErrorCode.TRANSACTION_ABORTABLE
        )


def run(machine: ProducerTransaction, truth: Coordinator, data: st.DataObject) -> None:
    """Answer what is asked until nothing is."""
    for _ in range(40):
        ask = machine.advance(unresolved=False)
        if ask is None:
            return
        fate = data.draw(FATES)
        if fate == "lost before":
            machine.lost(ask)
            continue
        refusal = {"busy": ErrorCode.CONCURRENT_TRANSACTIONS}.get(fate, NONE)
        if fate == "refused" and isinstance(ask, AskPartitions | AskGroup | AskOffsets):
            refusal = ErrorCode.GROUP_AUTHORIZATION_FAILED
        answer(machine, truth, (ask, refusal), is_lost=fate == "lost after")


def answer(
    machine: ProducerTransaction,
    truth: Coordinator,
    asked: tuple[AskIdentity | AskPartitions | AskGroup | AskOffsets | AskEnd, ErrorCode],
    *,
    is_lost: bool,
) -> None:
    """Carry out the request unless it is refused, and pass the answer on unless it is lost."""
    ask, code = asked
    identity = NO_IDENTITY
    version = 2 if machine.parts.is_implicit else 1
    if code is NONE:
        match ask:
            case AskIdentity():
                assert not truth.is_open
                truth.epoch += 1
                identity = ProducerIdentity(7, truth.epoch)
            case AskEnd(is_commit):
                code, identity = truth.end(machine.identity.producer_epoch, is_commit, version)
            case _:
                truth.is_open = True
    if is_lost:
        machine.lost(ask)
    elif isinstance(ask, AskIdentity):
        machine.initialized(code, identity)
    elif isinstance(ask, AskEnd):
        machine.ended(ask, code, identity)
    else:
        machine.added(ask, [code])
