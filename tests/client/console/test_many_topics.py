"""Ten thousand topics: a page of them comes within a second."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from tests.client.console.site import console_of

if TYPE_CHECKING:
    from tests.client.support.toy_broker import ToyCluster

TOPICS = 10_000
# The aim is one second; the rest is for a machine that is busy with other things.
SECONDS_MAX = 5.0


async def test_a_page_of_ten_thousand_topics_comes_within_a_second(toy: ToyCluster) -> None:
    """Consoles that ask for every topic one by one take minutes for the first page."""
    for number in range(TOPICS):
        toy.add_topic(f"many-{number:05}", 1)
    async with console_of(toy.bootstrap) as browser:
        begun_s = time.perf_counter()
        page = await browser.get("/topics", params={"page": "100"})
        seconds = time.perf_counter() - begun_s
        begun_s = time.perf_counter()
        found = (await browser.get("/api/topics", params={"search": "9999"})).json()
        again_s = time.perf_counter() - begun_s

    print(f"the first page of {TOPICS} topics: {seconds:.3f} s, a search then: {again_s:.3f} s")
    assert "10\u202f000 found, page 100 of 200" in page.text
    assert page.text.count("<tr>") < 100
    assert [row["topic"] for row in found["topics"]] == ["many-09999"]
    assert seconds < SECONDS_MAX
