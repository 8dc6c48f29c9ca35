"""What is loaded when a cluster starts in a test, or a command runs: each module costs time."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.tidy.tree import ROOT

REPORT = """
import json, sys
before = set(sys.modules)
{work}
print(json.dumps(sorted(set(sys.modules) - before)))
"""
CLUSTER = "import ottla; cluster = ottla.Cluster(3).start(); cluster.stop()"
COMMAND = """
from ottla.verbs import VERBS
verb = VERBS["topics"]
verb.load_parser()().parse_args(["list"])
verb.load_main()
"""
# Heavy, and not needed before something is sent, compressed, encrypted, kept on a disk or shown.
NOBODY_NEEDS = {
    "cramjam",
    "crc32c",
    "email",
    "encodings.idna",
    "google",
    "http.client",
    "http.server",
    "kazoo",
    "lz4",
    "multiprocessing",
    "numpy",
    "pandas",
    "polars",
    "pyarrow",
    "pydoc",
    "pyspark",
    "pytest",
    "re2",
    "secrets",
    "snappy",
    "sqlite3",
    "unittest",
    "uvloop",
    "xml",
    "zstandard",
}
# A cluster in memory unpacks no archives and makes no directories.
NO_CLUSTER_NEEDS = NOBODY_NEEDS | {
    "argparse",
    "bz2",
    "datetime",
    "lzma",
    "shutil",
    "tempfile",
    "ottla.broker.cli",
    "ottla.broker.testing.child",
    "ottla.broker.testing.remote_node",
    "ottla.broker.testing.topics",
    "ottla.client.admin",
    "ottla.client.cli",
    "ottla.client.consumer",
    "ottla.client.producer",
    "ottla.client.sync",
    "ottla.coordinator.store.zookeeper_client",
}
NO_COMMAND_NEEDS = NOBODY_NEEDS | {
    "ottla.broker",
    "ottla.client.consumer",
    "ottla.client.producer",
    "ottla.client.spark",
    "ottla.client.sync",
    "ottla.coordinator.controller",
    "ottla.coordinator.store",
}


def _loaded(work: str) -> set[str]:
    """The modules that the work loads in a process of its own, and the packages they are in."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", REPORT.format(work=work)],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
        env=environment,
    )
    names = json.loads(done.stdout.splitlines()[-1])
    parts = [name.split(".") for name in names]
    return {".".join(part[:count]) for part in parts for count in range(1, len(part) + 1)}


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("work", "unneeded", "own_max"),
    [(CLUSTER, NO_CLUSTER_NEEDS, 458), (COMMAND, NO_COMMAND_NEEDS, 175)],
    ids=["three brokers", "topics list"],
)
def test_a_start_loads_what_it_needs(work: str, unneeded: set[str], own_max: int) -> None:
    """An import added far away is how a start gets slow; ask whether it can come later."""
    loaded = _loaded(work)

    assert sorted(loaded & unneeded) == []
    # A third of a millisecond each.
    own = [name for name in loaded if name.startswith("ottla.")]
    assert len(own) <= own_max
