"""``ottla acls``: lists, adds, removes and explains access rules."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.client.admin import Admin
from ottla.client.administration.acl_explanation import explain, judge
from ottla.client.cli.output import json_document, table, write
from ottla.client.cli.run import CommandError, UsageError, run, sentence
from ottla.client.cli.settings import command_config
from ottla.client.cluster.config_requests import ResourceType
from ottla.protocol.acls import (
    CLUSTER_NAME,
    OPERATIONS,
    AclFilter,
    AclPattern,
    AclResourceType,
    AclRule,
    Operation,
    PatternType,
    Permission,
    parse_word,
    spelled,
)
from ottla.wire.errors import ClientError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Sequence

    from ottla.client.administration.acl_explanation import AclVerdict

_HEADINGS = ("RESOURCE", "PATTERN", "NAME", "PRINCIPAL", "HOST", "OPERATION", "PERMISSION")
# Of the options that name resources.
_OPTIONS = {
    "topic": AclResourceType.TOPIC,
    "group": AclResourceType.GROUP,
    "transactional_id": AclResourceType.TRANSACTIONAL_ID,
    "user": AclResourceType.USER,
    "delegation_token": AclResourceType.DELEGATION_TOKEN,
}
_OPEN = "allow.everyone.if.no.acl.found"


def main(arguments: argparse.Namespace) -> int:
    """Run the command."""
    return run(perform, arguments)


async def perform(arguments: argparse.Namespace) -> int:
    """Run the verb."""
    verbs = {"list": _list, "add": _add, "remove": _remove, "explain": _explain}
    # Mistakes are said before a broker is asked.
    patterns, wanted = _patterns(arguments), _operations(arguments)
    async with Admin(arguments.bootstrap, command_config()) as admin:
        return await verbs[arguments.verb](admin, arguments, patterns, wanted)


async def _list(
    admin: Admin,
    arguments: argparse.Namespace,
    patterns: Sequence[AclPattern],
    _wanted: Sequence[Operation],
) -> int:
    filters = _filters(arguments, patterns, ())
    if arguments.match:
        filters = [one._replace(pattern_type=PatternType.MATCH) for one in filters]
    found = {rule for one in filters for rule in await admin.acls.describe_acls(one)}
    _show(arguments, sorted(found))
    return 0


async def _add(
    admin: Admin,
    arguments: argparse.Namespace,
    patterns: Sequence[AclPattern],
    wanted: Sequence[Operation],
) -> int:
    rules = _rules(arguments, patterns, wanted)
    results = await admin.acls.create_acls(rules)
    made = [rule for rule, error in results.items() if error is None]
    if made:
        _show(arguments, made)
    failed = {sentence(error): None for error in results.values() if error is not None}
    if failed:
        raise CommandError("; ".join(failed))
    return 0


def _rules(
    arguments: argparse.Namespace,
    patterns: Sequence[AclPattern],
    wanted: Sequence[Operation],
) -> list[AclRule]:
    """A rule for each principal, host, resource, and operation that the resource knows."""
    if not patterns:
        raise UsageError("name what it is about: --topic, --group, --cluster, ...")
    if not wanted:
        raise UsageError("name what it allows or denies: --operation read,write")
    who = [(one, Permission.ALLOW) for one in arguments.allow]
    who += [(one, Permission.DENY) for one in arguments.deny]
    if not who:
        raise UsageError("name who: --allow User:NAME or --deny User:NAME")
    for operation in wanted:
        if not any(_fits(operation, pattern) for pattern in patterns):
            kinds = ", ".join(sorted({spelled(one.resource_type).lower() for one in patterns}))
            raise UsageError(f"{spelled(operation)} is no operation of: {kinds}")
    return [
        AclRule(pattern, principal, host, operation, permission)
        for pattern in patterns
        for principal, permission in who
        for host in arguments.host or ["*"]
        for operation in wanted
        if _fits(operation, pattern)
    ]


def _fits(operation: Operation, pattern: AclPattern) -> bool:
    return operation is Operation.ALL or operation in OPERATIONS[pattern.resource_type]


async def _remove(
    admin: Admin,
    arguments: argparse.Namespace,
    patterns: Sequence[AclPattern],
    wanted: Sequence[Operation],
) -> int:
    if not patterns and arguments.principal is None:
        raise UsageError(
            "name whose rules go, with --principal, or those of what, with --topic, ..."
        )
    filters = _filters(arguments, patterns, wanted)
    if arguments.dry_run:
        found = {rule for one in filters for rule in await admin.acls.describe_acls(one)}
        _show(arguments, sorted(found))
        return 0
    _show(arguments, await admin.acls.delete_acls(filters))
    return 0


async def _explain(
    admin: Admin,
    arguments: argparse.Namespace,
    patterns: Sequence[AclPattern],
    wanted: Sequence[Operation],
) -> int:
    if not patterns:
        raise UsageError("name what is to be explained: --topic, --group, --cluster, ...")
    verdicts: list[tuple[AclPattern, AclVerdict]] = []
    unruled: set[AclPattern] = set()
    for pattern in patterns:
        kind, name = pattern.resource_type, pattern.name
        rules = await admin.acls.describe_acls(AclFilter(kind, name, PatternType.MATCH))
        about = [rule for rule in rules if rule.pattern.covers(kind, name)]
        if not about:
            unruled.add(pattern)
        if arguments.principal is None:
            found = explain(about, kind, name)
            verdicts += [(pattern, one) for one in found if not wanted or one.operation in wanted]
            continue
        caller = arguments.principal, arguments.host or "*"
        verdicts += [
            (pattern, judge(about, caller, operation)) for operation in wanted or OPERATIONS[kind]
        ]
    principal: str | None = arguments.principal
    supers, is_open = await _settings(admin)
    is_refused = principal is not None and principal not in supers
    status = int(
        is_refused
        and any(
            not verdict.is_allowed and not (is_open and pattern in unruled)
            for pattern, verdict in verdicts
        )
    )
    if arguments.format == "json":
        write(json_document([_verdict_document(*one) for one in verdicts]))
        return status
    for note in _notes(principal, supers, is_open=is_open):
        write(f"{note}\n")
    if not verdicts:
        write("no rule is about it: only super users may use it\n")
    for pattern, verdict in verdicts:
        write(f"{_told(pattern, verdict)}\n")
    return status


async def _settings(admin: Admin) -> tuple[list[str], bool]:
    """The super users, and whether all users may use what no rule is about, as far as the caller
    may see these settings of a broker."""
    try:
        node_id = min(one.node_id for one in (await admin.describe_cluster()).brokers)
        entries = await admin.describe_configs(
            ResourceType.BROKER, str(node_id), ["super.users", _OPEN]
        )
    except ClientError:
        return [], False
    settings = {entry.name: entry.value or "" for entry in entries}
    supers = [one.strip() for one in settings.get("super.users", "").split(";") if one.strip()]
    return supers, settings.get(_OPEN) == "true"


def _notes(principal: str | None, supers: list[str], *, is_open: bool) -> list[str]:
    """What the settings of a broker add to the rules."""
    notes = []
    if supers and principal is None:
        notes.append(f"super users may do everything: {', '.join(supers)}")
    if principal in supers:
        notes.append(f"{principal} is a super user and may do everything")
    if is_open:
        notes.append(f"{_OPEN} is true: all users may use what no rule is about")
    return notes


def _told(pattern: AclPattern, verdict: AclVerdict) -> str:
    """One sentence, such as: User:app may read topic orders (Allow Read, topic orders)."""
    who = "each other user" if verdict.principal == "User:*" else verdict.principal
    where = "" if verdict.host == "*" else f" from {verdict.host}"
    may = "may" if verdict.is_allowed else "may not"
    operation = spelled(verdict.operation)
    what = f"{spelled(pattern.resource_type).lower()} {pattern.name}"
    why = "no rule allows it"
    if verdict.rule is not None:
        rule = verdict.rule
        covers = (
            "names that begin with " if rule.pattern.pattern_type is PatternType.PREFIXED else ""
        )
        why = (
            f"rule: {spelled(rule.permission)} {spelled(rule.operation)} for {rule.principal} "
            f"from {rule.host} on {spelled(rule.pattern.resource_type).lower()} "
            f"{covers}{rule.pattern.name}"
        )
    return f"{who} {may} {operation} {what}{where} ({why})"


def _patterns(arguments: argparse.Namespace) -> list[AclPattern]:
    """The resources that the options name."""
    prefixed = getattr(arguments, "prefixed", False)
    kind_of_pattern = PatternType.PREFIXED if prefixed else PatternType.LITERAL
    found = [
        AclPattern(kind, name, kind_of_pattern)
        for option, kind in _OPTIONS.items()
        for name in getattr(arguments, option)
    ]
    if arguments.cluster:
        found.append(AclPattern(AclResourceType.CLUSTER, CLUSTER_NAME))
    return found


def _operations(arguments: argparse.Namespace) -> list[Operation]:
    """Raises UsageError for a word that is no operation."""
    found: list[Operation] = []
    for word in getattr(arguments, "operation", ()):
        operation = parse_word(Operation, word)
        if operation is None or operation is Operation.ANY:
            known = ", ".join(spelled(one) for one in Operation if one > Operation.ANY)
            raise UsageError(f"{word!r} is no operation; these are: {known}")
        found.append(operation)
    return found


def _filters(
    arguments: argparse.Namespace,
    patterns: Sequence[AclPattern],
    wanted: Sequence[Operation],
) -> list[AclFilter]:
    plain = AclFilter(principal=arguments.principal, host=arguments.host)
    by_resource = [
        plain._replace(
            resource_type=one.resource_type, name=one.name, pattern_type=one.pattern_type
        )
        for one in patterns
    ] or [plain]
    return [
        one._replace(operation=operation)
        for one in by_resource
        for operation in wanted or (Operation.ANY,)
    ]


def _show(arguments: argparse.Namespace, rules: Iterable[AclRule]) -> None:
    rows = [
        (
            spelled(rule.pattern.resource_type),
            rule.pattern.pattern_type.name.lower(),
            rule.pattern.name,
            rule.principal,
            rule.host,
            spelled(rule.operation),
            spelled(rule.permission),
        )
        for rule in rules
    ]
    if arguments.format == "json":
        names = [heading.lower() for heading in _HEADINGS]
        write(json_document([dict(zip(names, row, strict=True)) for row in rows]))
        return
    write(table(_HEADINGS, rows) if rows else "no rules\n")


def _verdict_document(pattern: AclPattern, verdict: AclVerdict) -> dict[str, object]:
    return {
        "resource": spelled(pattern.resource_type),
        "name": pattern.name,
        "principal": verdict.principal,
        "host": verdict.host,
        "operation": spelled(verdict.operation),
        "allowed": verdict.is_allowed,
        "reason": _told(pattern, verdict),
    }
