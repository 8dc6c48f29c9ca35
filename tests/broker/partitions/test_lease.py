"""Until when a leader may believe that it is one."""

from __future__ import annotations

import pytest

from ottla.broker.partitions.append_outcome import AppendOutcome
from ottla.broker.partitions.lease import BELIEF_MS, Lease, endless_lease
from ottla.coordinator.store.store import SessionState
from ottla.protocol.errors import ErrorCode
from ottla.protocol.records.batch import RecordBatch
from tests.broker.support.leader_site import LeaderSite, open_site
from tests.broker.support.requests import batch
from tests.coordinator.store.flaky import FlakySession

TIMEOUT_MS = 18_000


class Silent(FlakySession):
    """A session whose last answer came when the test says."""

    heard_ms = 0.0
    timeout_ms = TIMEOUT_MS

    @property
    def last_answer_ms(self) -> float:
        return self.heard_ms


async def silent(site: LeaderSite) -> tuple[Lease, Silent]:
    session = Silent(site.session.inner)
    lease = Lease()
    lease.enter(session)
    return lease, session


async def test_it_holds_for_two_thirds_of_the_timeout_after_the_last_answer() -> None:
    """A third before the store could give the leadership to another broker (R-19, C-06)."""
    lease, session = await silent(await open_site(1))
    session.heard_ms = 1_000

    assert lease.holds(12_999)
    assert not lease.holds(13_000)
    session.heard_ms = 13_000
    assert lease.holds(13_000)


async def test_a_state_that_says_connected_proves_nothing() -> None:
    """A process that was stopped wakes up with its old belief (P-02)."""
    lease, session = await silent(await open_site(1))

    assert session.state is SessionState.CONNECTED
    assert not lease.holds(TIMEOUT_MS)


async def test_a_lost_session_ends_it_at_once() -> None:
    """The store has said so: there is nothing to wait for."""
    lease, session = await silent(await open_site(1))
    held = lease.holds(10)
    session._on_state(SessionState.LOST)

    assert held
    assert not lease.holds(11)


async def test_it_asks_the_session_now_and_then_only() -> None:
    """An append compares two numbers."""
    lease, session = await silent(await open_site(1))
    assert lease.holds(0)

    assert lease.until_ms == BELIEF_MS
    session.heard_ms = 50
    assert lease.holds(BELIEF_MS)
    assert lease.until_ms == 2 * BELIEF_MS


def test_without_a_store_it_never_ends() -> None:
    """Parts that are tested alone have no rival that could take over."""
    assert endless_lease().holds(1e18)


@pytest.mark.parametrize("acks", [0, 1, -1])
async def test_an_ordinary_batch_needs_the_lease_like_any_other(acks: int) -> None:
    """What is appended with its own times is returned as it is, but asks the same questions: a
    zombie would write what will be cut (R-19)."""
    site = await open_site(1, 2, 3)
    records = [memoryview(bytearray(batch(b"x"))) for _ in range(2)]
    first = site.one.append(site.one.judge(records[0], 9), acks)
    site.lease._session = Silent(site.session.inner)
    site.clock.now = TIMEOUT_MS
    second = site.one.append(site.one.judge(records[1], 9), acks)

    assert isinstance(first, RecordBatch)
    assert isinstance(second, AppendOutcome if acks != -1 else RecordBatch)
    assert site.one.log.log_end_offset == (1 if acks != -1 else 2)
    await site.close()


@pytest.mark.parametrize("acks", [0, 1])
async def test_without_a_lease_what_could_vanish_is_refused(acks: int) -> None:
    """A zombie that its clients still reach would acknowledge what is truncated later (R-19)."""
    site = await open_site(1, 2, 3)
    before = site.write(acks).error_code
    session = Silent(site.session.inner)
    site.lease._session = session
    site.clock.now = TIMEOUT_MS

    assert before == ErrorCode.NONE
    assert site.write(acks).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert site.write(-1).error_code == ErrorCode.NONE
    await site.close()


async def test_a_partition_of_one_replica_needs_no_lease() -> None:
    """No other broker could lead it, so a store that is away must not stop it."""
    site = await open_site(1, replicas=(1,))
    site.lease._session = None
    site.clock.now = TIMEOUT_MS

    assert site.write(1).error_code == ErrorCode.NONE
    await site.close()


async def test_an_order_of_the_last_session_proves_nothing_in_the_new_one() -> None:
    """It took long to carry out, and what it says may have been taken back meanwhile (R-19)."""
    site = await open_site(1, 2)
    leadership = site.one.replica.leadership
    assert leadership is not None
    term = site.lease.term
    await site.enter()
    await site.one.become(leadership, term)

    assert not site.one.has_lease
    assert site.write(1).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    await site.close()


async def test_a_new_session_does_not_prove_the_leaderships_of_the_last_one() -> None:
    """In between the controller may have given them to others (R-19)."""
    site = await open_site(1, 2)
    await site.enter()
    refused = site.write(1).error_code
    leadership = site.one.replica.leadership
    assert leadership is not None
    await site.one.become(leadership)

    assert refused == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert site.write(1).error_code == ErrorCode.NONE
    await site.close()
