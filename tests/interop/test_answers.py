"""Apache Kafka still gives the answers that are recorded in tests/answers.

``RECORD_ANSWERS=1 make interop`` rewrites the files after a change of the list of requests.
"""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

import pytest

from tests.answers.asking import ask_all, record, recorded
from tests.interop.support.apache import ApacheCluster
from tests.interop.support.clients import JAVA_VERSIONS, needs
from tests.support.raw_client import RawClient

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.timeout(600)]

# 3.9 has the newer protocol of groups switched off.
BOTH_PROTOCOLS = {"group.coordinator.rebalance.protocols": "classic,consumer"}


@pytest.mark.parametrize("version", JAVA_VERSIONS)
def test_kafka_answers_as_it_was_recorded(version: str, tmp_path: Path) -> None:
    """A wrong recording would make the comparison with our broker worthless."""
    needs("java", "mvn")
    with ApacheCluster(version, tmp_path, settings=BOTH_PROTOCOLS) as cluster:
        port = cluster.brokers[1].port
        answers = asyncio.run(ask_all(lambda: RawClient("127.0.0.1", port)))
    if os.environ.get("RECORD_ANSWERS"):
        record(version, answers)

    assert answers == recorded(version)
