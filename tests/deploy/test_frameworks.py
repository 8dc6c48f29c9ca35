"""Frameworks with clients of their own, in environments of their own, on Ottla's brokers."""

from __future__ import annotations

import asyncio
from asyncio.subprocess import PIPE

import pytest

from ottla import Cluster
from tests.interop.support.environments import python_with
from tests.tidy.tree import ROOT

pytestmark = [pytest.mark.interop, pytest.mark.timeout(600)]
PATIENCE_S = 120
SCRIPT = ROOT / "examples" / "frameworks" / "faust_orders.py"


async def test_a_stream_of_faust_keeps_its_table_and_ends() -> None:
    """Its assignor, its table's changelog and its group, as the example shows them."""
    python = await asyncio.to_thread(python_with, "faust-streaming>=0.11")
    with Cluster() as cluster:
        cluster.create_topic("orders", 1)
        process = await asyncio.create_subprocess_exec(
            *(str(python), str(SCRIPT), cluster.bootstrap_servers), stdout=PIPE, stderr=PIPE
        )
        try:
            async with asyncio.timeout(PATIENCE_S):
                output, errors = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()

    assert process.returncode == 0, errors.decode()
    assert b"ada has ordered for 19.99\nada has ordered for 25.00\n" in output
