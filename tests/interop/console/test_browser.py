"""The console in a real browser: its script, its policy, keyboard, colours, hostile records.

Screenshots are kept in ``build/console``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import ottla
from ottla.sync import Admin, Producer
from tests.client.console.test_pages import HOSTILE
from tests.interop.console.consoles import PICTURES, console_process
from tests.interop.console.webdriver import chromium, is_installed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.interop.console.webdriver import Chromium

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(not is_installed(), reason="needs chromium and chromium-driver"),
]
TAB = "\ue004"
ATTACK = b'<img src=x onerror="window.attacked=1"><script>window.attacked=1</script>'


@pytest.fixture(scope="module")
def brokers() -> Iterator[ottla.Cluster]:
    """Three brokers with a topic of records that attack, and a group with such a name."""
    with ottla.Cluster(brokers=3) as cluster:
        cluster.create_topic("orders", partitions=3)
        with Producer(cluster.bootstrap_servers) as producer:
            for number in range(20):
                producer.send(
                    "orders", ATTACK if number % 2 else b'{"n": 1}', key=ATTACK, partition=0
                )
            producer.flush()
        with Admin(cluster.bootstrap_servers) as admin:
            where = ottla.TopicPartition("orders", 0)
            for group in (HOSTILE, "readers", f"spark-kafka-source-{HOSTILE}"):
                admin.groups.commit(group, {where: ottla.Committed(0)})
        yield cluster


@pytest.fixture(scope="module")
def address(brokers: ottla.Cluster) -> Iterator[str]:
    """A console of the cluster, as a process."""
    with console_process(brokers.bootstrap_servers, "--allow-changes") as found:
        yield found


@pytest.fixture(scope="module")
def browser() -> Iterator[Chromium]:
    """Chromium."""
    with chromium() as found:
        yield found


PAGES = {
    "cluster": "/cluster",
    "broker": "/brokers/1",
    "topics": "/topics",
    "topic": "/topics/orders",
    "records": "/topics/orders/messages",
    "record": "/topics/orders/record?partition=0&offset=0",
    "alive": "/topics/orders/alive",
    "cluster-alive": "/alive",
    "groups": "/groups",
    "group": "/group?id=readers",
    "throughput": "/throughput",
    "pipelines": "/pipelines",
    "audit": "/audit",
    "transactions": "/transactions",
    "moves": "/moves",
    "security": "/security",
}


@pytest.mark.parametrize("name", PAGES)
def test_a_page_runs_only_the_script_of_the_console(
    browser: Chromium, address: str, name: str
) -> None:
    """No error, no refusal of the policy, and nothing of what a record holds is run."""
    browser.open(address + PAGES[name])
    browser.until("return document.readyState === 'complete'")

    browser.picture(PICTURES / f"{name}.png")
    assert browser.run("return window.attacked") is None
    assert browser.run("return document.querySelectorAll('main h1').length") == 1
    assert browser.run("return document.querySelector('nav [aria-current=page]') !== null")
    assert browser.complaints() == []


def test_the_keyboard_reaches_the_content_first(browser: Chromium, address: str) -> None:
    """A link before all others skips the navigation; it shows when it has the focus."""
    browser.open(address + "/topics")
    browser.press(TAB)

    assert browser.run("return document.activeElement.className") == "skip"
    assert browser.run("return document.activeElement.getBoundingClientRect().left") >= 0


def test_every_field_has_a_label(browser: Chromium, address: str) -> None:
    """A screen reader says what a field is for."""
    for path in PAGES.values():
        browser.open(address + path)
        nameless = browser.run(
            "return [...document.querySelectorAll('input:not([type=hidden]),select,textarea')]"
            ".filter((one) => one.labels.length === 0).map((one) => one.name)"
        )
        assert nameless == [], path


def test_the_colours_change_and_stay(browser: Chromium, address: str) -> None:
    """The choice is kept for the next page, and text can be read in both schemes."""
    browser.open(address + "/cluster")
    ground = "return getComputedStyle(document.body).backgroundColor"
    before = browser.run(ground)
    browser.click("#theme")
    after = browser.run(ground)
    browser.open(address + "/topics")

    assert before != after
    assert browser.run(ground) == after
    browser.picture(PICTURES / "topics-other-colours.png")


def test_the_live_tail_shows_new_records_as_text(
    browser: Chromium, address: str, brokers: ottla.Cluster
) -> None:
    """The script sets text only, whatever the record holds."""
    browser.open(address + "/topics/orders/messages")
    browser.click("#tail")
    browser.until("return document.getElementById('state').textContent.startsWith('Waiting')")
    with Producer(brokers.bootstrap_servers) as producer:
        producer.send("orders", ATTACK + b"new", key=ATTACK)
        producer.flush()
    browser.until("return document.querySelectorAll('#records tbody tr').length === 1")
    shown = browser.run("return document.querySelector('#records tbody').textContent")
    browser.click("#tail")

    assert (ATTACK + b"new").decode() in shown
    assert browser.run("return window.attacked") is None
    assert "Stopped after 1" in browser.run("return document.getElementById('state').textContent")
    browser.picture(PICTURES / "tail.png")


def test_a_topic_is_created_by_its_form(browser: Chromium, address: str) -> None:
    """The cookie, the token and the policy let a form of the console pass."""
    browser.open(address + "/topics")
    browser.click("details summary")
    browser.type("input[name=topic]", "by-form")
    browser.click("details button")

    browser.until("return location.pathname === '/topics/by-form'")
    assert browser.run("return document.querySelector('h1').textContent") == "Topic by-form"
