"""Changes of the in-sync set on their way into the store, and what becomes of lost answers."""

from __future__ import annotations

import pytest

from ottla.broker.metadata.topic_settings import topic_settings
from ottla.broker.replica.roles import Role
from ottla.coordinator.configs.configs import ConfigSources, topic_config
from ottla.coordinator.store import paths
from ottla.coordinator.store.store import Check, Replace
from ottla.protocol.errors import ErrorCode
from tests.broker.log.log_under_test import PARTITION
from tests.broker.support.leader_site import (
    CONTROLLER_EPOCH,
    EPOCH,
    LAG_MS,
    STATE,
    LeaderSite,
    open_site,
)
from tests.broker.support.node import quiet


def committed(site: LeaderSite) -> tuple[tuple[int, ...], int, bool]:
    """ISR, its version, and whether a change is on its way."""
    leading = site.one.replica.leading
    assert leading is not None
    in_sync = leading.in_sync
    return in_sync.committed, in_sync.partition_epoch, in_sync.pending is not None


async def lagging(site: LeaderSite) -> None:
    """Broker 2 keeps up, broker 3 falls behind until it must leave."""
    site.fetch(2)
    site.fetch(3)
    site.write()
    await site.pass_time(LAG_MS + 1)
    site.fetch(2)


@pytest.mark.requirement("REP-09", "REP-10", "REP-13", "REP-21")
async def test_a_follower_that_lags_is_taken_out_of_the_stored_isr() -> None:
    """Elections use the stored ISR, and producers stop waiting for the follower."""
    site = await open_site(1, 2, 3)
    await lagging(site)
    held = site.one.replica.high_watermark
    site.writer.check()
    await quiet()

    state, version = await site.stored()
    assert state == paths.StatePayload(1, EPOCH, (1, 2), CONTROLLER_EPOCH)
    assert committed(site) == ((1, 2), version, False)
    assert (held, site.one.replica.high_watermark) == (0, 1)
    await site.close()


@pytest.mark.requirement("REP-12", "REP-13")
async def test_a_follower_that_has_caught_up_is_added_with_its_generation_checked() -> None:
    """By its own fetch, at once; the store refuses another incarnation (R-22, KIP-903)."""
    site = await open_site(1, 2)
    site.write()
    site.fetch(2)
    site.fetch(3)
    await quiet()

    assert (await site.stored())[0].isr == (1, 2, 3)
    assert committed(site)[0] == (1, 2, 3)
    (written,) = site.session.written
    assert written[1] == Check(paths.generation(3), 1)
    assert isinstance(written[2], Replace)
    assert (written[2].path, written[2].version) == (STATE, 0)
    await site.close()


async def test_an_incarnation_that_is_gone_is_not_added() -> None:
    """Its disk may be another one by now (R-22)."""
    site = await open_site(1, 2)
    site.fetch(3, broker_epoch=0)
    await quiet()

    assert (await site.stored())[0].isr == (1, 2)
    assert committed(site) == ((1, 2), 0, False)
    await site.close()


async def test_a_follower_that_does_not_say_its_incarnation_is_not_added() -> None:
    """Nothing could be checked: version -1 of a znode is any version."""
    site = await open_site(1, 2)
    site.fetch(3, broker_epoch=-1)
    await quiet()

    assert site.session.written == []
    await site.close()


async def test_the_dead_are_not_added() -> None:
    """Their last fetch may be handled after their end (R-24)."""
    site = await open_site(1, 2)
    site.metadata.image = site.metadata.image.__class__("")
    site.fetch(3)
    await quiet()

    assert site.session.written == []
    await site.close()


@pytest.mark.parametrize("lost", ["answers_to_lose", "requests_to_lose"])
async def test_a_lost_answer_is_pending_until_the_store_has_told(lost: str) -> None:
    """Reverting, or believing, has stuck partitions for hours (R-13, R-15, P-08)."""
    site = await open_site(1, 2)
    setattr(site.session, lost, 1)
    site.write()
    site.fetch(2)
    site.fetch(3)
    await quiet()
    meanwhile = committed(site)
    site.write()
    site.fetch(2)
    waited = site.one.replica.high_watermark
    await site.pass_time(1_000)

    assert meanwhile == ((1, 2), 0, True)
    # The new member may count in the store already, so it is waited for.
    assert waited == 1
    assert committed(site) == ((1, 2, 3), 1, False)
    assert (await site.stored())[1] == 1
    await site.close()


