"""The pages about transactions, moves of replicas and security."""

from __future__ import annotations

from typing import TYPE_CHECKING

import ottla
from tests.client.console.site import console_of, words_of

if TYPE_CHECKING:
    import httpx

HOSTILE = "<b>id</b>"


async def test_an_open_transaction_is_seen_where_it_holds_back_readers(
    brokers: ottla.Cluster, browser: httpx.AsyncClient
) -> None:
    """The question during an incident: which producer is it, and since when."""
    brokers.create_topic("booked")
    async with ottla.Producer(brokers.bootstrap_servers, transactional_id=HOSTILE) as producer:
        await producer.init_transactions()
        async with producer.transaction():
            for _ in range(3):
                await (await producer.send("booked", b"x"))
            found = (await browser.get("/api/transactions")).json()
            page = await browser.get("/transactions")
        after = (await browser.get("/api/transactions")).json()

    (row,) = found["blocking"]
    assert (row["topic"], row["partition"], row["first_offset"]) == ("booked", 0, 0)
    assert (row["held_back"], row["standing"]) == (3, "open")
    assert row["transactional_id"] == HOSTILE
    assert row["open_ms"] < row["timeout_ms"]
    assert [one["transactional_id"] for one in found["transactions"]] == [HOSTILE]
    assert HOSTILE not in page.text
    assert "&lt;b&gt;id&lt;/b&gt;" in page.text
    assert after["blocking"] == []


async def test_moves_are_listed(brokers: ottla.Cluster, browser: httpx.AsyncClient) -> None:
    """A move that has ended is none: the page is empty then."""
    found = (await browser.get("/api/moves")).json()
    page = words_of((await browser.get("/moves")).text)

    assert found == {"moves": []}
    assert "No replica is being moved" in page


async def test_security_names_the_unreadable_parts(browser: httpx.AsyncClient) -> None:
    """A cluster without an authorizer refuses to list rules; users and quotas are shown."""
    found = (await browser.get("/api/security")).json()
    page = await browser.get("/security")

    assert page.status_code == 200
    assert found["rules"]["rows"] == []
    assert found["rules"]["refused"]
    assert found["users"] == {"rows": [], "refused": None}


async def test_rules_users_and_quotas_are_listed() -> None:
    """Without passwords: the cluster does not tell them."""
    rules = [ottla.Acl("User:reader", "Read", topic="orders", prefixed=True)]
    with ottla.Cluster(
        security="sasl_plaintext", users={"reader": "secret-word"}, acls=rules
    ) as cluster:
        settings = {str(key): str(value) for key, value in cluster.client_settings("java").items()}
        del settings["bootstrap.servers"]
        async with console_of(cluster.bootstrap_servers, settings) as browser:
            found = (await browser.get("/api/security")).json()
            page = await browser.get("/security")

    assert {row["user"] for row in found["users"]["rows"]} >= {"admin", "reader"}
    read = [row for row in found["rules"]["rows"] if row["principal"] == "User:reader"]
    assert {
        "principal": "User:reader",
        "permission": "Allow",
        "operation": "Read",
        "resource_type": "Topic",
        "name": "orders",
        "pattern_type": "Prefixed",
        "host": "*",
    } in read
    assert "secret-word" not in page.text
