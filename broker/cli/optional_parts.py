"""Loads the parts of ``ottla start`` that only some options need."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Mapping
    from contextlib import AbstractContextManager

    from ottla.protocol.ports import Address


def console_check() -> Callable[[Mapping[str, str], bool], None]:
    from ottla.broker.cli.console_process import check_console

    return check_console


def console_run() -> Callable[
    [Mapping[str, str], Address, int, bool], AbstractContextManager[None]
]:
    from ottla.broker.cli.console_process import run_console

    return run_console


def processes_run() -> Callable[[argparse.Namespace], int]:
    from ottla.broker.cli.processes import run_processes

    return run_processes