async def test_a_change_during_a_suspension_is_written_after_it() -> None:
    """Nothing is written in doubt, and nothing is forgotten."""
    site = await open_site(1, 2, 3)
    await site.suspend()
    await lagging(site)
    site.writer.check()
    await quiet()
    in_doubt = list(site.session.written)
    await site.resume()
    await quiet()

    assert in_doubt == []
    assert (await site.stored())[0].isr == (1, 2)
    await site.close()


async def test_an_answer_that_was_lost_with_the_session_is_looked_up_in_the_next() -> None:
    """The change was done: the next session finds what it wanted to write (R-15)."""
    site = await open_site(1, 2, 3)
    await lagging(site)
    site.session.answers_to_lose = 1
    site.writer.check()
    await quiet()
    await site.writer.end()
    pending = committed(site)
    await site.enter()
    await site.pass_time(1_000)

    assert pending == ((1, 2, 3), 0, True)
    assert committed(site) == ((1, 2), 1, False)
    await site.close()


@pytest.mark.parametrize(("leader", "epoch"), [(2, EPOCH + 1), (1, EPOCH + 1), (2, EPOCH)])
async def test_who_was_replaced_leads_no_longer(leader: int, epoch: int) -> None:
    """The loop of "cached version not equal" ends here (R-16)."""
    site = await open_site(1, 2, 3)
    await lagging(site)
    await site.store_state(paths.StatePayload(leader, epoch, (1, 2, 3), CONTROLLER_EPOCH))
    site.writer.check()
    await quiet()

    assert site.one.replica.role is Role.NONE
    assert site.write(-1).error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert (await site.stored())[0].isr == (1, 2, 3)
    await site.close()


async def test_a_state_of_the_same_epoch_by_another_broker_is_learnt() -> None:
    """The controller took broker 2 out meanwhile; broker 3 leaves on top of that (R-16)."""
    site = await open_site(1, 2, 3)
    await lagging(site)
    await site.store_state(paths.StatePayload(1, EPOCH, (1, 3), CONTROLLER_EPOCH))
    site.writer.check()
    await quiet()
    learnt = committed(site)
    site.writer.check()
    await quiet()

    assert learnt == ((1, 3), 1, False)
    assert committed(site) == ((1,), 2, False)
    await site.close()


async def test_who_was_taken_out_must_be_heard_again() -> None:
    """A broker that is shutting down has asked for the log end just before (R-24)."""
    site = await open_site(1, 2, 3)
    site.fetch(2)
    site.fetch(3)
    leadership = site.one.replica.leadership
    assert leadership is not None
    await site.store_state(paths.StatePayload(1, EPOCH, (1, 2), CONTROLLER_EPOCH))
    pushed = leadership.__class__(1, EPOCH, 1, (1, 2), (1, 2, 3))
    await site.one.become(pushed)
    site.writer.check()
    await quiet()
    silent = committed(site)[0]
    site.fetch(3)
    await quiet()

    assert silent == (1, 2)
    assert committed(site)[0] == (1, 2, 3)
    await site.close()


async def test_those_who_leave_below_min_insync_stay_eligible_in_the_store() -> None:
    """The last one standing may lose its disk (R-21, KIP-966)."""
    site = await open_site(1, 2, 3, min_insync=2)
    site.write()
    await site.pass_time(LAG_MS + 1)
    site.writer.check()
    await quiet()

    state, _version = await site.stored()
    assert (state.isr, state.eligible_leaders) == ((1,), (2, 3))
    await site.close()


async def test_an_idle_partition_writes_nothing() -> None:
    """R-17: leaving and joining in turn costs a write to the store and an update to all brokers
    each time."""
    site = await open_site(1, 2, 3)
    site.write()
    site.fetch(2)
    site.fetch(3)
    for _ in range(20):
        await site.pass_time(LAG_MS)
        site.writer.check()

    assert site.session.written == []
    await site.close()


async def test_changes_are_announced_together() -> None:
    """A broker that dies takes thousands of partitions with it; the controller is told once."""
    site = await open_site(1, 2, 3)
    await lagging(site)
    site.writer.check()
    await quiet()
    before = await site.announced()
    site.session.requests_to_lose = 1
    await site.pass_time(60)
    lost = await site.announced()
    await site.pass_time(60)

    assert (before, lost) == ([], [])
    assert await site.announced() == [[PARTITION]]
    await site.close()


