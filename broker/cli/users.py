"""``ottla users``: users that log in with SCRAM, through a broker or, for the first ones, without.

The password never stands on the command line: it is read from standard input or asked for.
"""

from __future__ import annotations

import getpass
import sys
from typing import TYPE_CHECKING

from ottla.broker.cli.first_user_writes import write_offline
from ottla.broker.server.first_users import FirstUser
from ottla.client.admin import Admin
from ottla.client.cli.output import json_document, table, write
from ottla.client.cli.run import UsageError, run
from ottla.client.cli.settings import command_config
from ottla.protocol.sasl.scram_record import (
    ITERATIONS_MAX,
    ITERATIONS_MIN,
    SCRAM_MECHANISMS,
)
from ottla.protocol.sasl.user_names import name_problem
from ottla.protocol.secret import Secret

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence


def main(arguments: argparse.Namespace) -> int:
    """Run the command."""
    return run(perform, arguments)


async def perform(arguments: argparse.Namespace) -> int:
    """Run the verb."""
    if arguments.verb == "create":
        await _create(arguments)
        return 0
    async with Admin(arguments.bootstrap, command_config()) as admin:
        if arguments.verb == "list":
            users = sorted(await admin.users.describe_users())
            if arguments.format == "json":
                write(json_document([one._asdict() for one in users]))
            elif users:
                rows = [(one.name, ", ".join(one.mechanisms)) for one in users]
                write(table(("USER", "MECHANISMS"), rows))
            else:
                write("no user has a SCRAM credential\n")
        else:
            await admin.users.delete_user(arguments.name, arguments.mechanism)
            _tell("deleted", arguments)
    return 0


async def _create(arguments: argparse.Namespace) -> None:
    # With both, every client can log in whatever its setting.
    mechanisms = [arguments.mechanism] if arguments.mechanism else [*SCRAM_MECHANISMS]
    iterations = arguments.iterations or ITERATIONS_MIN
    problem = name_problem(arguments.name)
    if not ITERATIONS_MIN <= iterations <= ITERATIONS_MAX:
        problem = f"--iterations is between {ITERATIONS_MIN} and {ITERATIONS_MAX}"
    if problem is not None:
        raise UsageError(problem)
    password = _password(arguments)
    if arguments.data_dir is not None or arguments.zookeeper is not None:
        await _write_offline(
            arguments,
            [
                FirstUser(arguments.name, SCRAM_MECHANISMS[mechanism], password, iterations)
                for mechanism in mechanisms
            ],
        )
    else:
        async with Admin(arguments.bootstrap, command_config()) as admin:
            for mechanism in mechanisms:
                await admin.users.set_password(
                    arguments.name, password.reveal(), mechanism, iterations
                )
    _tell("created", arguments)


def _password(arguments: argparse.Namespace) -> Secret:
    if arguments.password_stdin:
        password = sys.stdin.readline().rstrip("\r\n")
    elif sys.stdin.isatty():
        password = getpass.getpass(f"password of {arguments.name}: ")
        if getpass.getpass("again: ") != password:
            raise UsageError("the two passwords differ")
    else:
        raise UsageError("give --password-stdin and the password on standard input")
    if not password:
        raise UsageError("the password is empty")
    return Secret(password)


async def _write_offline(arguments: argparse.Namespace, users: Sequence[FirstUser]) -> None:
    """Write into the store that a broker with these options would use."""
    settings = {"log.dirs": arguments.data_dir or "unused"}
    if arguments.zookeeper is not None:
        settings["zookeeper.connect"] = arguments.zookeeper
    await write_offline(settings, users)


def _tell(done: str, arguments: argparse.Namespace) -> None:
    if arguments.format == "json":
        write(json_document({"user": arguments.name, "status": done}))
    else:
        write(f"{done} user {arguments.name}\n")
