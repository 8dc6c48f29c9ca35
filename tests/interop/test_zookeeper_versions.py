"""The store and the brokers on each line of ZooKeeper that people run; archives by Maven."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys

import pytest

from tests.interop.support.environments import zookeeper_jars
from tests.support.broker_process import ROOT
from tests.zookeeper.java import JARS_VARIABLE

# Debian 12 has 3.8.0. Up to 3.7.1, in 3.8.0 and in 3.8.1 groups answer create2 by a path alone.
VERSIONS = ("3.5.10", "3.6.4", "3.7.1", "3.7.2", "3.8.0", "3.8.4", "3.9.3")
# The contract, one history beside the embedded store, lost connections, TLS, and real brokers.
ROOMS = ("tests/coordinator/store", "tests/zookeeper")
LIMIT_S = 1_200

pytestmark = [
    pytest.mark.interop,
    pytest.mark.timeout(2 * LIMIT_S),
    pytest.mark.skipif(shutil.which("mvn") is None, reason="needs Maven for ZooKeeper's archives"),
]


@pytest.mark.parametrize("version", VERSIONS)
def test_everything_that_needs_zookeeper_passes_on(version: str) -> None:
    """Their answers differ: what one says of a created znode, another keeps to itself."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *ROOMS],
        cwd=ROOT,
        env={**os.environ, JARS_VARIABLE: str(zookeeper_jars(version))},
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )

    told = done.stdout[-6_000:] + done.stderr[-2_000:]
    assert done.returncode == 0, told
    # A server that cannot be started would be a reason to skip.
    assert not re.search(r"[0-9]+ skipped", done.stdout), told
    assert int(re.findall(r"([0-9]+) passed", done.stdout)[-1]) > 100