async def test_the_change_of_a_deleted_topic_is_given_up() -> None:
    """There is no state to change any more, and there never will be."""
    site = await open_site(1, 2, 3)
    await lagging(site)
    session = await site.store.connect()
    await session.delete(STATE)
    site.writer.check()
    await quiet()

    assert committed(site) == ((1, 2, 3), 0, False)
    await site.close()


async def test_a_topic_of_the_same_name_made_anew_is_not_touched() -> None:
    """Its state has the same version and epoch, and another leader, who would be overwritten by
    one who was not told of the deletion (C-22)."""
    site = await open_site(1, 2, 3)
    site.one.log.topic_id = b"1" * 16
    await lagging(site)
    session = await site.store.connect()
    anew = paths.TopicPayload(b"2" * 16, {PARTITION.partition: (2, 3)})
    await session.set(paths.topic(PARTITION.topic), paths.build_topic(anew))
    site.writer.check()
    await quiet()

    assert await site.stored() == (paths.StatePayload(1, EPOCH, (1, 2, 3), CONTROLLER_EPOCH), 0)
    assert site.one.replica.role is Role.NONE
    await site.close()


async def test_a_topic_that_changes_meanwhile_is_looked_at_again() -> None:
    """Its replicas are being moved: that is no reason to give up the change, or the lead."""
    site = await open_site(1, 2, 3)
    await lagging(site)
    site.writer.check()
    session = await site.store.connect()
    await session.set(paths.topic(PARTITION.topic), b"{}")
    await quiet()

    assert len(site.session.written) == 2
    assert (await site.stored())[0].isr == (1, 2)
    assert committed(site) == ((1, 2), 1, False)
    await site.close()


@pytest.mark.parametrize("lost", ["answers_to_lose", "requests_to_lose"])
@pytest.mark.parametrize("isr", [(1, 3), (1, 2, 3), (1,)])
async def test_a_lost_answer_and_another_writer_end_in_what_is_stored(
    lost: str, isr: tuple[int, ...]
) -> None:
    """The change may have been stored before another writer's, or not at all (R-15)."""
    site = await open_site(1, 2)
    setattr(site.session, lost, 1)
    site.fetch(3)
    await quiet()
    pending = committed(site)[2]
    await site.store_state(paths.StatePayload(1, EPOCH, isr, CONTROLLER_EPOCH))
    # It is not asked again meanwhile, so that nothing is proposed on top of what is learnt.
    site.metadata.image = site.metadata.image.__class__("")
    await site.pass_time(1_000)

    state, version = await site.stored()
    assert pending
    assert committed(site) == (state.isr, version, False)
    await site.close()


async def test_a_leadership_that_ends_takes_its_change_along() -> None:
    """It would be refused by the version; not to ask is better still."""
    site = await open_site(1, 2, 3)
    await lagging(site)
    leadership = site.one.replica.leadership
    assert leadership is not None
    site.session.requests_to_lose = 1
    site.writer.check()
    await quiet()
    await site.suspend()
    await site.pass_time(1_000)
    await site.one.become(leadership.__class__(2, EPOCH + 1, 1, (1, 2, 3), (1, 2, 3)))
    await site.resume()
    await site.pass_time(1_000)

    assert site.one.replica.role is Role.FOLLOWER
    assert site.session.written == []
    await site.close()


async def test_a_lower_minimum_commits_nothing_while_a_replica_outside_may_lead() -> None:
    """An operator lowers it to go on with one broker; what that one then acknowledges alone would
    be cut if it died and one of those who had left were elected (R-21)."""
    site = await open_site(1, 2, 3, min_insync=2)
    site.write()
    await site.pass_time(LAG_MS + 1)
    site.writer.check()
    await quiet()
    site.session.requests_to_lose = 1
    lowered = topic_config({"min.insync.replicas": "1"}, ConfigSources())
    site.one.use_settings(topic_settings(lowered))
    await quiet()
    held = site.one.replica.high_watermark
    known = site.write(-1)
    await site.pass_time(1_000)

    state, version = await site.stored()
    assert held == 0
    assert known.error_code == ErrorCode.NONE
    assert (state.isr, state.eligible_leaders) == ((1,), ())
    assert committed(site) == ((1,), version, False)
    assert site.one.replica.high_watermark == 2
    await site.close()
