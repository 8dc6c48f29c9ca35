"""``ottla produce`` over links that need longer for the input than a record may wait."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

import pytest

import ottla.sync
from ottla.client.cli import settings
from ottla.protocol.ids import TopicPartition
from tests.client.cli.command import in_process
from tests.support.broker_process import BrokerProcess
from tests.support.relays.slow_link import SlowLink

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.client.cli.command import Ottla

BYTES_PER_S = 400_000
# Less than the input takes, and, for a request, than five of the large records take.
REQUEST_MS, DELIVERY_MS = 1_800, 2_000


class Site(NamedTuple):
    """A broker that is reached over the link alone."""

    link: SlowLink
    address: str

    def stored(self, topic: str) -> int:
        where = TopicPartition(topic, 0)
        with ottla.sync.Consumer(self.address) as consumer:
            return consumer.end_offsets([where])[where]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with SlowLink(BYTES_PER_S) as link:
        address = f"127.0.0.1:{link.port}"
        options = {"advertised.listeners": f"PLAINTEXT://{address}"}
        folder = tmp_path_factory.mktemp("slow") / "data"
        with BrokerProcess(folder, options=options) as broker:
            link.target = broker.port
            yield Site(link, address)


@pytest.fixture
def command(capfdbinary: pytest.CaptureFixture[bytes], monkeypatch: pytest.MonkeyPatch) -> Ottla:
    monkeypatch.setattr(settings, "DELIVERY_TIMEOUT_MS", DELIVERY_MS)
    monkeypatch.setattr(settings, "REQUEST_TIMEOUT_MS", REQUEST_MS)
    return in_process(capfdbinary)


@pytest.mark.parametrize(
    ("name", "size", "count"), [("small", 1_000, 2_000), ("large", 250_000, 8)]
)
def test_all_arrives_while_anything_does(
    site: Site, command: Ottla, name: str, size: int, count: int
) -> None:
    """Five seconds' worth: the small records wait in the producer's memory, and of the large ones
    five are on the wire at once, each behind the others."""
    command("topics", "create", name, "-p", "1", "-b", site.address)
    lines = (b"x" * (size - 1) + b"\n") * count

    done = command("produce", name, "-b", site.address, stdin=lines)

    assert (done.status, done.errors) == (0, "")
    assert site.stored(name) == count


def test_a_link_that_carries_nothing_any_more_is_given_up(site: Site, command: Ottla) -> None:
    """The command ends after the delivery timeout and reports how many records are undelivered."""
    command("topics", "create", "stalled", "-p", "1", "-b", site.address)
    site.link.stall_after(300_000)
    try:
        done = command("produce", "stalled", "-b", site.address, stdin=(b"x" * 999 + b"\n") * 1_000)
    finally:
        site.link.go_on()

    assert done.status == 1
    assert f"no acknowledgement within {DELIVERY_MS} ms" in done.errors
    assert "records are not delivered, of 1000 that were sent" in done.errors


def test_a_failed_command_says_where_to_go_on(site: Site, command: Ottla) -> None:
    """A user who sends the whole input again would store its beginning twice."""
    command("topics", "create", "resumed", "-p", "1", "-b", site.address)
    lines = [b"%04d" % number + b"x" * 995 for number in range(1, 3_001)]
    stdin = b"\n".join(lines)
    site.link.stall_after(1_500_000)
    try:
        failed = command("produce", "resumed", "--timeout", "2", "-b", site.address, stdin=stdin)
    finally:
        site.link.go_on()
    place = re.search(r"go on with --from-line (\d+)\n", failed.errors)
    assert place is not None
    line = place[1]
    assert int(line) > 1
    assert site.stored("resumed") == int(line) - 1

    done = command("produce", "resumed", "--from-line", line, "-b", site.address, stdin=stdin)

    assert (done.status, done.errors) == (0, "")
    back = command("consume", "resumed", "-e", "--from-beginning", "-b", site.address)
    # A batch may be stored although its acknowledgement is lost; the error says so.
    assert sorted(set(back.output.splitlines())) == lines
