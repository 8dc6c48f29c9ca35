"""What a broker does about the limits that it was started with."""

from __future__ import annotations

import resource
import sys
from pathlib import Path

import pytest

from ottla.broker.system.file_limits import DESCRIPTORS_MAX, reachable
from tests.support.broker_process import BrokerProcess

LOW_LIMIT = (
    sys.executable,
    "-c",
    "import os, resource, sys; hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1];"
    " resource.setrlimit(resource.RLIMIT_NOFILE, (500, hard));"
    " os.execvp(sys.argv[1], sys.argv[1:])",
)


@pytest.mark.parametrize(
    ("soft", "hard", "expected"),
    [
        (1_024, 524_288, 524_288),
        (1_024, 1_024, 1_024),
        (1_024, -1, DESCRIPTORS_MAX),
        (1_024, 1_073_741_816, DESCRIPTORS_MAX),
        (2 * DESCRIPTORS_MAX, -1, 2 * DESCRIPTORS_MAX),
        (-1, -1, -1),
    ],
)
def test_a_limit_is_raised_as_far_as_it_may_be(soft: int, hard: int, expected: int) -> None:
    """The limit is never lowered."""
    assert reachable(soft, hard) == expected


@pytest.mark.skipif(not Path("/proc/self/limits").exists(), reason="Linux tells limits there")
def test_a_broker_raises_the_limit_that_its_shell_has_given_it(tmp_path: Path) -> None:
    """Operators should not have to know ulimit before the first thousand connections."""
    expected = reachable(*resource.getrlimit(resource.RLIMIT_NOFILE))
    with BrokerProcess(tmp_path / "data", launcher=LOW_LIMIT) as broker:
        limits = Path(f"/proc/{broker.process_id}/limits").read_text("latin1")

    [line] = [line for line in limits.splitlines() if line.startswith("Max open files")]
    assert int(line.split()[3]) == expected > 500
