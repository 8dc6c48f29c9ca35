"""``ottla start --metrics``: the pages of a broker in its own process."""

from __future__ import annotations

import re
import urllib.request
from typing import TYPE_CHECKING

from ottla.broker.server.in_process import settings_of
from ottla.protocol.ports import Address
from tests.support.broker_process import BrokerProcess
from tests.support.pages import figure, parse_figures, read_page

if TYPE_CHECKING:
    from pathlib import Path


def test_the_option_opens_the_pages(tmp_path: Path) -> None:
    """With any HTTP client, by the address that the log names."""
    with BrokerProcess(tmp_path / "data", extra=["--metrics", "0"]) as broker:
        match = re.search(r"http://(127\.0\.0\.1):(\d+)/metrics", broker.stderr())
        assert match is not None
        address = Address(match[1], int(match[2]))

        assert read_page(address, "/readyz") == (200, "ok\n")
        with urllib.request.urlopen(match[0], timeout=60) as answer:
            figures = parse_figures(answer.read().decode())

    assert figure(figures, "kafka_brokers") == 1
    assert figure(figures, "process_start_time_seconds") > 1_600_000_000


def test_each_broker_of_one_process_has_pages_of_its_own() -> None:
    """Metrics ports count up as client ports do; two brokers cannot share one."""
    shared = {"ottla.metrics.listener": "127.0.0.1:9404", "log.dirs": "/data"}

    assert settings_of(shared, 3)["ottla.metrics.listener"] == "127.0.0.1:9406"
