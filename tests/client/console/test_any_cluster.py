"""The console is a client: each page works with any cluster that speaks the protocol."""

from __future__ import annotations

import ottla
from tests.client.console.site import console_of, form_token_of
from tests.client.support.sites import soon

PATHS = (
    "/cluster",
    "/topics",
    "/topics/anywhere",
    "/topics/anywhere/messages?filter=value.n==3",
    "/topics/anywhere/record?offset=3",
    "/groups",
    "/group?id=lookers",
    "/alive",
    "/throughput",
    "/pipelines",
    "/audit",
    "/transactions",
    "/moves",
    "/security",
)


async def test_every_page_works_with_this_cluster(broker: str) -> None:
    """What an older or a foreign broker lacks is left out, and breaks no page."""
    where = ottla.TopicPartition("anywhere", 0)
    async with console_of(broker, allow_changes=True) as browser:
        token = form_token_of((await browser.get("/topics")).text)
        fields = {"form_token": token, "topic": "anywhere", "partitions": "1"}
        created = await browser.post("/topics", data=fields)
        assert created.status_code == 303, created.text
        async with ottla.Producer(broker) as producer:
            for number in range(5):
                await (await producer.send("anywhere", b'{"n": %d}' % number))
        async with ottla.Admin(broker) as admin:
            await admin.groups.commit("lookers", {where: ottla.Committed(2)})
            node_id = (await admin.describe_cluster()).brokers[0].node_id
        # Apache Kafka does not tell at once of a group that has positions alone.
        async with console_of(broker) as first:
            path = "/api/group?id=lookers"
            await soon(lambda: first.get(path), lambda one: one.status_code == 200)
        for path in (*PATHS, f"/brokers/{node_id}"):
            page, found = await browser.get(path), await browser.get(f"/api{path}")
            assert (page.status_code, found.status_code) == (200, 200), (path, found.text)
        messages = (await browser.get("/api/topics/anywhere/messages?filter=value.n==3")).json()
        group = (await browser.get("/api/group?id=lookers")).json()
        topic = (await browser.get("/api/topics/anywhere")).json()
        alive = (await browser.get("/api/alive?search=anywhere")).json()

    assert [row["offset"] for row in messages["records"]] == [3]
    assert group["lag"] == 3
    assert (alive["partitions"][0]["end"], alive["partitions"][0]["log_ends"]) == (5, [5])
    assert topic["partition_list"][0]["end_offset"] == 5
    assert topic["configs"]
