"""The compose file of ``--processes N`` on the page "Running it" holds together."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import TYPE_CHECKING

import yaml

from ottla.broker.cli.parsers import start_parser
from ottla.broker.cli.serving import gather_settings
from ottla.broker.processes.plan import settings_of_process
from ottla.coordinator.configs.broker_configs import BrokerConfig, parse_broker_config
from tests.compose.composition import ROOT, Composition, Service

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

PAGE = ROOT / "docs" / "running.md"
RANGE = re.compile(r"127\.0\.0\.1:(\d+)-(\d+):(\d+)-(\d+)")


def written_file(folder: Path) -> Path:
    """The block of the page, as a file."""
    blocks = re.findall(r"```yaml\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    (text,) = (one for one in blocks if "--processes" in one)
    path = folder / "compose.yaml"
    path.write_text(text, "utf-8")
    return path


def configs(service: Service, monkeypatch: pytest.MonkeyPatch) -> list[BrokerConfig]:
    """Of its brokers, as the supervisor gives them out."""
    for name, value in service.environment.items():
        monkeypatch.setenv(name, value)
    _start, *words = service.command
    arguments = start_parser().parse_args(words)
    settings, count = gather_settings(arguments), arguments.processes
    parsed = [
        parse_broker_config(settings_of_process(settings, place, count, "host"))
        for place in range(1, count + 1)
    ]
    assert [one.warnings for one in parsed] == [()] * count
    return [one.config for one in parsed]


def test_it_is_a_compose_file(tmp_path: Path) -> None:
    """By the schema of the compose specification."""
    check = ("-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec")
    done = subprocess.run(
        [sys.executable, *check, str(written_file(tmp_path))],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr


def test_every_broker_is_found_where_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One broker's port that is not published would keep clients from the partitions it leads."""
    path = written_file(tmp_path)
    written = yaml.safe_load(path.read_text("utf-8"))
    ports, metrics = written["services"]["ottla"]["ports"]
    found = RANGE.fullmatch(ports)
    assert found is not None
    first, last, inner_first, inner_last = map(int, found.groups())
    (service,) = Composition(path).services.values()
    brokers = configs(service, monkeypatch)

    assert [one.broker_id for one in brokers] == [1, 2, 3, 4]
    for place, config in enumerate(brokers):
        (bound,), (told,) = config.listeners, config.advertised_listeners
        assert (told.host, told.port) == ("localhost", first + place)
        assert (bound.host, bound.port) == ("0.0.0.0", inner_first + place)
        assert config.log_dirs == (f"/data/{place + 1}",)
    assert (last - first, inner_last - inner_first) == (3, 3)
    assert metrics == "127.0.0.1:9404:9404"
    assert service.environment["KAFKA_OTTLA_METRICS_LISTENER"] == "0.0.0.0:9404"
    assert service.mounts["/data"] in written["volumes"]
    assert service.written["stop_grace_period"] == "1m"
