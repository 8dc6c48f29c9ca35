"""Followers: byte by byte what the leader has, whoever leads, whatever is late, lost or wrong."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.broker.runtime.replica_site import Site, values

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    made = Site()
    await made.start()
    yield made
    await made.stop()


@pytest.mark.requirement("REP-03", "REP-06")
async def test_followers_logs_are_the_leaders_byte_by_byte(site: Site) -> None:
    """Offsets, epochs and sequences are the leader's, or a failover would change them."""
    await site.lead(1)
    for number in range(20):
        site.nodes[1].produce(*values(3, number * 3))
    await site.settle()

    assert len(site.contents()) == 1
    assert site.contents() != {b""}
    for node in site.nodes.values():
        assert node.partition().replica.log_end_offset == 60
        assert node.partition().replica.high_watermark == 60
