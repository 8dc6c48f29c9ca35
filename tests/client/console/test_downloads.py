"""Records are downloaded as Parquet, in bounded pieces."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

from ottla.client.console import downloads
from tests.client.console.test_messages import _fill

if TYPE_CHECKING:
    import httpx

    import ottla


async def test_records_are_downloaded_as_parquet(
    brokers: ottla.Cluster, browser: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the same filters, in row groups, and with the schema of the client's Arrow data."""
    monkeypatch.setattr(downloads, "GROUP_RECORDS_MAX", 200)
    await _fill(brokers, "columns", 600)

    answer = await browser.get(
        "/topics/columns/messages.parquet", params={"filter": "value.n >= 40"}
    )
    file = pq.ParquetFile(io.BytesIO(answer.content))
    rows = file.read().to_pylist()

    assert answer.headers["content-type"] == "application/vnd.apache.parquet"
    assert "columns.parquet" in answer.headers["content-disposition"]
    assert [row["offset"] for row in rows] == list(range(40, 600))
    assert file.num_row_groups >= 2
    assert rows[0]["key"] == b"k40"
    assert rows[0]["topic"] == "columns"
    assert rows[0]["headers"] == [{"key": "number", "value": b"40"}]


async def test_no_record_is_a_file_without_rows(
    brokers: ottla.Cluster, browser: httpx.AsyncClient
) -> None:
    """Programs that read it expect a schema."""
    await _fill(brokers, "none-fit", 3)

    answer = await browser.get("/topics/none-fit/messages.parquet?key=nowhere")

    assert pq.read_table(io.BytesIO(answer.content)).num_rows == 0


async def test_without_pyarrow_the_visitor_learns_what_to_install(
    brokers: ottla.Cluster, browser: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The operator has to install it: the console itself works without."""

    def missing(name: str, extra: str) -> object:
        raise ImportError(f"this needs {name}: install {extra}")

    monkeypatch.setattr(downloads, "library", missing)
    brokers.create_topic("unwritten")
    answer = await browser.get("/topics/unwritten/messages.parquet")

    assert answer.status_code == 501
    assert "this needs pyarrow" in answer.text


async def test_the_number_of_downloads_is_limited(
    brokers: ottla.Cluster, browser: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each holds a consumer."""
    brokers.create_topic("crowded")
    monkeypatch.setattr("ottla.client.console.streams.TAILS_MAX", 0)

    assert (await browser.get("/topics/crowded/messages.jsonl")).status_code == 429


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("refused/messages.jsonl?limit=none", 400),
        ("refused/messages.parquet?where=x", 400),
        ("refused/content?part=x", 400),
        ("absent/messages.jsonl", 404),
        ("absent/messages.parquet", 404),
        ("absent/content", 404),
    ],
)
async def test_a_program_reads_why_there_is_no_download_as_json(
    brokers: ottla.Cluster, browser: httpx.AsyncClient, path: str, status: int
) -> None:
    """It cannot read a page; a person who pressed the button can."""
    topic = f"refused-{path.rpartition('.')[2].partition('?')[0].replace('/', '-')}"
    if status == 400:
        brokers.create_topic(topic)
    url = f"/topics/{path.replace('refused', topic)}"
    for_program = await browser.get(url)
    for_person = await browser.get(url, headers={"accept": "text/html,*/*;q=0.8"})

    assert for_program.status_code == for_person.status_code == status
    assert list(for_program.json()) == ["error"]
    assert for_person.headers["content-type"].startswith("text/html")
