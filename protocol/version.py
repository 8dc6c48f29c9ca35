"""The version of Ottla: clients and brokers send it with ApiVersions (KIP-511). And how to install
what a part needs."""

from __future__ import annotations

__version__ = "0.1.0"


def install_advice(extra: str) -> str:
    """What to do if a package is missing that this extra brings. Ottla is in no package index."""
    return f"install Ottla with the extra `{extra}` (in its source tree: pip install '.[{extra}]')"
