"""Runs the console of ``ottla console`` on a web server; needs the extra ``console``."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import socket
import sys
from typing import TYPE_CHECKING

import uvicorn

from ottla import __version__
from ottla.client.cli.connection import given
from ottla.client.cli.run import CommandError
from ottla.client.cli.web.registry import RegistryDecoder
from ottla.client.console.app import Console, ConsoleOptions
from ottla.client.console.connections import ClusterAccess
from ottla.client.console.visits import Visits
from ottla.client.process.environment import real_environment
from ottla.protocol.ports import Address

if TYPE_CHECKING:
    import argparse

BACKLOG = 128
# How long requests may go on after the end was asked for.
STOP_LIMIT_S = 5
SWEEP_MS = 60_000.0


async def perform(arguments: argparse.Namespace) -> int:
    """Serve until a signal; with ``--attached``, also until standard input ends."""
    environment = real_environment()
    decoder = None
    if arguments.schema_registry is not None:
        decoder = RegistryDecoder(arguments.schema_registry, environment.clock)
    decode = None if decoder is None else decoder.decode
    visits = Visits(
        ClusterAccess(arguments.bootstrap, given(), environment, decode),
        must_log_in=arguments.login,
    )
    options = ConsoleOptions(
        arguments.bootstrap,
        arguments.allow_changes,
        frozenset(name.lower() for name in arguments.allow_host),
        __version__,
    )
    console = Console(visits, options)
    server = uvicorn.Server(
        uvicorn.Config(
            console.application,
            log_config=None,
            access_log=False,
            lifespan="off",
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=STOP_LIMIT_S,
        )
    )
    console.ends_when(lambda: server.should_exit)
    with contextlib.ExitStack() as stack:
        if decoder is not None:
            stack.callback(decoder.close)
        stack.callback(visits.close)
        listening = stack.enter_context(listen(arguments.host, arguments.port))
        sys.stdout.write(f"ottla: console at http://{Address(*listening.getsockname()[:2])}/\n")
        sys.stdout.flush()
        if arguments.attached:
            _end_with_input(server, stack)
        sweeping = asyncio.ensure_future(_sweep(visits))
        stack.callback(sweeping.cancel)
        await _serve(server, listening)
    return 0


async def _sweep(visits: Visits) -> None:
    """End visits that are over, also those whose visitors do not come again."""
    while True:
        await visits.environment.clock.sleep(SWEEP_MS)
        visits.sweep()


async def _serve(server: uvicorn.Server, listening: socket.socket) -> None:
    """Serve until the end. A signal cancels this; the requests under way may end first."""
    serving = asyncio.ensure_future(server.serve(sockets=[listening]))
    try:
        await asyncio.shield(serving)
    except asyncio.CancelledError:
        server.should_exit = True
        await serving
        raise


def listen(host: str, port: int) -> socket.socket:
    """Listen on that address. Raises CommandError if it cannot be used."""
    bare = host.removeprefix("[").removesuffix("]")
    try:
        family = socket.getaddrinfo(bare, port, type=socket.SOCK_STREAM)[0][0]
    except OSError as error:
        raise CommandError(
            f"cannot listen on {Address(bare, port)}: {(error.strerror or str(error)).lower()}; "
            "--host takes another address"
        ) from None
    try:
        return socket.create_server((bare, port), family=family, backlog=BACKLOG)
    except OSError as error:
        # Python repeats the address in its text.
        reason = (os.strerror(error.errno) if error.errno else str(error)).lower()
        is_host = error.errno == errno.EADDRNOTAVAIL
        other = "--host takes another address" if is_host else "--port takes another port"
        raise CommandError(f"cannot listen on {Address(bare, port)}: {reason}; {other}") from None


def _end_with_input(server: uvicorn.Server, stack: contextlib.ExitStack) -> None:
    """End the server when standard input ends: its parent has ended, perhaps without a farewell."""
    loop = asyncio.get_running_loop()

    def on_readable() -> None:
        if not os.read(0, 1024):
            loop.remove_reader(0)
            server.should_exit = True

    loop.add_reader(0, on_readable)
    stack.callback(loop.remove_reader, 0)
