"""Packages of a release, and the workflow that publishes them."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
import zipfile
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from deploy.release.listing import SUMS, write_sums
from deploy.release.trial import COMPILED, IMPORT
from ottla.protocol.version import __version__
from tests.tidy.tree import ROOT

if TYPE_CHECKING:
    from pathlib import Path

WORKFLOW = ROOT / ".github" / "workflows" / "release.yml"
# Part of its image, or installed by the step before.
OF_THE_RUNNER = {"cibuildwheel", "gh", "pip", "python"}


def jobs() -> dict[str, Any]:
    """The jobs of the workflow."""
    read: dict[str, Any] = yaml.safe_load(WORKFLOW.read_text("utf-8"))["jobs"]
    return read


def missing(text: str, folders: set[str], variables: set[str]) -> list[str]:
    """What the commands of a step name, and what neither the tree nor the runner has. ``folders``
    are those that the job makes."""
    found = []
    for command in re.split(r"&&|\|\||[;|\n]", re.sub(r"\$\(.*\)", "", text)):
        program, *words = shlex.split(command)
        if program not in OF_THE_RUNNER and shutil.which(program) is None:
            found.append(program)
        if program == "make":
            dry = ["make", "--dry-run", *words]
            if subprocess.run(dry, cwd=ROOT, capture_output=True, check=False).returncode:
                found.append(shlex.join([program, *words]))
    found += [
        path
        for path in re.findall(r"(?<![\w.$/-])\w[\w.*-]*/[\w.*/-]+", text)
        if path.split("/")[0] not in folders and not (ROOT / path).exists()
    ]
    named = re.findall(r"\$\{?([A-Z_]+)", text)
    return found + [one for one in named if one not in variables and one[:7] != "GITHUB_"]


def test_the_workflow_is_one() -> None:
    """A slip in it is found by a failed release otherwise."""
    done = subprocess.run(
        [
            *(sys.executable, "-m", "check_jsonschema"),
            *("--builtin-schema", "vendor.github-workflows", str(WORKFLOW)),
        ],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == 0, done.stdout


def test_every_step_runs_what_exists() -> None:
    """Commands, targets of make, files of the tree and variables, which a release would miss."""
    for job in jobs().values():
        folders = {"dist"} | {
            str(step["with"]["path"]).split("/")[0]
            for step in job["steps"]
            if "path" in step.get("with", {})
        }
        for step in job["steps"]:
            if "run" in step:
                assert missing(step["run"], folders, set(step.get("env", {}))) == [], step


def test_a_step_that_runs_what_is_gone_is_found() -> None:
    """Each kind once."""
    wrong = "makes dist && make no-such-target; python tools/gone.py $TAG gone/*.whl dist/*.whl"

    assert missing(wrong, {"dist"}, set()) == [
        *("makes", "make no-such-target", "tools/gone.py", "gone/*.whl", "TAG")
    ]


def test_actionlint_has_no_complaint() -> None:
    """It knows the contexts, the runners and shells of workflows; it comes as a Go program."""
    actionlint = shutil.which("actionlint")
    if actionlint is None:
        pytest.skip("actionlint is not installed; the two tests above look at the commands")
    done = subprocess.run(
        [actionlint, "-no-color", str(WORKFLOW)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert (done.returncode, done.stdout) == (0, "")


def test_only_a_tag_publishes_and_without_a_stored_token() -> None:
    """Any other run builds and tries; the right to publish is that of one job and environment."""
    publish = jobs()["publish"]
    text = WORKFLOW.read_text("utf-8")

    assert publish["if"] == "github.ref_type == 'tag'"
    assert publish["environment"] == {"name": "pypi"}
    assert [name for name, job in jobs().items() if "permissions" in job] == ["publish"]
    assert publish["permissions"]["id-token"] == "write"
    assert "secrets." not in text
    assert set(publish["needs"]) == set(jobs()) - {"publish"}


def test_the_tag_is_compared_with_the_version() -> None:
    """The command of the workflow as written: a tag of another version publishes nothing."""
    (command,) = (
        step["run"] for step in jobs()["source"]["steps"] if "tag" in step.get("name", "")
    )
    for tag, status in ((f"v{__version__}", 0), ("v9.9.9", 1)):
        environment = {**os.environ, "GITHUB_REF_NAME": tag}
        done = subprocess.run(
            ["bash", "-ec", command.replace("python", sys.executable)],
            env=environment,
            cwd=ROOT,
            timeout=60,
            check=False,
        )
        assert done.returncode == status


def test_there_is_a_wheel_for_each_python_that_is_named() -> None:
    """What the list of classifiers promises is built."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    named = re.findall(r"Python :: 3\.(\d+)", str(project["project"]["classifiers"]))
    built = [re.sub(r"\D", "", one)[1:] for one in project["tool"]["cibuildwheel"]["build"]]

    assert built == named
    assert project["project"]["requires-python"] == f">=3.{named[0]}"
    machines = {one["name"] for one in jobs()["wheels"]["strategy"]["matrix"]["include"]}
    assert machines == {"linux-x86_64", "linux-aarch64", "macos-x86_64", "macos-arm64"}


