"""The compose files and the Dockerfile, read into what tests ask about."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, NamedTuple

import yaml

ROOT = Path(__file__).resolve().parents[2]
COMPOSE_FILE = ROOT / "docker-compose.yml"
SECURE_FILE = ROOT / "docker-compose.secure.yml"
DOCKERFILE = ROOT / "Dockerfile"
IMAGE = "ottla"


class Published(NamedTuple):
    """A port of a container that can be reached from the machine it runs on."""

    host: str
    host_port: int
    container_port: int


class Service:
    """One service, with what its image adds when the image is ours."""

    def __init__(self, name: str, written: dict[str, Any], image: dict[str, str]) -> None:
        self.name = name
        self.written = written
        self._image = image

    @property
    def is_broker(self) -> bool:
        return bool(self.written.get("image") == IMAGE and self.command[0] == "start")

    @property
    def is_first_job(self) -> bool:
        """Whether it has to end before the brokers start."""
        return bool(self.written.get("restart") == "no")

    @property
    def environment(self) -> dict[str, str]:
        """Of the process in the container. Compose wants texts; anything else is a mistake."""
        own: dict[str, Any] = self.written.get("environment", {})
        wrong = [name for name, value in own.items() if not isinstance(value, str)]
        assert not wrong, f"{self.name}: {wrong} need quotes"
        return {**(self._image if self.is_broker else {}), **own}

    @property
    def command(self) -> list[str]:
        """What follows the image's entry point."""
        command: list[str] = self.written.get("command", [])
        return command

    @property
    def profiles(self) -> list[str]:
        """Those that it is a part of; a service without one always runs."""
        profiles: list[str] = self.written.get("profiles", [])
        return profiles

    @property
    def depends_on(self) -> dict[str, dict[str, str]]:
        found: dict[str, dict[str, str]] = self.written.get("depends_on", {})
        return found

    @property
    def published(self) -> list[Published]:
        return [_published(text) for text in self.written.get("ports", ())]

    @property
    def mounts(self) -> dict[str, str]:
        """Volume by the path that it is mounted at."""
        pairs = (text.split(":")[:2] for text in self.written.get("volumes", ()))
        return {path: volume for volume, path in pairs}


def _published(text: str) -> Published:
    host, host_port, container_port = text.rsplit(":", 2)
    return Published(host, int(host_port), int(container_port))


class Composition:
    """A whole file."""

    def __init__(self, file: Path = COMPOSE_FILE) -> None:
        self.written: dict[str, Any] = yaml.safe_load(file.read_text("utf-8"))
        image = dockerfile_environment()
        every = {
            name: Service(name, written, image)
            for name, written in self.written["services"].items()
        }
        # What runs when it is asked for, and then ends, is no part of the cluster.
        self.jobs = {name: one for name, one in every.items() if one.profiles == ["spark"]}
        # What looks at the cluster when it is asked for, and runs on.
        self.watchers = {
            name: one for name, one in every.items() if "observability" in one.profiles
        }
        self.first_jobs = {name: one for name, one in every.items() if one.is_first_job}
        others = {*self.jobs, *self.first_jobs, *self.watchers}
        self.services = {name: one for name, one in every.items() if name not in others}

    @property
    def brokers(self) -> list[Service]:
        return [service for service in self.services.values() if service.is_broker]


class Instruction(NamedTuple):
    """One instruction of the Dockerfile, with its lines joined."""

    name: str
    text: str
    line: int


def instructions() -> list[Instruction]:
    """All of them, in order."""
    found = []
    pending, started = "", 0
    for number, line in enumerate(DOCKERFILE.read_text("utf-8").splitlines(), 1):
        if line.lstrip().startswith("#") or not line.strip():
            continue
        started = started or number
        pending += line.rstrip("\\").strip() + " "
        if not line.endswith("\\"):
            name, _, text = pending.strip().partition(" ")
            found.append(Instruction(name, text.strip(), started))
            pending, started = "", 0
    return found


def last_stage() -> list[Instruction]:
    """What becomes the image."""
    every = instructions()
    start = max(index for index, one in enumerate(every) if one.name == "FROM")
    return every[start:]


def stage_of(name: str) -> list[Instruction]:
    """A stage by its name."""
    every = instructions()
    starts = [index for index, one in enumerate(every) if one.name == "FROM"]
    (start,) = (index for index in starts if every[index].text.endswith(f" AS {name}"))
    later = [index for index in starts if index > start]
    return every[start : min(later, default=len(every))]


def dockerfile_environment() -> dict[str, str]:
    """The variables that the image sets."""
    found: dict[str, str] = {}
    for one in last_stage():
        if one.name == "ENV":
            found.update(re.findall(r"(\w+)=(\S+)", one.text))
    return found


def exec_form(one: Instruction) -> list[str]:
    """The words of an instruction that is written as a JSON list."""
    start = one.text.index("[")
    words: list[str] = json.loads(one.text[start:])
    return words
