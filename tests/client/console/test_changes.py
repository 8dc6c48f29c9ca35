"""Changes: only when allowed, only from forms of the console, and with a preview of positions."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

import ottla
from tests.client.console.site import console_of, form_token_of, words_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import httpx

PATHS = (
    "/topics",
    "/topics/any/settings",
    "/topics/any/messages",
    "/group/preview",
    "/group/positions",
)


@pytest.fixture
async def changer(brokers: ottla.Cluster) -> AsyncIterator[httpx.AsyncClient]:
    """A browser of a console that allows changes."""
    async with console_of(brokers.bootstrap_servers, allow_changes=True) as found:
        yield found


async def _send(browser: httpx.AsyncClient, path: str, **fields: str) -> httpx.Response:
    token = form_token_of((await browser.get("/topics")).text)
    return await browser.post(path, data={"form_token": token, **fields})


@pytest.mark.parametrize("path", PATHS)
async def test_a_console_only_shows_by_default(browser: httpx.AsyncClient, path: str) -> None:
    """Neither a form that is there nor one that was written by hand changes anything."""
    page = await browser.get("/topics")
    answer = await browser.post(path, data={"form_token": "x", "topic": "made"})

    assert 'method="post"' not in page.text
    assert answer.status_code == 403
    assert "--allow-changes" in answer.text


@pytest.mark.parametrize("path", PATHS)
async def test_a_form_without_its_token_is_refused(changer: httpx.AsyncClient, path: str) -> None:
    """The page of another site knows the address, and not the token."""
    token = form_token_of((await changer.get("/topics")).text)
    fields = {"topic": "forged", "id": "forged"}
    tokenless = await changer.post(path, data=fields)
    wrong = await changer.post(path, data={**fields, "form_token": token[:-1] + "g"})
    foreign = await changer.post(
        path, data={**fields, "form_token": token}, headers={"origin": "http://evil.example"}
    )
    cross = await changer.post(
        path, data={**fields, "form_token": token}, headers={"sec-fetch-site": "cross-site"}
    )
    as_json = await changer.post(path, json={**fields, "form_token": token})
    changer.cookies.clear()
    visitless = await changer.post(path, data={**fields, "form_token": token})

    refused = [tokenless, wrong, foreign, cross, visitless]
    assert [one.status_code for one in refused] == [403] * 5
    assert as_json.status_code == 400
    assert (await changer.get("/api/topics/forged")).status_code == 404


async def test_a_topic_is_created_with_settings(changer: httpx.AsyncClient) -> None:
    """And its page comes next."""
    answer = await _send(
        changer,
        "/topics",
        topic="made",
        partitions="3",
        replication_factor="2",
        configs="retention.ms = 5000\r\ncleanup.policy=compact",
    )
    found = (await changer.get("/api/topics/made")).json()
    again = await _send(changer, "/topics", topic="made")
    bad = await _send(changer, "/topics", topic="bad name")
    worse = await _send(changer, "/topics", topic="x", configs="retention.ms")

    assert (answer.status_code, answer.headers["location"]) == (303, "/topics/made")
    assert (found["partitions"], found["replication_factor"]) == (3, 2)
    assert {row["name"]: row["value"] for row in found["configs"] if not row["is_default"]} == {
        "cleanup.policy": "compact",
        "retention.ms": "5000",
    }
    assert (again.status_code, bad.status_code) == (409, 400)
    assert "is not of the form name=value" in words_of(worse.text)


async def test_a_setting_is_changed_and_reset(
    brokers: ottla.Cluster, changer: httpx.AsyncClient
) -> None:
    """The cluster checks the value; its sentence is shown."""
    brokers.create_topic("settings")

    async def value() -> str | None:
        rows = (await changer.get("/api/topics/settings")).json()["configs"]
        found: str | None = next(row["value"] for row in rows if row["name"] == "retention.ms")
        return found

    before = await value()
    await _send(changer, "/topics/settings/settings", name="retention.ms", value="77777")
    assert await value() == "77777"
    refused = await _send(changer, "/topics/settings/settings", name="retention.ms", value="soon")
    burnt = await _send(
        changer, "/topics/settings/settings", name="retention.ms", value="1", action="burn"
    )
    assert burnt.status_code == 400
    assert await value() == "77777"
    await _send(changer, "/topics/settings/settings", name="retention.ms", action="reset")

    assert await value() == before
    assert refused.status_code == 409
    assert "retention.ms" in refused.text


async def test_a_record_is_sent(brokers: ottla.Cluster, changer: httpx.AsyncClient) -> None:
    """The page of the record comes next; a tombstone and bytes can be sent."""
    brokers.create_topic("sent", partitions=2)

    answer = await _send(
        changer,
        "/topics/sent/messages",
        key="k",
        value="two\r\nlines",
        headers="trace=abc",
        partition="1",
    )
    record = (await changer.get("/api" + answer.headers["location"])).json()
    await _send(changer, "/topics/sent/messages", value="00 ff", value_encoding="hex")
    await _send(changer, "/topics/sent/messages", key="k", value_encoding="null", partition="1")
    last = (await changer.get("/api/topics/sent/record?partition=1&offset=1")).json()
    lost = await _send(changer, "/topics/sent/messages", value="x", partition="9")
    missing = await _send(changer, "/topics/not-there/messages", value="x")

    assert answer.headers["location"] == "/topics/sent/record?partition=1&offset=0"
    assert (record["key"]["text"], record["value"]["text"]) == ("k", "two\nlines")
    assert record["headers"][0]["name"] == "trace"
    assert last["value"]["format"] in ("null", "hex")
    assert (lost.status_code, missing.status_code) == (400, 404)


async def test_a_form_has_limits(brokers: ottla.Cluster, changer: httpx.AsyncClient) -> None:
    """The sentence says which limit it was."""
    brokers.create_topic("limits")

    large = await _send(changer, "/topics/limits/messages", value="x" * 1024 * 1024)
    fits = await _send(changer, "/topics/limits/messages", value="x" * (1024 * 1024 - 1024))
    many = await _send(changer, "/topics", **{f"field{number}": "" for number in range(300)})
    old = await changer.post("/topics", data={"form_token": "x"})

    assert (large.status_code, fits.status_code, many.status_code) == (400, 303, 400)
    assert "a record from the console has at most 1 MiB" in large.text
    assert "the form has more than 200 fields" in many.text
    assert "load its page again, and allow cookies" in old.text


async def test_positions_are_moved_after_a_preview(
    brokers: ottla.Cluster, changer: httpx.AsyncClient
) -> None:
    """The preview changes nothing; then exactly its positions are set."""
    brokers.create_topic("moved", partitions=2)
    first, second = (ottla.TopicPartition("moved", number) for number in range(2))
    async with ottla.Producer(brokers.bootstrap_servers) as producer:
        for number in range(10):
            await (await producer.send("moved", b"x", partition=number % 2))
    async with ottla.Admin(brokers.bootstrap_servers) as admin:
        await admin.groups.commit("movers", {first: ottla.Committed(3)})

        preview = await _send(changer, "/group/preview", id="movers", to="latest")
        positions = re.search(r'name="positions" value="([^"]*)"', preview.text)
        assert positions is not None, preview.text
        unchanged = await admin.groups.offsets("movers")
        text = positions[1].replace("&#34;", '"')
        answer = await _send(changer, "/group/positions", id="movers", positions=text)
        changed = await admin.groups.offsets("movers")

        both = await _send(changer, "/group/preview", id="movers", topic="moved", to="earliest")

    assert "moved 0 3 5 +2" in words_of(preview.text)
    assert unchanged[first].offset == 3
    assert answer.headers["location"] == "/group?id=movers"
    assert {where: one.offset for where, one in changed.items()} == {first: 5}
    assert "moved 1 – 0 –" in words_of(both.text)
    assert second not in changed
    for fields in ({"to": "elsewhere"}, {"to": "time", "time": "soon"}, {"to": "offset"}):
        wrong = await _send(changer, "/group/preview", id="movers", **fields)
        assert wrong.status_code == 400, fields
    for broken in ("", "[]", "{", '[["a", 1]]', '[["a", 0, -5]]'):
        wrong = await _send(changer, "/group/positions", id="movers", positions=broken)
        assert wrong.status_code == 400, broken