def test_every_compiled_module_is_looked_for() -> None:
    """A wheel that has lost one is slow, and nothing else would say so."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    (command, *_) = project["tool"]["cibuildwheel"]["test-command"]

    assert len(COMPILED) > 4
    assert f'python -I -c "{IMPORT}"' == command
    assert IMPORT in (ROOT / "Dockerfile").read_text("utf-8")


def test_sums_are_those_that_the_usual_command_checks(tmp_path: Path) -> None:
    """``sha256sum --check SHA256SUMS`` finds every other file of the folder, and a changed one."""
    (tmp_path / "b.whl").write_bytes(b"b")
    (tmp_path / "a.tar.gz").write_bytes(b"a")
    write_sums(tmp_path)
    write_sums(tmp_path)

    lines = (tmp_path / SUMS).read_text("utf-8").splitlines()
    assert lines[1] == f"{hashlib.sha256(b'b').hexdigest()}  b.whl"
    assert len(lines) == 2
    command = ["sha256sum", "--check", SUMS]
    assert subprocess.run(command, cwd=tmp_path, capture_output=True, check=False).returncode == 0
    (tmp_path / "b.whl").write_bytes(b"c")
    assert subprocess.run(command, cwd=tmp_path, capture_output=True, check=False).returncode == 1


@pytest.mark.interop
@pytest.mark.timeout(900)
def test_make_dist_builds_packages_that_work_without_a_compiler(tmp_path: Path) -> None:
    """As the release does it: each package is installed alone, and a record goes through it."""
    subprocess.run(["make", ".venv/dist"], cwd=ROOT, timeout=600, check=True, capture_output=True)
    done = subprocess.run(
        [sys.executable, "-m", "deploy.release", str(tmp_path / "dist")],
        capture_output=True,
        text=True,
        timeout=800,
        cwd=ROOT,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    names = sorted(path.name for path in (tmp_path / "dist").iterdir())
    assert SUMS in names
    assert f"ottla-{__version__}.tar.gz" in names
    assert f"ottla-{__version__}-py3-none-any.whl" in names
    (compiled,) = (name for name in names if name.endswith(".whl") and "none" not in name)
    with zipfile.ZipFile(tmp_path / "dist" / compiled) as wheel:
        inside = re.findall(r"/(compiled_\w+)\.[^ ]*so\b", " ".join(wheel.namelist()))
    sources = [*ROOT.glob("protocol/*/compiled_*.pyx"), *ROOT.glob("broker/*/compiled_*.pyx")]
    assert sorted(inside) == sorted(path.stem for path in sources)
    listed = json.loads((tmp_path / "dist" / f"ottla-{__version__}.cdx.json").read_text("utf-8"))
    assert {"kazoo", "uvloop", "lz4"} <= {one["name"] for one in listed["components"]}
    assert listed["metadata"]["component"]["version"] == __version__
