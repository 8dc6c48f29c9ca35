"""The page ``Alive`` in a real browser, while a cluster has load and faults."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

import ottla
from ottla.sync import Producer
from tests.interop.console.consoles import PICTURES, console_process
from tests.interop.console.webdriver import chromium, is_installed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.interop.console.webdriver import Chromium

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(not is_installed(), reason="needs chromium and chromium-driver"),
]
ARROW_RIGHT = "\ue014"
TEXT = "return document.getElementById('alive').textContent"
LABELS = "[...document.querySelectorAll('svg')].map((one) => one.getAttribute('aria-label'))"


@pytest.fixture(scope="module")
def brokers() -> Iterator[ottla.Cluster]:
    """Three brokers whose topic gets records all the time."""
    with ottla.Cluster(brokers=3) as cluster:
        cluster.create_topic("busy", partitions=4, replication_factor=3)
        ended = threading.Event()

        def load() -> None:
            with Producer(cluster.bootstrap_servers) as producer:
                while not ended.wait(0.02):
                    for _ in range(20):
                        producer.send("busy", b"x" * 200)

        loading = threading.Thread(target=load)
        loading.start()
        yield cluster
        ended.set()
        loading.join()


@pytest.fixture(scope="module")
def address(brokers: ottla.Cluster) -> Iterator[str]:
    """A console of the cluster."""
    with console_process(brokers.bootstrap_servers) as found:
        yield found


@pytest.fixture(scope="module")
def browser() -> Iterator[Chromium]:
    """Chromium."""
    with chromium() as found:
        yield found


def test_the_picture_moves_by_itself(browser: Chromium, address: str) -> None:
    """The server pushes; the elements stay, so that focus and place are kept."""
    browser.open(f"{address}/topics/busy/alive")
    browser.until("return document.getElementById('alive').dataset.live === '1'")
    browser.run("window.mine = document.querySelector('svg')")
    first = browser.run(f"return {LABELS}[0]")
    browser.until(f"return {LABELS}[0] !== {first!r}")

    assert browser.run("return document.querySelectorAll('svg').length") == 4
    assert browser.run("return document.querySelector('svg') === window.mine")
    assert "high watermark" in first
    assert browser.complaints() == []
    browser.picture(PICTURES / "alive-busy.png")


def test_an_election_is_told_to_a_screen_reader(
    browser: Chromium, address: str, brokers: ottla.Cluster
) -> None:
    """A live region has the sentence, and nothing else is read again all the time."""
    browser.open(f"{address}/topics/busy/alive")
    browser.until("return document.getElementById('alive').dataset.live === '1'")
    brokers.faults.kill(3)
    try:
        browser.until(f"{TEXT}.includes('left the ISR: 3')")
        browser.until("return document.getElementById('news').textContent !== ''")
        told = browser.run("return document.getElementById('news').textContent")
        browser.picture(PICTURES / "alive-election.png")
    finally:
        brokers.faults.restart(3)

    assert told
    assert browser.run("return document.getElementById('news').getAttribute('aria-live')")
    assert browser.run("return document.querySelectorAll('#alive [aria-live]').length") == 0


def test_the_keyboard_moves_the_slider_back(browser: Chromium, address: str) -> None:
    """A step back stops the pushes and shows an earlier moment; its name is told."""
    browser.open(f"{address}/topics/busy/alive")
    browser.until("return document.getElementById('alive').dataset.live === '1'")
    browser.run("document.getElementById('back').focus()")
    for _ in range(2):
        browser.press(ARROW_RIGHT)
    browser.until("return document.getElementById('back').value === '4'")
    said = browser.run("return document.getElementById('back').getAttribute('aria-valuetext')")

    assert said == "0 min 4 s ago"
    assert browser.complaints() == []


def test_without_javascript_the_page_has_picture_and_table(browser: Chromium, address: str) -> None:
    """The server draws both."""
    text = browser.run(
        "const answer = new XMLHttpRequest(); answer.open('GET', '/alive?search=busy', false);"
        "answer.send(); return answer.responseText"
    )

    assert text.count("<svg") == 4
    assert "The same as a table" in text
