"""Loads the parser and the function of each verb of the ``ottla`` command when it is called.

Imports stand in functions here: help loads no verb, and a verb no other. Type checkers, editors and
the tests of the drawing follow them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence

    from ottla.client.cli.completing import CandidateSource

    Main = Callable[[argparse.Namespace], int]
    """Runs the verb and returns the exit status."""
    MakeParser = Callable[[], argparse.ArgumentParser]


def start_parser() -> MakeParser:
    from ottla.broker.cli.parsers import start_parser

    return start_parser


def start() -> Main:
    from ottla.broker.cli.start import main

    return main


def topics_parser() -> MakeParser:
    from ottla.client.cli.parsers.topics import parser

    return parser


def topics() -> Main:
    from ottla.client.cli.cluster.topics import main

    return main


def produce_parser() -> MakeParser:
    from ottla.client.cli.parsers.produce import parser

    return parser


def produce() -> Main:
    from ottla.client.cli.records.produce import main

    return main


def consume_parser() -> MakeParser:
    from ottla.client.cli.parsers.consume import parser

    return parser


def consume() -> Main:
    from ottla.client.cli.records.consume import main

    return main


def groups_parser() -> MakeParser:
    from ottla.client.cli.parsers.groups import parser

    return parser


def groups() -> Main:
    from ottla.client.cli.groups.groups import main

    return main


def offsets_parser() -> MakeParser:
    from ottla.client.cli.parsers.offsets import parser

    return parser


def offsets() -> Main:
    from ottla.client.cli.groups.offsets import main

    return main


def trace_parser() -> MakeParser:
    from ottla.client.cli.parsers.trace import parser

    return parser


def trace() -> Main:
    from ottla.client.cli.records.trace import main

    return main


def configs_parser() -> MakeParser:
    from ottla.client.cli.parsers.configs import parser

    return parser


def configs() -> Main:
    from ottla.client.cli.cluster.configs import main

    return main


def transactions_parser() -> MakeParser:
    from ottla.client.cli.parsers.transactions import parser

    return parser


def transactions() -> Main:
    from ottla.client.cli.transactions.transactions import main

    return main


def cluster_parser() -> MakeParser:
    from ottla.client.cli.parsers.cluster import parser

    return parser


def cluster() -> Main:
    from ottla.client.cli.cluster.cluster import main

    return main


def broker_parser() -> MakeParser:
    from ottla.client.cli.parsers.broker import parser

    return parser


def broker() -> Main:
    from ottla.client.cli.cluster.broker import main

    return main


def features_parser() -> MakeParser:
    from ottla.client.cli.parsers.features import parser

    return parser


def features() -> Main:
    from ottla.client.cli.cluster.features import main

    return main


def quotas_parser() -> MakeParser:
    from ottla.client.cli.parsers.quotas import parser

    return parser


def quotas() -> Main:
    from ottla.client.cli.cluster.quotas import main

    return main


def users_parser() -> MakeParser:
    from ottla.broker.cli.parsers import users_parser

    return users_parser


def users() -> Main:
    from ottla.broker.cli.users import main

    return main


def secure_parser() -> MakeParser:
    from ottla.broker.cli.parsers import secure_parser

    return secure_parser


def secure() -> Main:
    from ottla.broker.cli.secure_command import main

    return main


def tokens_parser() -> MakeParser:
    from ottla.client.cli.parsers.tokens import parser

    return parser


def tokens() -> Main:
    from ottla.client.cli.cluster.tokens import main

    return main


def acls_parser() -> MakeParser:
    from ottla.client.cli.parsers.acls import parser

    return parser


def acls() -> Main:
    from ottla.client.cli.cluster.acls import main

    return main


def reassign_parser() -> MakeParser:
    from ottla.client.cli.parsers.placements import reassign_parser

    return reassign_parser


def reassign() -> Main:
    from ottla.client.cli.cluster.reassign import main

    return main


def elect_parser() -> MakeParser:
    from ottla.client.cli.parsers.placements import elect_parser

    return elect_parser


def elect() -> Main:
    from ottla.client.cli.cluster.elect import main

    return main


def mirror_parser() -> MakeParser:
    from ottla.client.cli.parsers.mirror import parser

    return parser


def mirror() -> Main:
    from ottla.client.cli.mirror import main

    return main


def backup_parser() -> MakeParser:
    from ottla.client.cli.parsers.backup import parser

    return parser


def backup() -> Main:
    from ottla.client.cli.backup import main

    return main


def spark_parser() -> MakeParser:
    from ottla.client.cli.parsers.spark import parser

    return parser


def spark() -> Main:
    from ottla.client.cli.spark import main

    return main


def profile_parser() -> MakeParser:
    from ottla.client.cli.parsers.profile import parser

    return parser


def profile() -> Main:
    from ottla.client.cli.profile import main

    return main


def perf_parser() -> MakeParser:
    from ottla.client.cli.parsers.perf import parser

    return parser


def perf() -> Main:
    from ottla.client.cli.records.perf import main

    return main


def console_parser() -> MakeParser:
    from ottla.client.cli.parsers.console import parser

    return parser


def console() -> Main:
    from ottla.client.cli.web.command import main

    return main


def doctor_parser() -> MakeParser:
    from ottla.broker.cli.parsers import doctor_parser

    return doctor_parser


def doctor() -> Main:
    from ottla.broker.cli.doctor import main

    return main


def log_parser() -> MakeParser:
    from ottla.broker.cli.parsers import log_parser

    return log_parser


def log() -> Main:
    from ottla.broker.cli.log import main

    return main


def completion_parser() -> MakeParser:
    from ottla.client.cli.parsers.completion import parser

    return parser


def completion() -> Main:
    from ottla.completion_scripts import main

    return main


def completion_names() -> Callable[[CandidateSource, Sequence[str]], Sequence[str]]:
    """The names of topics and groups, which need a client."""
    from ottla.client.cli.names import names_of

    return names_of
