"""The pages about the cluster, topics and groups, and the same as JSON."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import ottla
from tests.client.console.site import words_of

if TYPE_CHECKING:
    import httpx

HOSTILE = '<script>alert("x")</script>&\'/../"'


async def test_the_cluster_page_shows_brokers_and_controller(browser: httpx.AsyncClient) -> None:
    """The first question of an operator: who is there, and does anything lack a replica."""
    page = await browser.get("/cluster")
    found = (await browser.get("/api/cluster")).json()

    assert page.status_code == 200
    assert "Under-replicated 0" in words_of(page.text)
    assert [one["broker"] for one in found["brokers"]] == [1, 2, 3]
    assert found["controller"] in (1, 2, 3)
    assert all(one["is_reachable"] for one in found["brokers"])
    assert [one["broker"] for one in found["brokers"] if one["is_controller"]] == [
        found["controller"]
    ]
    assert found["features"]


async def test_a_stopped_broker_is_seen(brokers: ottla.Cluster, browser: httpx.AsyncClient) -> None:
    """This page is opened during incidents."""
    brokers.create_topic("thin", partitions=3, replication_factor=3)
    brokers.faults.kill(3)
    try:
        found = (await browser.get("/api/cluster")).json()
    finally:
        brokers.faults.restart(3)

    # A broker that died is listed until its session ends.
    seen = {one["broker"]: one["is_reachable"] for one in found["brokers"]}
    assert seen == {1: True, 2: True} | ({3: False} if 3 in seen else {})


async def test_topics_are_found_by_name_without_scripts(
    brokers: ottla.Cluster, browser: httpx.AsyncClient
) -> None:
    """A list is plain HTML, so that a text browser and a screen reader show it."""
    for name in ("shop.orders", "shop.payments", "audit"):
        brokers.create_topic(name, partitions=2)

    page = await browser.get("/topics", params={"search": "SHOP"})
    found = (await browser.get("/api/topics", params={"search": "SHOP"})).json()

    assert page.headers["content-type"].startswith("text/html")
    assert '<a href="/topics/shop.orders">shop.orders</a>' in page.text
    assert ">audit<" not in page.text
    assert [row["topic"] for row in found["topics"]] == ["shop.orders", "shop.payments"]
    assert found["topics"][0]["partitions"] == 2
    assert found["topics"][0]["size_bytes"] == 0


async def test_a_topic_shows_partitions_and_documented_settings(
    brokers: ottla.Cluster, browser: httpx.AsyncClient
) -> None:
    """Where leaders are, how long the log is, and what each setting means."""
    brokers.create_topic("full", partitions=1, configs={"retention.ms": "3600000"})
    async with ottla.Producer(brokers.bootstrap_servers) as producer:
        for number in range(5):
            await (await producer.send("full", b"%d" % number))

    found = (await browser.get("/api/topics/full")).json()
    page = words_of((await browser.get("/topics/full")).text)

    (part,) = found["partition_list"]
    assert (part["first_offset"], part["end_offset"]) == (0, 5)
    assert sorted(part["isr"]) == sorted(part["replicas"]) == [1, 2, 3]
    assert part["size_bytes"] > 0
    first = found["configs"][0]
    assert (first["name"], first["value"], first["is_default"]) == (
        "retention.ms",
        "3600000",
        False,
    )
    assert all(row["documentation"] for row in found["configs"])
    assert first["documentation"] in page


async def test_a_group_shows_its_lag(brokers: ottla.Cluster, browser: httpx.AsyncClient) -> None:
    """How far behind, partition by partition."""
    brokers.create_topic("lagging", partitions=1)
    where = ottla.TopicPartition("lagging", 0)
    async with ottla.Producer(brokers.bootstrap_servers) as producer:
        for _ in range(7):
            await (await producer.send("lagging", b"x"))
    async with ottla.Admin(brokers.bootstrap_servers) as admin:
        await admin.groups.commit("readers", {where: ottla.Committed(3)})

    listed = (await browser.get("/api/groups", params={"search": "readers"})).json()
    found = (await browser.get("/api/group", params={"id": "readers"})).json()
    page = await browser.get("/group", params={"id": "readers"})

    assert [(row["group"], row["lag"]) for row in listed["groups"]] == [("readers", 4)]
    assert found["state"] == "Empty"
    assert found["partitions"][0]["lag"] == 4
    assert "lagging 0 3 7 4" in words_of(page.text)


async def test_hostile_names_stay_text(brokers: ottla.Cluster, browser: httpx.AsyncClient) -> None:
    """The names of groups come from any client, and may hold any character."""
    brokers.create_topic("plain", partitions=1)
    where = ottla.TopicPartition("plain", 0)
    async with ottla.Admin(brokers.bootstrap_servers) as admin:
        await admin.groups.commit(HOSTILE, {where: ottla.Committed(0, -1, HOSTILE)})

    listed = await browser.get("/groups")
    shown = await browser.get("/group", params={"id": HOSTILE})
    missing = await browser.get("/topics/%3Cscript%3E")
    searched = await browser.get("/topics", params={"search": '"><script>'})

    for page in (listed, shown, missing, searched):
        assert "<script>" not in page.text.replace('<script src="/static/console.js"', "")
    assert "&lt;script&gt;" in listed.text
    assert shown.status_code == 200
    assert missing.status_code == 404


@pytest.mark.parametrize("path", ["", "/messages", "/messages.jsonl", "/tail", "/content"])
async def test_a_topic_that_fits_into_no_request_is_refused(
    browser: httpx.AsyncClient, path: str
) -> None:
    """A string of the protocol has a size of two bytes."""
    answer = await browser.get(f"/topics/{'t' * 40_000}{path}")

    assert answer.status_code == 400
    assert "topic is too long; it has at most 32767 bytes" in answer.text


async def test_a_group_that_fits_into_no_request_is_refused(browser: httpx.AsyncClient) -> None:
    """The longest name that fits is looked for."""
    longest = await browser.get("/group", params={"id": "g" * 32_767})
    answer = await browser.get("/api/group", params={"id": "g" * 32_768})

    assert longest.status_code != 400
    assert answer.status_code == 400
    assert answer.json() == {"error": "id is too long; it has at most 32767 bytes"}


async def test_a_broker_that_does_not_exist_has_no_page(browser: httpx.AsyncClient) -> None:
    """An empty page would look like a broker without settings."""
    there = await browser.get("/api/brokers/2")
    page = await browser.get("/brokers/99")
    found = await browser.get("/api/brokers/99")

    assert (page.status_code, found.status_code) == (404, 404)
    assert (there.status_code, there.json()["broker"]) == (200, 2)
    assert found.json() == {"error": "the cluster has no broker 99"}
    assert "the cluster has no broker 99" in page.text
    for text in ("x", "9" * 5000):
        assert (await browser.get(f"/brokers/{text}")).status_code == 400


async def test_a_missing_page_is_explained_in_a_sentence(browser: httpx.AsyncClient) -> None:
    """A link may outlive its topic."""
    page = await browser.get("/topics/none")
    found = await browser.get("/api/topics/none")
    elsewhere = await browser.get("/api/elsewhere")
    broken = await browser.get("/api/topics", params={"page": "x"})

    assert (page.status_code, found.status_code) == (404, 404)
    assert "topic 'none' does not exist" in found.json()["error"]
    assert (elsewhere.status_code, elsewhere.json()["error"]) == (404, "there is no such page")
    assert broken.status_code == 400


async def test_the_api_is_described(browser: httpx.AsyncClient) -> None:
    """Programs of others use it, and generate their clients from the description."""
    found = (await browser.get("/api/openapi.json")).json()

    assert found["openapi"].startswith("3.")
    assert found["info"]["version"] == "1.2.3"
    topic = found["paths"]["/api/topics/{topic}"]["get"]
    assert topic["parameters"][0]["name"] == "topic"
    listed = found["paths"]["/api/topics"]["get"]["parameters"]
    assert {one["name"] for one in listed} == {"search", "page", "rows", "internal"}


async def test_another_host_name_is_refused(browser: httpx.AsyncClient) -> None:
    """A name of another site that leads to this address must not read the cluster."""
    refused = await browser.get("/api/topics", headers={"host": "evil.example:8080"})

    assert refused.status_code == 421
    assert "to allow it, start the console with --allow-host NAME" in refused.text
    assert "topics" not in refused.text


async def test_every_answer_forbids_foreign_content(browser: httpx.AsyncClient) -> None:
    """Even if a value escaped the templates, the browser would run no script of it."""
    for path in ("/cluster", "/api/topics", "/nowhere", "/static/console.css"):
        headers = (await browser.get(path)).headers
        assert "default-src 'none'" in headers["content-security-policy"]
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"
        # With no-referrer a browser sends forms with the origin null, which are refused.
        assert headers["referrer-policy"] == "same-origin"
