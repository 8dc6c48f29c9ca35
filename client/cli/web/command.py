"""``ottla console``: serves web pages that show a cluster, if the packages for it are installed."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from ottla.client.cli.run import FAILED, run
from ottla.protocol.version import install_advice

if TYPE_CHECKING:
    import argparse

    from ottla.client.cli.run import Perform


def _server() -> Perform:
    """Needs packages that are not installed with Ottla."""
    from ottla.client.cli.web.server import perform

    return perform


def main(arguments: argparse.Namespace) -> int:
    """Run the command."""
    try:
        perform = _server()
    except ModuleNotFoundError as error:
        sys.stderr.write(
            f"ottla: the console needs {error.name}, which is not installed: "
            f"{install_advice('console')}\n"
        )
        return FAILED
    return run(perform, arguments)
