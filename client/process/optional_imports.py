"""Imports optional libraries when a feature needs them."""

from __future__ import annotations

import importlib
from functools import cache
from typing import Any

from ottla.protocol.version import install_advice


@cache
def library(name: str, extra: str) -> Any:
    """Import the module. Raises ImportError, naming the extra that installs it."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise ImportError(
            f"this needs {name}, which is not installed: {install_advice(extra)}", name=name
        ) from error
