"""When a follower comes back into the stored ISR: on a fetch of its own, and at no other time."""

from __future__ import annotations

from tests.broker.support.leader_site import LAG_MS, STATE, open_site
from tests.broker.support.node import quiet


async def test_a_silent_follower_leaves_once_and_joins_by_its_next_fetch() -> None:
    """Below min.insync.replicas the watermark does not advance, so a follower never falls behind
    it: it used to leave and join at every check, each time with a write to the store and an update
    to all brokers (R-17)."""
    site = await open_site(1, 2, replicas=(1, 2), min_insync=2)
    site.fetch(2)
    site.write()
    for _ in range(8):
        await site.pass_time(LAG_MS + 1)
        site.writer.check()
        await quiet()
    states = [one for group in site.session.written for one in group if one.path == STATE]
    left = (await site.stored())[0].isr
    site.fetch(2, 0)
    await quiet()

    assert len(states) == 1
    assert left == (1,)
    assert (await site.stored())[0].isr == (1, 2)
    await site.close()


async def test_a_fetch_before_a_suspension_adds_no_replica_after_it() -> None:
    """Its sender may be gone since; one that still fetches is added by its next fetch."""
    site = await open_site(1, 2)
    await site.suspend()
    site.fetch(3)
    await site.resume()
    await quiet()
    after = (await site.stored())[0].isr
    site.fetch(3)
    await quiet()

    assert after == (1, 2)
    assert (await site.stored())[0].isr == (1, 2, 3)
    await site.close()


async def test_a_follower_that_asked_while_the_store_was_away_is_answered_when_it_is_back() -> None:
    """At rest its next fetch, by which it joins, would come seconds later."""
    site = await open_site(1, replicas=(1, 2))
    await site.suspend()
    site.fetch(2)
    leading = site.one.replica.leading
    assert leading is not None
    leading.followers[2].told_watermark = site.one.replica.high_watermark
    owed = leading.owes_news(2)
    await site.resume()
    await site.pass_time(0)

    assert (owed, leading.owes_news(2)) == (False, True)
    site.fetch(2)
    await site.pass_time(0)
    await site.pass_time(1)
    assert (await site.stored())[0].isr == (1, 2)
    await site.close()
