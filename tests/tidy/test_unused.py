"""Names that no file reads: dead code, and values that are written and never used."""

from __future__ import annotations

import ast
import re
from functools import cache
from typing import TYPE_CHECKING

from tests.tidy.tree import ROOT, compiled_texts, modules_of_tests, product_modules

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.tidy.tree import Module

# Texts such as "handlers.data.fetch:handle" name what is loaded by name.
DOTTED = re.compile(r"[A-Za-z_][\w.:]*")

# Modules whose fields are a table of the protocol or of a file format, complete on purpose.
TABLES = frozenset(
    {
        "ottla.protocol.acls",
        "ottla.protocol.errors",
        "ottla.coordinator.configs.broker_configs",
        "ottla.coordinator.configs.configs",
        "ottla.coordinator.group.common.record_values",
        "ottla.client.cluster.config_requests",
    }
)

# Names that code outside this repository reads, or that are read in another way; by module.
READ_ELSEWHERE = {
    # argparse calls it for words that have to be one of several.
    "ottla.client.cli.arguments": {"_check_value"},
    # pytest finds its hook by name.
    "ottla.pytest_plugin": {"pytest_runtest_makereport"},
    # pyspark calls what it finds on a data source.
    "ottla.client.spark.source": {"streamReader", "streamWriter"},
    # kazoo calls these, and reads ``daemon``.
    "ottla.coordinator.store.zookeeper_client": {"dispatch_callback", "_send_ping", "daemon"},
    # Options that ``ssl``, RE2 and ``socketserver`` read.
    "ottla.coordinator.store.zookeeper_tls": {"check_hostname"},
    "ottla.broker.security.principals": {"log_errors"},
    "ottla.wire.tls.contexts": {
        "check_hostname",
        "maximum_version",
        "num_tickets",
        "verify_flags",
        "verify_mode",
    },
    "ottla.coordinator.patterns": {"log_errors", "max_mem"},
    "ottla.client.spark.jobs.ending": {"handle_error"},
    # ``logging`` calls a handler's ``emit``.
    "ottla.broker.testing.child": {"emit"},
    "ottla.broker.testing.log_tail": {"emit"},
    # ``enum`` reads it.
    "ottla.coordinator.transaction.states": {"_value_"},
    # Fields of what is written, compared or printed as a whole.
    "ottla.broker.log.recovery.clean_mark": {"active_base_offset", "active_size_bytes"},
    "ottla.broker.network.status": {"queued_max"},
    "ottla.client.cluster.topic_pages": {"last_known_eligible_leaders"},
    "ottla.coordinator.transaction.records": {"next_producer_epoch"},
    # A field of a response, which the encoder reads by the declaration.
}


def _read_in(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            yield node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
            yield node.attr
        elif isinstance(node, ast.MatchClass):
            yield from node.kwd_attrs
        elif (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and DOTTED.fullmatch(node.value)
        ):
            yield from re.split(r"[.:]", node.value)


def _defined_in(module: Module) -> Iterator[tuple[ast.AST, str]]:
    for node in module.nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node, node.name
        elif isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node, node.id if isinstance(node, ast.Name) else node.attr


@cache
def _all_reads() -> frozenset[str]:
    # This file names its exceptions as texts, which would count as reads.
    modules = [one for one in (*product_modules(), *modules_of_tests()) if one.name != __name__]
    trees: list[ast.AST] = [module.tree for module in modules]
    for folder in ("benchmarks", "examples"):
        paths = sorted((ROOT / folder).rglob("*.py"))
        trees += [ast.parse(path.read_text("utf-8")) for path in paths]
    compiled = {word for text in compiled_texts().values() for word in re.findall(r"\w+", text)}
    return frozenset(compiled.union(*map(_read_in, trees)))


def _unread(module: Module) -> set[tuple[str, str]]:
    """Name and place of what the module defines and no file reads."""
    return {
        (name, module.where(node))
        for node, name in _defined_in(module)
        if name not in _all_reads() and not name.startswith("__") and name != "_"
    }


def test_every_name_of_the_product_is_read() -> None:
    """A name is read by product, tests, benchmarks or examples. Delete what is not."""
    wrong = [
        f"{place} defines {name}, which no file reads"
        for module in product_modules()
        if module.name not in TABLES and not module.folder.startswith("protocol.messages")
        for name, place in sorted(_unread(module))
        if name not in READ_ELSEWHERE.get(module.name, ())
    ]

    assert wrong == []


def test_exceptions_are_still_needed() -> None:
    """An exception that nothing needs any more would hide the next dead name."""
    modules = {module.name: module for module in product_modules()}
    idle = [
        f"{name} of {where}"
        for where, names in READ_ELSEWHERE.items()
        for name in sorted(names - {found for found, _ in _unread(modules[where])})
    ]

    assert idle == []
