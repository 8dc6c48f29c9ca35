"""Records are browsed, filtered, followed and downloaded."""

from __future__ import annotations

import asyncio
import json
import re
from typing import TYPE_CHECKING, Any

import ottla
from ottla.client.console import browsing
from tests.client.console.test_pages import HOSTILE

if TYPE_CHECKING:
    import httpx
    import pytest

LARGE = 10_000_000


async def _fill(cluster: ottla.Cluster, topic: str, count: int, partitions: int = 1) -> None:
    cluster.create_topic(topic, partitions)
    async with ottla.Producer(cluster.bootstrap_servers) as producer:
        for number in range(count):
            value = json.dumps({"n": number, "even": number % 2 == 0}).encode()
            await producer.send(
                topic,
                value,
                key=b"k%d" % number,
                partition=number % partitions,
                timestamp=1_000_000 + number * 1000,
                headers=(("number", b"%d" % number),),
            )


async def _messages(browser: httpx.AsyncClient, topic: str, **query: object) -> dict[str, Any]:
    params = {name.rstrip("_"): str(value) for name, value in query.items()}
    answer = await browser.get(f"/api/topics/{topic}/messages", params=params)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def _numbers(found: dict[str, Any]) -> list[int]:
    return [json.loads(row["value"]["text"])["n"] for row in found["records"]]


async def test_pages_of_the_newest_lead_to_the_first_record(
    brokers: ottla.Cluster, browser: httpx.AsyncClient
) -> None:
    """No record twice, none left out, over all partitions."""
    await _fill(brokers, "paged", 100, partitions=3)
    seen: list[int] = []
    found = await _messages(browser, "paged", limit=30)
    assert _numbers(found) == list(range(99, 69, -1))
    seen += _numbers(found)
    while found["older"]:
        found = await _messages(browser, "paged", limit=30, before=found["older"])
        seen += _numbers(found)

    assert sorted(seen) == list(range(100))


async def test_pages_from_the_oldest_go_on_to_the_end(
    brokers: ottla.Cluster, browser: httpx.AsyncClient
) -> None:
    """The other direction."""
    await _fill(brokers, "forward", 70, partitions=2)
    found = await _messages(browser, "forward", from_="oldest", limit=32)
    seen = _numbers(found)
    while found["newer"]:
        found = await _messages(browser, "forward", from_="oldest", limit=32, at=found["newer"])
        seen += _numbers(found)

    assert sorted(seen) == list(range(70))


async def test_an_offset_and_a_time_are_found(
    brokers: ottla.Cluster, browser: httpx.AsyncClient
) -> None:
    """The two places that an error message of an application names."""
    await _fill(brokers, "placed", 20)

    at = await _messages(browser, "placed", from_="offset", offset=7, limit=2)
    timed = await _messages(browser, "placed", from_="time", time=1_012_500, limit=1)
    late = await _messages(browser, "placed", from_="time", time="1h")

    assert _numbers(at) == [7, 8]
    assert _numbers(timed) == [13]
    assert late["records"] == []


async def test_records_are_filtered(brokers: ottla.Cluster, browser: httpx.AsyncClient) -> None:
    """The one order of a customer among all others."""
    await _fill(brokers, "filtered", 20)
    cases: list[tuple[dict[str, str], list[int]]] = [
        ({"key": "k17"}, [17]),
        ({"header": "number=4"}, [4]),
        ({"filter": "value.n >= 18"}, [19, 18]),
        ({"filter": "value.even == true", "value": "1"}, [18, 16, 14, 12, 10]),
        ({"partition": "0", "limit": "1"}, [19]),
    ]
    for query, numbers in cases:
        assert _numbers(await _messages(browser, "filtered", **query)) == numbers, query


