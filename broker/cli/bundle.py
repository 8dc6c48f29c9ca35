"""``ottla doctor --bundle FILE``: what a maintainer needs, in one archive, without secrets.

It has what the other commands show: the findings, the settings that are in force (a value that may
be a secret is left out, see ``redacted``), versions, brokers, topics, groups, and the metrics.
Records, keys, files of certificates and the values of unknown settings stay where they are.
"""

from __future__ import annotations

import asyncio
import io
import json
import os
import platform
import re
import sys
import tarfile
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

from ottla.client.admin import Admin
from ottla.client.cli.settings import command_config
from ottla.client.cluster.config_requests import ResourceType
from ottla.coordinator.configs.broker_configs_table import BROKER_CONFIGS
from ottla.wire.errors import ClientError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ottla.client.cluster.config_requests import ConfigEntry

HIDDEN = "(left out)"
_PACKAGES = ("ottla", "kazoo", "cryptography", "pyjwt", "uvloop", "zstandard", "lz4", "pyarrow")
# Names that tell of a secret, whatever table they are from.
_SECRET = re.compile(
    r"passw|secret|jaas|token|credential|private|digest|\.key$|keystore\.key", re.I
)
# A user and password before the host of an address.
_LOGIN = re.compile(r"(://)[^/@\s]*@")
_TOPICS_MAX = 10_000
_PAGE_TIMEOUT_S = 10


def redacted(settings: Mapping[str, str]) -> dict[str, str]:
    """The settings with every value left out that is, or may be, a secret.

    Only values of known settings that are no passwords are shown: the value of an unknown name may
    be the password of a plug-in."""
    return {name: _shown(name, value) for name, value in sorted(settings.items())}


def _shown(name: str, value: str) -> str:
    definition = BROKER_CONFIGS.get(name)
    if definition is None or definition.is_sensitive or _SECRET.search(name):
        return HIDDEN
    return _LOGIN.sub(rf"\1{HIDDEN}@", value)


def write_bundle(path: str, documents: Mapping[str, str]) -> None:
    """Write a compressed archive that only its owner can read. Raises OSError."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file, tarfile.open(fileobj=file, mode="w:gz") as archive:
        for name, text in documents.items():
            data = text.encode("utf-8", "replace")
            entry = tarfile.TarInfo(f"ottla-bundle/{name}")
            entry.size, entry.mode = len(data), 0o600
            archive.addfile(entry, io.BytesIO(data))


def machine_document() -> str:
    """Python, the system and the packages."""
    versions = {}
    for name in _PACKAGES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return _json(
        {
            "python": sys.version,
            "system": platform.platform(),
            "machine": platform.machine(),
            "cores": os.cpu_count(),
            "packages": versions,
        }
    )


async def cluster_documents(bootstrap: str) -> dict[str, str]:
    """What a cluster tells, or why it tells nothing."""
    documents: dict[str, str] = {}
    try:
        async with Admin(bootstrap, command_config()) as admin:
            documents["cluster.json"] = _json(await _cluster(admin))
            documents["topics.json"] = _json(await _topics(admin))
            documents["groups.json"] = _json(await _groups(admin))
            documents["log-dirs.json"] = _json(await _log_dirs(admin))
    except ClientError as error:
        documents["cluster-error.txt"] = f"{error}\n"
    return documents


async def metrics_document(listener: str) -> dict[str, str]:
    """The metrics page of the broker on this machine; nothing if none answers."""
    host, _, port = listener.rpartition(":")
    text = b""
    try:
        async with asyncio.timeout(_PAGE_TIMEOUT_S):
            reader, writer = await asyncio.open_connection(host.strip("[]") or None, int(port))
            writer.write(b"GET /metrics HTTP/1.0\r\nHost: localhost\r\n\r\n")
            text = await reader.read(-1)
            writer.close()
    except (OSError, TimeoutError, ValueError) as error:
        return {"metrics-error.txt": f"{listener}: {error}\n"}
    return {"metrics.txt": text.partition(b"\r\n\r\n")[2].decode("utf-8", "replace")}


async def _cluster(admin: Admin) -> dict[str, Any]:
    cluster = await admin.describe_cluster()
    ranges = await admin.brokers.api_versions()
    brokers = []
    for one in cluster.brokers:
        entries = await admin.describe_configs(ResourceType.BROKER, str(one.node_id))
        found = ranges.get(one.node_id)
        brokers.append(
            {
                "broker": one.node_id,
                "address": str(one.address),
                "rack": one.rack,
                "settings": _settings(entries),
                "apis": {str(key): [each.first, each.last] for key, each in found.items()}
                if isinstance(found, dict)
                else str(found),
            }
        )
    return {
        "cluster_id": cluster.cluster_id,
        "controller": cluster.controller_id,
        "brokers": brokers,
    }


def _settings(entries: Iterable[ConfigEntry]) -> dict[str, list[str]]:
    """What was set, with its source; a broker sends no value of a sensitive setting."""
    return {
        entry.name: [
            HIDDEN if entry.is_sensitive else _shown(entry.name, entry.value or ""),
            entry.source.name,
        ]
        for entry in entries
        if entry.source.name not in ("DEFAULT", "UNKNOWN")
    }


async def _topics(admin: Admin) -> list[dict[str, Any]]:
    return [
        {
            "topic": topic.name,
            "partitions": [
                {
                    "partition": one.partition,
                    "leader": one.leader_id,
                    "epoch": one.leader_epoch,
                    "replicas": one.replicas,
                    "isr": one.isr,
                }
                for one in topic.partitions.values()
            ],
        }
        for topic in (await admin.list_topics())[:_TOPICS_MAX]
    ]


async def _groups(admin: Admin) -> list[dict[str, Any]]:
    return [one._asdict() for one in await admin.groups.list_all()]


async def _log_dirs(admin: Admin) -> list[dict[str, Any]]:
    found = []
    for broker, directories in (await admin.brokers.log_dirs()).items():
        if isinstance(directories, ClientError):
            found.append({"broker": broker, "error": str(directories)})
            continue
        found += [
            {
                "broker": broker,
                "path": one.path,
                "total_bytes": one.total_bytes,
                "usable_bytes": one.usable_bytes,
                "replicas": len(one.replicas),
                "error": None if one.error is None else str(one.error),
            }
            for one in directories
        ]
    return found


def _json(value: object) -> str:
    return json.dumps(value, indent=1, default=str) + "\n"
