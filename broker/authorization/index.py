"""All rules in force, arranged so that those about one resource are found quickly. Pure.

Literal rules are found by name. Prefixed rules are found by the beginnings of the name, of which
only those are looked up whose length some prefix has. An index is never changed: ``replaced`` makes
another one.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from ottla.protocol.acls import ANY_USER, WILDCARD, AclPattern, Operation, PatternType, Permission
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from ottla.protocol.acls import AclResourceType, AclRule


class UnreadableRules:
    """Replaces rules of a pattern whose znode cannot be parsed; denies every operation."""


UNREADABLE = UnreadableRules()
Rules = tuple["AclRule", ...] | UnreadableRules
_NONE: Mapping[str, Rules] = MappingProxyType({})


class AclDecision(NamedTuple):
    """Whether an operation is allowed, and why.

    ``rule`` is the one that decided; None if there was none or the reason is another one."""

    is_allowed: bool
    reason: str
    rule: AclRule | None = None


class _Section(NamedTuple):
    """The rules of one resource type and one pattern type."""

    by_name: Mapping[str, Rules] = _NONE
    # The lengths that the names have, each once.
    lengths: tuple[int, ...] = ()


_EMPTY = _Section()


class AclIndex:
    """All rules by resource type, pattern type and name."""

    def __init__(
        self, sections: Mapping[tuple[AclResourceType, PatternType], _Section] | None = None
    ) -> None:
        self._sections = dict(sections or {})

    @classmethod
    def of(cls, rules: Iterable[AclRule]) -> AclIndex:
        """Arrange these rules."""
        by_pattern: dict[AclPattern, list[AclRule]] = {}
        for rule in rules:
            by_pattern.setdefault(rule.pattern, []).append(rule)
        return cls().replaced({pattern: tuple(found) for pattern, found in by_pattern.items()})

    def replaced(self, changes: Mapping[AclPattern, Rules]) -> AclIndex:
        """Return an index with these rules; a pattern without rules is removed."""
        by_name: dict[tuple[AclResourceType, PatternType], dict[str, Rules]] = {}
        for (resource_type, name, pattern_type), rules in changes.items():
            key = resource_type, pattern_type
            if key not in by_name:
                by_name[key] = dict(self._sections.get(key, _EMPTY).by_name)
            if rules == ():
                by_name[key].pop(name, None)
            else:
                by_name[key][name] = rules
        made = {
            key: _Section(names, tuple(sorted({len(name) for name in names})))
            for key, names in by_name.items()
        }
        return AclIndex({**self._sections, **made})

    def __iter__(self) -> Iterator[tuple[AclPattern, Rules]]:
        """Each pattern with its rules."""
        for (resource_type, pattern_type), section in self._sections.items():
            for name, rules in section.by_name.items():
                yield AclPattern(resource_type, name, pattern_type), rules

    def rules(self) -> Iterator[AclRule]:
        """Each rule that could be read."""
        for _pattern, found in self:
            if not isinstance(found, UnreadableRules):
                yield from found

    def rules_of(self, pattern: AclPattern) -> Rules:
        """The rules of exactly this pattern."""
        section = self._sections.get((pattern.resource_type, pattern.pattern_type), _EMPTY)
        return section.by_name.get(pattern.name, ())

    def about(self, resource_type: AclResourceType, name: str) -> Iterator[Rules]:
        """Return the rules of every pattern that covers the resource."""
        literal = self._sections.get((resource_type, PatternType.LITERAL), _EMPTY).by_name
        for key in {name, WILDCARD}:
            if key in literal:
                yield literal[key]
        prefixed, lengths = self._sections.get((resource_type, PatternType.PREFIXED), _EMPTY)
        for length in lengths:
            if length > len(name):
                return
            found = prefixed.get(name[:length])
            if found is not None:
                yield found


def decide(
    index: AclIndex,
    caller: tuple[str, str],
    operation: Operation,
    resource: tuple[AclResourceType, str],
    *,
    open_without_rules: bool = False,
) -> AclDecision:
    """Decide whether the caller may perform the operation on the resource.

    Args:
        index: the rules in force.
        caller: principal and plain host.
        operation: what the caller wants to do.
        resource: type and name.
        open_without_rules: what holds for a resource that no rule is about
            (``allow.everyone.if.no.acl.found``).
    """
    principal, host = caller
    allowing: AclRule | None = None
    has_rules = False
    for rules in index.about(*resource):
        has_rules = True
        if isinstance(rules, UnreadableRules):
            return AclDecision(False, "its rules are unreadable in the metadata store")
        for rule in rules:
            if rule.concerns(principal, host, operation):
                if rule.permission is Permission.DENY:
                    return AclDecision(False, "a rule denies it", rule)
                allowing = rule
    if allowing is not None:
        return AclDecision(True, "a rule allows it", allowing)
    if has_rules:
        return AclDecision(False, "no rule allows it")
    return AclDecision(open_without_rules, "there are no rules about it")


def may_on_any(
    index: AclIndex,
    caller: tuple[str, str],
    operation: Operation,
    resource_type: AclResourceType,
    *,
    open_without_rules: bool = False,
) -> bool:
    """Whether the caller may do this to at least one resource of the type, there or not (KIP-679).

    A literal or prefix that allows counts unless a prefix that is a beginning of it, or the same
    literal, denies."""
    principal, host = caller
    allowed: list[AclPattern] = []
    denied: set[AclPattern] = set()
    for pattern, rules in index:
        if pattern.resource_type is not resource_type:
            continue
        if isinstance(rules, UnreadableRules):
            denied.add(pattern)
            continue
        for rule in rules:
            if (
                rule.principal in (principal, ANY_USER)
                and rule.operation in (operation, Operation.ALL)
                and rule.concerns(principal, host, rule.operation)
            ):
                if rule.permission is Permission.DENY:
                    denied.add(pattern)
                else:
                    allowed.append(pattern)
    if AclPattern(resource_type, WILDCARD) in denied:
        return False
    if open_without_rules:
        return True
    return any(not _is_covered(pattern, denied) for pattern in allowed)


def _is_covered(pattern: AclPattern, denied: set[AclPattern]) -> bool:
    """Whether a rule that denies leaves nothing of what the pattern allows."""
    if pattern.pattern_type is PatternType.LITERAL:
        if pattern in denied:
            return True
        if pattern.name == WILDCARD:
            # However many prefixes are denied, the pattern still allows other names.
            return False
    return any(
        pattern._replace(name=pattern.name[:length], pattern_type=PatternType.PREFIXED) in denied
        for length in range(1, len(pattern.name) + 1)
    )