async def test_a_page_says_where_it_stopped(
    brokers: ottla.Cluster, browser: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A search through a long topic comes back, and goes on by a link."""
    await _fill(brokers, "long", 60)
    monkeypatch.setattr(browsing, "Budget", lambda **_: browsing_budget(25))

    found = await _messages(browser, "long", from_="oldest", filter="value.n == 40")
    again = await _messages(
        browser, "long", from_="oldest", filter="value.n == 40", at=found["newer"]
    )

    assert (found["records"], found["read"], found["stopped_by"]) == ([], 25, "records")
    assert found["newer"] == "0:25"
    assert _numbers(again) == [40]


def browsing_budget(records: int) -> Any:
    """A budget of so many records."""
    return _BUDGET(records=records)


_BUDGET = browsing.Budget


async def test_a_record_of_ten_megabytes_is_cut(
    brokers: ottla.Cluster, browser: httpx.AsyncClient
) -> None:
    """The page stays small, the size is told, and the whole value is one link away."""
    brokers.create_topic("large", configs={"max.message.bytes": LARGE * 2})
    value = b"\x00" + b"large" * (LARGE // 5)
    async with ottla.Producer(
        brokers.bootstrap_servers, batch_bytes=LARGE * 2, request_bytes_max=LARGE * 2
    ) as producer:
        await (await producer.send("large", value))

    page = await browser.get("/topics/large/messages")
    record = await browser.get("/topics/large/record", params={"offset": 0})
    content = await browser.get("/topics/large/content", params={"offset": 0})

    assert "cut, 9.5 MiB in all" in page.text
    assert len(page.content) < 100_000
    assert len(record.content) < 2_000_000
    assert content.content == value
    assert content.headers["content-disposition"].startswith("attachment")
    assert content.headers["content-type"] == "application/octet-stream"


async def test_hostile_records_stay_text(
    brokers: ottla.Cluster, browser: httpx.AsyncClient
) -> None:
    """Keys, values and headers come from any producer."""
    brokers.create_topic("hostile")
    async with ottla.Producer(brokers.bootstrap_servers) as producer:
        bytes_ = HOSTILE.encode()
        await (await producer.send("hostile", bytes_, key=bytes_, headers=((HOSTILE, bytes_),)))

    for path in ("messages", "record?offset=0", "messages?key=%22%3E%3Cscript%3E"):
        page = await browser.get(f"/topics/hostile/{path}")
        assert page.status_code == 200
        scripts = re.findall(r"<script[^>]*>", page.text)
        assert scripts == ['<script src="/static/console.js" defer>']
    lines = await browser.get("/topics/hostile/messages.jsonl")
    assert lines.headers["content-disposition"].startswith("attachment")


async def test_half_a_surrogate_pair_does_not_take_the_page_away(
    brokers: ottla.Cluster, browser: httpx.AsyncClient
) -> None:
    """JSON can name what UTF-8 does not have; any producer can send it."""
    brokers.create_topic("halves")
    async with ottla.Producer(brokers.bootstrap_servers) as producer:
        await (await producer.send("halves", b'["\\ud800"]'))

    for path in ("messages", "record?offset=0"):
        page = await browser.get(f"/topics/halves/{path}")
        assert page.status_code == 200
        assert "&#34;?&#34;" in page.text


async def test_records_are_downloaded_as_lines(
    brokers: ottla.Cluster, browser: httpx.AsyncClient
) -> None:
    """In the form of ``ottla consume --json``, which ``ottla produce`` reads."""
    await _fill(brokers, "lines", 12)

    answer = await browser.get("/topics/lines/messages.jsonl", params={"filter": "value.n > 9"})
    rows = [json.loads(line) for line in answer.text.splitlines()]

    assert [row["key"] for row in rows] == ["k10", "k11"]
    assert rows[0]["headers"] == [{"name": "number", "value": "10"}]
    assert rows[0]["topic"] == "lines"


async def test_mistakes_are_sentences(brokers: ottla.Cluster, browser: httpx.AsyncClient) -> None:
    """Before anything is read, also for downloads and tails."""
    brokers.create_topic("mistakes")
    for query in (
        "filter=value.a=1",
        "where=x",
        "partition=7",
        "from=time&time=soon",
        "format=avro",
        "at=x",
    ):
        page = await browser.get(f"/topics/mistakes/messages?{query}")
        assert page.status_code == 400, query
    for path in ("messages.jsonl?filter=x+y", "tail?filter=x+y", "content?part=x"):
        assert (await browser.get(f"/topics/mistakes/{path}")).status_code == 400
    for path in ("messages", "messages.jsonl", "tail", "record"):
        assert (await browser.get(f"/topics/none/{path}")).status_code == 404
    for path in ("messages", "messages.jsonl"):
        page = await browser.get(f"/topics/mistakes/{path}?from=time&time={'9' * 25}")
        assert page.status_code == 400, path
        assert "time is" in page.text
    unknown = await browser.get("/api/topics/mistakes/messages?json=$.a")
    assert unknown.status_code == 400
    assert unknown.json()["error"].startswith("there is no parameter 'json', only from, offset")
    assert "/login" not in (await browser.get("/topics/mistakes/messages?json=$.a")).text
    gone = await browser.get("/topics/mistakes/record?offset=5")
    assert "has no record at offset 5" in gone.text


async def test_an_empty_topic_has_an_empty_page(
    brokers: ottla.Cluster, browser: httpx.AsyncClient
) -> None:
    """At once: it must not wait for a record."""
    brokers.create_topic("empty", 2)

    found = await asyncio.wait_for(_messages(browser, "empty"), 5)

    assert (found["records"], found["older"], found["newer"]) == ([], None, None)
