"""The page that shows a topic alive."""

from __future__ import annotations

import asyncio
import json
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

import ottla
from ottla.client.console.alive import alive_events
from ottla.client.console.connections import ClusterAccess, ConsoleConnection
from ottla.client.console.page_maker import Facts, PageMaker
from ottla.client.console.streams import Tails
from ottla.client.console.views.asked import Question
from ottla.client.process.environment import real_environment
from tests.client.console.site import console_of, words_of
from tests.client.support.sites import soon

if TYPE_CHECKING:
    import httpx


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


async def test_the_picture_is_sent_again_when_it_changes(
    brokers: ottla.Cluster,
) -> None:
    """Records and a transaction are seen as they come; followers tell where their logs end."""
    brokers.create_topic("pushed", partitions=1, replication_factor=3)
    access = ClusterAccess(brokers.bootstrap_servers, {}, real_environment())
    connection = ConsoleConnection(access)
    maker = PageMaker(Facts("", False, False))
    events = alive_events(
        connection,
        Question({"topic": "pushed"}, {}),
        Tails(),
        lambda document: maker.part("alive_part.html", document),
    )

    async def until(*words: str) -> str:
        async for sent in events:
            if not sent.startswith(b"event: alive\n"):
                continue
            found: str = json.loads(sent.partition(b"data: ")[2])["html"]
            if all(word in found for word in words):
                return found
        raise AssertionError(words)

    async with (
        asyncio.timeout(60),
        aclosing(events),
        ottla.Producer(brokers.bootstrap_servers, transactional_id="tx") as producer,
    ):
        await producer.init_transactions()
        await until("leads in epoch", "in sync: 1, 2, 3")
        async with producer.transaction():
            await producer.send("pushed", b"x", partition=0)
            await producer.flush()
            held = await until("an open transaction holds the stable offset at 0", 'class="stable"')
        await until("no transaction is open any more", "log of broker 3 ends at 2")
    connection.close()

    assert held.count("<rect") == 3
    assert "in sync, to 1" in words_of(held)


async def test_the_whole_cluster_has_a_page(
    brokers: ottla.Cluster, browser: httpx.AsyncClient
) -> None:
    """Partitions of all topics, found by words."""
    brokers.create_topic("somewhere", partitions=30)

    found = (await browser.get("/api/alive", params={"search": "somewhere", "rows": 7})).json()
    second = (await browser.get("/api/alive?search=somewhere&rows=7&page=5&order=name")).json()
    page = await browser.get("/alive?search=nowhere")

    assert (found["total"], len(found["partitions"]), found["pages"]) == (30, 7, 5)
    assert [one["partition"] for one in second["partitions"]] == [28, 29]
    assert all(None not in one["log_ends"] for one in second["partitions"])
    assert "No partition fits." in page.text


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
