"""Kafka's own message descriptions, read from a folder of its schema files when there is one.

Each file is JSON with comments. The folder holds one release that still had every old version and
one that has the newest; a version is described by the older release if it knows it.
"""

from __future__ import annotations

import json
import os
import re
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

OLDER, NEWER = "3.9", "4.4"
# Ours have the newer release's name at every version.
RENAMED = {("TxnOffsetCommitRequest", "GenerationId"): "GenerationIdOrMemberEpoch"}
ROOT = Path(__file__).resolve().parents[2]


class Described(NamedTuple):
    """One field at one version, as Kafka describes it."""

    name: str
    type: str
    parts: tuple[Described, ...] | None
    nullable: bool
    tag: int | None
    default: str | None


def schema_folder() -> Path:
    """Where the schema files are expected: ``OTTLA_SCHEMAS``, else beside the repository."""
    default = ROOT.parent / "shared" / "protocol" / "messages"
    return Path(os.environ.get("OTTLA_SCHEMAS", default))


def has_schemas() -> bool:
    return all((schema_folder() / release).is_dir() for release in (OLDER, NEWER))


def _without_comments(text: str) -> str:
    """Strings are kept whole, since slashes may also occur in a description."""
    pattern = r'("(?:\\.|[^"\\])*")|//[^\n]*|/\*.*?\*/'
    bare = re.sub(pattern, lambda match: match[1] or "", text, flags=re.DOTALL)
    return re.sub(r",(\s*[\]}])", r"\1", bare)


@cache
def _files(release: str) -> dict[str, dict[str, Any]]:
    found = {}
    for path in (schema_folder() / release / "clients").rglob("*.json"):
        description, _ = json.JSONDecoder().raw_decode(_without_comments(path.read_text()).lstrip())
        for field in description.get("fields", []):
            field["name"] = RENAMED.get((path.stem, field["name"]), field["name"])
        found[path.stem] = description
    return found


def holds(text: str | None, version: int) -> bool:
    """Whether a range such as ``3+``, ``0-7``, ``2`` or ``none`` has the version."""
    if text in (None, "none", ""):
        return False
    first, _, last = str(text).rstrip("+").partition("-")
    if version < int(first):
        return False
    return str(text).endswith("+") or version <= int(last or first)


def _stable_last(name: str, release: str) -> int:
    """The newest version that the release has declared final, for both sides of the API."""
    description = _files(release).get(name, {})
    if "fields" not in description:
        return -1
    last = int(description["validVersions"].rpartition("-")[2])
    request = _files(release)[re.sub("Response$", "Request", name)]
    unstable = str(request.get("latestVersionUnstable", False)).lower() == "true"
    return last - 1 if unstable else last


def last_version(name: str) -> int:
    """The newest final version in either release."""
    return max(_stable_last(name, OLDER), _stable_last(name, NEWER))


def _description(name: str, version: int) -> dict[str, Any]:
    release = OLDER if version <= _stable_last(name, OLDER) else NEWER
    return _files(release)[name]


def is_flexible(name: str, version: int) -> bool:
    return holds(_description(name, version).get("flexibleVersions"), version)


def api_key(name: str) -> int:
    return int(_description(name, 0)["apiKey"])


def described_fields(name: str, version: int) -> tuple[Described, ...]:
    """The fields of a message at one version, in the order of the wire."""
    description = _description(name, version)
    shared = {part["name"]: part["fields"] for part in description.get("commonStructs", [])}
    return _described(description["fields"], shared, version)


def described_record(name: str, version: int) -> tuple[Described, ...]:
    """The fields of a value of the offsets topic, as the newer release has them."""
    path = schema_folder() / NEWER / "group-coordinator" / "message" / f"{name}.json"
    text = _without_comments(path.read_text()).lstrip()
    description, _ = json.JSONDecoder().raw_decode(text)
    shared = {part["name"]: part["fields"] for part in description.get("commonStructs", [])}
    return _described(description["fields"], shared, version)


def lost_fields(name: str, version: int) -> dict[str, bool]:
    """The fields that the version lacks, by path, and whether their values may be dropped."""
    description = _description(name, version)
    shared = {part["name"]: part["fields"] for part in description.get("commonStructs", [])}
    lost: dict[str, bool] = {}

    def walk(fields: list[dict[str, Any]], path: str) -> None:
        for field in fields:
            here = f"{path}.{_snake_case(field['name'])}"
            element = field["type"].removeprefix("[]")
            if not holds(field["versions"], version):
                lost[here] = str(field.get("ignorable", False)).lower() == "true"
            elif element[0].isupper():
                walk(field.get("fields") or shared[element], here)

    walk(description["fields"], name)
    return lost


def _described(
    fields: list[dict[str, Any]], shared: dict[str, Any], version: int
) -> tuple[Described, ...]:
    found = []
    for field in fields:
        if not holds(field["versions"], version):
            continue
        element = field["type"].removeprefix("[]")
        parts = None
        if element[0].isupper():
            parts = _described(field.get("fields") or shared[element], shared, version)
        tagged = holds(field.get("taggedVersions"), version)
        default = field.get("default")
        found.append(
            Described(
                _snake_case(field["name"]),
                field["type"],
                parts,
                holds(field.get("nullableVersions"), version),
                field["tag"] if tagged else None,
                None if default is None else str(default),
            )
        )
    return tuple(found)


def _snake_case(name: str) -> str:
    name = name.replace("KRaft", "Kraft")
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower()
