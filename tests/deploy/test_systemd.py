"""The unit of a broker as a service."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from ottla.broker.cli.parsers import start_parser
from ottla.coordinator.configs.broker_configs import parse_broker_config, parse_properties
from tests.tidy.tree import ROOT

if TYPE_CHECKING:
    from pathlib import Path

FOLDER = ROOT / "deploy" / "systemd"
UNIT = FOLDER / "ottla.service"
# Of 0 (nothing is allowed) to 10; systemd calls up to 2 well protected.
EXPOSURE_MAX = 2.0


def settings() -> dict[str, list[str]]:
    """The values of each name, in order."""
    found: dict[str, list[str]] = {}
    for line in UNIT.read_text("utf-8").splitlines():
        name, separator, value = line.partition("=")
        if separator and not line.startswith("#"):
            found.setdefault(name, []).append(value)
    return found


def test_its_command_and_its_file_are_understood() -> None:
    """The broker of the unit starts with the file beside it, without a warning."""
    (command,) = settings()["ExecStart"]
    program, verb, *words = shlex.split(command)
    arguments = start_parser().parse_args(words)
    parsed = parse_broker_config(parse_properties((FOLDER / "server.properties").read_text()))

    assert (program.rpartition("/")[2], verb) == ("ottla", "start")
    assert arguments.config == "/etc/ottla/server.properties"
    assert parsed.warnings == ()
    (directory,) = parsed.config.log_dirs
    assert directory.startswith(f"/var/lib/{settings()['StateDirectory'][0]}/")


def test_its_signal_is_the_one_that_drains() -> None:
    """Only the broker gets it; what is left after two minutes is killed."""
    unit = settings()

    assert unit["KillSignal"] == ["SIGTERM"]
    assert unit["KillMode"] == ["mixed"]
    assert unit["TimeoutStopSec"] == ["2min"]
    assert unit["Type"] == ["notify"]


def test_it_may_write_its_own_directory_only() -> None:
    """A broker that is taken over reads no other user's files and gains no rights."""
    unit = settings()

    assert unit["ProtectSystem"] == ["strict"]
    assert "ReadWritePaths" not in unit
    assert unit["CapabilityBoundingSet"] == [""]
    assert unit["NoNewPrivileges"] == ["yes"]


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """The unit with a program that exists on this machine."""
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    copy = tmp_path / UNIT.name
    copy.write_text(UNIT.read_text("utf-8").replace("/opt/ottla/bin/ottla", "/bin/sh"), "utf-8")
    return copy


def test_systemd_finds_no_slip_in_it(installed: Path) -> None:
    """An unknown name or value is only a line in a log otherwise."""
    done = subprocess.run(
        ["systemd-analyze", "verify", str(installed)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_systemd_calls_it_well_protected(installed: Path) -> None:
    """The sum over all that it could take away and does not."""
    done = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", "--no-pager", str(installed)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    found = re.search(r"Overall exposure level.*: ([0-9.]+)", done.stdout)

    assert found is not None, done.stdout + done.stderr
    assert float(found[1]) <= EXPOSURE_MAX
