"""Access rules in the metadata store: the broker follows them and changes them for clients.

Each broker writes what its clients ask for, under the version of the znode that it has read, and
announces it by a sequential znode in the same group. Every broker reads the announcements and reads
again the rules that they name.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from ottla.broker.authorization.index import UNREADABLE, AclIndex, UnreadableRules
from ottla.broker.engine.concurrently import pipelined
from ottla.coordinator.store import acls
from ottla.coordinator.store.announcements import (
    AnnouncementFollower,
    ensure_znode,
    write_announced,
)
from ottla.coordinator.store.store import Create, Delete, NoNode, Replace, StoreError
from ottla.protocol.acls import (
    AclPattern,
    AclResourceType,
    AclRule,
    PatternType,
    Permission,
    is_readable_host,
    parse_word,
)
from ottla.protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ottla.broker.authorization.authorizer import AclAuthorizer
    from ottla.broker.authorization.index import Rules
    from ottla.broker.engine.tasks import Tasks
    from ottla.coordinator.store.announcements import ChangeAnnouncement
    from ottla.coordinator.store.store import MetadataSession, Operation
    from ottla.protocol.ports import Clock

logger = logging.getLogger("ottla.authorization")

Edit = Callable[[tuple[AclRule, ...]], tuple[AclRule, ...]]
"""From the rules of a pattern to those that it is to have. May be called several times."""

# Further rules with such hosts are alike.
WARNINGS_MAX = 20
TEXT_MAX = 256
_ATTEMPTS = 12
_RETRY_MS = 50
_STORED = (PatternType.LITERAL, PatternType.PREFIXED)
_KIND_OF = {acls.CHANGES[kind]: kind for kind in _STORED}


class AclStore:
    """The rules in the store. The server owns it; it follows them in one session after another."""

    def __init__(self, authorizer: AclAuthorizer, clock: Clock, tasks: Tasks) -> None:
        self._authorizer = authorizer
        self._clock = clock
        self._session: MetadataSession | None = None
        self._follower = AnnouncementFollower(
            "access rules", tasks.spawn, tuple(_KIND_OF), self._take
        )
        # Read and apply under one lock: the older of two overlapping reads must not win.
        self._lock = asyncio.Lock()
        # Rules that the operator was told of already.
        self._told: set[AclRule] = set()

    @property
    def index(self) -> AclIndex:
        """The rules in force on this broker."""
        return self._authorizer.index

    # ---- following ----

    async def load(self, session: MetadataSession) -> None:
        """Read every rule before the first request is authorized. Raises StoreError."""
        for path in acls.PERMANENT_PATHS:
            await ensure_znode(session, path)
        await self._load(session)

    async def _load(self, session: MetadataSession) -> None:
        async with self._lock:
            # The listing, too: a rule of a client may come after it, and is read after this.
            patterns = [one for kind in _STORED for one in await _patterns(session, kind)]
            found = await pipelined(partial(_read, session), patterns)
            self._warn(found)
            self._authorizer.take(AclIndex().replaced(dict(zip(patterns, found, strict=True))))

    async def begin(self, session: MetadataSession) -> None:
        """Read every rule in the new session, and follow the changes. Raises StoreError."""
        self._session = session
        await self._follower.watch(session)
        await self._load(session)
        self._follower.start(session)

    async def end(self) -> None:
        """Stop following; the rules that are known stay in force."""
        self._session = None
        await self._follower.end()

    async def _take(
        self, session: MetadataSession, announced: Sequence[ChangeAnnouncement]
    ) -> None:
        """Read the rules again that have changed."""
        patterns: dict[AclPattern, None] = {}
        for path, data in announced:
            pattern = acls.parse_change(_KIND_OF[path.rpartition("/")[0]], data)
            if pattern is None:
                logger.error("the announcement of an access rule, %s, is unreadable", path)
            else:
                patterns[pattern] = None
        await self._refresh(session, patterns)

    async def _refresh(self, session: MetadataSession, patterns: Iterable[AclPattern]) -> None:
        wanted = list(patterns)
        if not wanted:
            return
        async with self._lock:
            found = await pipelined(partial(_read, session), wanted)
            changes = {
                pattern: rules
                for pattern, rules in zip(wanted, found, strict=True)
                if rules != self.index.rules_of(pattern)
            }
            if changes:
                self._warn(changes.values())
                self._authorizer.take(self.index.replaced(changes))

    def _warn(self, loaded: Iterable[Rules]) -> None:
        """Tell of rules whose host names no address, once each: they mean something else than their
        author thinks."""
        odd = {
            rule
            for rules in loaded
            if not isinstance(rules, UnreadableRules)
            for rule in rules
            if not is_readable_host(rule.host)
        }
        for rule in sorted(odd - self._told, key=repr)[:WARNINGS_MAX]:
            denies = rule.permission is Permission.DENY
            effect = "it denies from every host" if denies else "it allows no client"
            logger.warning(
                "the host of the access rule %r for %r on %s %r is no address and no network, and "
                "names are not resolved: %s. Replace the rule by one with an address.",
                rule.host[:TEXT_MAX],
                rule.principal[:TEXT_MAX],
                rule.pattern.resource_type.name,
                rule.pattern.name[:TEXT_MAX],
                effect,
            )
        self._told |= odd

    # ---- changing ----

    async def change(self, edits: Mapping[AclPattern, Edit]) -> dict[AclPattern, KafkaError | None]:
        """Change the rules of each pattern. What was done is in force on this broker at return, and
        on the others when they have read the announcement.

        Returns: the error of each pattern, None where the rules are as wanted.
        Raises: KafkaError without a session."""
        session = self._session
        if session is None:
            raise KafkaError(ErrorCode.NETWORK_EXCEPTION, "no session with the metadata store")

        async def change_one(item: tuple[AclPattern, Edit]) -> KafkaError | None:
            try:
                await self._change(session, *item)
            except KafkaError as error:
                return error
            except StoreError as error:
                text = f"the metadata store did not take the change: {error}"
                return KafkaError(ErrorCode.REQUEST_TIMED_OUT, text)
            return None

        errors = await pipelined(change_one, list(edits.items()))
        try:
            await self._refresh(session, edits)
        except StoreError as error:
            # The broker reads them in its next session.
            logger.warning("changed access rules cannot be read: %s", error)
        return dict(zip(edits, errors, strict=True))

    async def _change(self, session: MetadataSession, pattern: AclPattern, edit: Edit) -> None:
        for attempt in range(_ATTEMPTS):
            if attempt:
                await self._clock.sleep(_RETRY_MS * attempt)
            written = await _write(session, pattern, edit)
            if written:
                return
        raise KafkaError(
            ErrorCode.REQUEST_TIMED_OUT,
            f"the rules of {acls.path_of(pattern)} keep being changed by other clients: try again",
        )


async def _write(session: MetadataSession, pattern: AclPattern, edit: Edit) -> bool:
    """Read, edit and write once. False: another broker wrote first, or the outcome is unknown."""
    path = acls.path_of(pattern)
    try:
        found = await session.get(path)
    except NoNode:
        found = None
    before = acls.parse_rules(pattern, found.data if found else b"")
    if before is None:
        raise KafkaError(
            ErrorCode.UNKNOWN_SERVER_ERROR,
            f"{path} in the metadata store is unreadable: repair or delete this znode",
        )
    after = edit(before)
    if after == before:
        return True
    data = acls.build_rules(after)
    if len(data) > acls.RULES_BYTES_MAX:
        raise KafkaError(
            ErrorCode.INVALID_REQUEST,
            f"the rules of one resource take at most {acls.RULES_BYTES_MAX} bytes: "
            "use a prefix, or a principal of several users",
        )
    step: Operation
    if found is None:
        step = Create(path, data)
    elif after:
        step = Replace(path, data, found.stat.version)
    else:
        step = Delete(path, found.stat.version)
    told = acls.change_path(pattern.pattern_type)
    return await write_announced(session, step, told, acls.build_change(pattern))


async def _read(session: MetadataSession, pattern: AclPattern) -> Rules:
    path = acls.path_of(pattern)
    try:
        found = await session.get(path)
    except NoNode:
        return ()
    rules = acls.parse_rules(pattern, found.data)
    if rules is None:
        logger.error("the access rules at %s are unreadable: all access to it is denied", path)
        return UNREADABLE
    return rules


async def _patterns(session: MetadataSession, kind: PatternType) -> list[AclPattern]:
    """Every pattern that has a znode."""
    found = []
    for word in await session.children(acls.ROOTS[kind]):
        resource_type = parse_word(AclResourceType, word)
        if resource_type not in acls.RESOURCE_TYPES:
            logger.warning("%s/%s is no type of resources", acls.ROOTS[kind], word)
            continue
        assert resource_type is not None
        names = await session.children(f"{acls.ROOTS[kind]}/{word}")
        found += [AclPattern(resource_type, name, kind) for name in names]
    return found
