"""The examples of the client run as they stand."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec

import pytest

import ottla
from tests.tidy.tree import ROOT

EXAMPLES = {
    "blocking.py": ["stored 12 records", "user-2: {'page': 11}", "goes on at offset"],
    "producer_hooks.py": ["records in partition", "'origin': b'examples'"],
    "administration.py": [
        "retention.ms = 120000, from TOPIC",
        "audit is deleted",
        "UNKNOWN_TOPIC_OR_PARTITION",
    ],
    "avro_records.py": ["{'id': 'A-1', 'cents': 1999}"],
    "protobuf_records.py": ["A-1 1999"],
}
NEEDS = {"avro_records.py": "fastavro", "protobuf_records.py": "google.protobuf"}


def is_there(module: str) -> bool:
    """Whether it could be imported."""
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False


@pytest.mark.requirement("PRD-31")
@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_runs_and_says_what_it_should(name: str) -> None:
    """An example that has rotted is the first thing a newcomer meets."""
    if name in NEEDS and not is_there(NEEDS[name]):
        pytest.skip(f"{NEEDS[name]} is not installed")
    with ottla.Cluster() as cluster:
        done = subprocess.run(
            [sys.executable, str(ROOT / "examples" / name), cluster.bootstrap_servers],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    assert (done.returncode, done.stderr) == (0, "")
    assert [text for text in EXAMPLES[name] if text not in done.stdout] == []
