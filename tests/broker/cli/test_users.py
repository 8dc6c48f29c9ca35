"""``ottla users``: the first user, made before there is a broker that could make it."""

from __future__ import annotations

import asyncio
import io
import json
from typing import TYPE_CHECKING

import pytest

from ottla.broker.cli.parsers import users_parser
from ottla.broker.cli.users import main
from ottla.broker.system.real_disk import RealDisk, RealOffload
from ottla.protocol.secret import Secret
from ottla.wire.clock import RealClock
from ottla.wire.connection_config import ConnectionConfig
from ottla.wire.negotiation import connect
from ottla.wire.real import RealNet
from ottla.wire.sasl import PasswordSasl
from ottla.wire.security import ConnectionSecurity
from tests.support.sasl_broker import running_broker, sasl_settings

if TYPE_CHECKING:
    from pathlib import Path


def run(monkeypatch: pytest.MonkeyPatch, typed: str, *arguments: str) -> int:
    monkeypatch.setattr("sys.stdin", io.StringIO(typed))
    return main(users_parser().parse_args([*arguments, "-b", "127.0.0.1:1"]))


async def _logs_in(directory: str) -> None:
    settings = sasl_settings("SCRAM-SHA-256", log_dirs=directory)
    async with running_broker(settings, disk=RealDisk(RealOffload())) as running:
        sasl = PasswordSasl("SCRAM-SHA-256", "root", Secret("first secret"))
        config = ConnectionConfig(security=ConnectionSecurity(sasl=sasl))
        connection = await connect(RealNet(), RealClock(), running.broker.address, config)
        connection.close()


def test_a_user_made_offline_logs_in_when_the_broker_runs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Otherwise the first administrator of a closed cluster could not come in."""
    data = str(tmp_path / "data")
    create = ("create", "root", "--mechanism", "SCRAM-SHA-256", "--password-stdin")

    assert run(monkeypatch, "first secret\n", *create, "--data-dir", data, "--json") == 0
    assert json.loads(capsys.readouterr().out) == {"user": "root", "status": "created"}
    asyncio.run(_logs_in(data))


@pytest.mark.parametrize(
    ("typed", "arguments", "problem"),
    [
        ("", ("alice", "--password-stdin"), "the password is empty"),
        ("x", ("alice",), "give --password-stdin"),
        ("x", ("a\nb", "--password-stdin"), "control"),
        ("x", ("alice", "--password-stdin", "--iterations", "5"), "between 4096 and 16384"),
    ],
)
def test_mistakes_are_told_before_anything_is_written(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    typed: str,
    arguments: tuple[str, ...],
    problem: str,
) -> None:
    """Status 2, as for every command line that cannot be carried out."""
    assert run(monkeypatch, typed, "create", *arguments) == 2
    assert problem in capsys.readouterr().err
