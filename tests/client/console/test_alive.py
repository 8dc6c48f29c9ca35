"""The page that shows a topic alive."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.client.console.site import console_of, words_of
from tests.client.support.sites import soon

if TYPE_CHECKING:
    import httpx

    import ottla


def sentences_of(found: dict[str, Any]) -> list[str]:
    """What happened, in words."""
    return [one["sentence"] for one in found["changes"]]


async def test_an_election_is_seen(brokers: ottla.Cluster, browser: httpx.AsyncClient) -> None:
    """The leader is killed while a visitor looks: the next leader, its epoch and the ISR show."""
    brokers.create_topic("living", partitions=1)
    first = (await browser.get("/api/topics/living/alive")).json()
    leader = first["partitions"][0]["leader"]
    brokers.faults.kill(leader)
    try:

        async def look() -> dict[str, Any]:
            found: dict[str, Any] = (await browser.get("/api/topics/living/alive")).json()
            return found

        found = await soon(look, lambda seen: f"left the ISR: {leader}" in sentences_of(seen))
        page = words_of((await browser.get("/topics/living/alive")).text)
        then = (await browser.get("/api/topics/living/alive", params={"back": 3600})).json()
    finally:
        brokers.faults.restart(leader)

    assert found["partitions"][0]["leader"] not in (leader, -1)
    assert any("leads in epoch" in one for one in sentences_of(found))
    assert "not in sync" in page
    assert then["partitions"][0]["leader"] == leader
    assert then["changes"] == []


async def test_there_is_no_picture_of_a_topic_that_does_not_exist(
    browser: httpx.AsyncClient,
) -> None:
    """And no recording of it."""
    assert (await browser.get("/topics/none/alive")).status_code == 404
    assert (await browser.get("/topics/none/alive?back=4000")).status_code == 400


async def test_recordings_are_limited(brokers: ottla.Cluster) -> None:
    """Each asks the cluster every two seconds."""
    async with console_of(brokers.bootstrap_servers) as browser:
        for number in range(6):
            brokers.create_topic(f"recorded-{number}")
            page = await browser.get(f"/topics/recorded-{number}/alive")
            assert page.status_code == 200
