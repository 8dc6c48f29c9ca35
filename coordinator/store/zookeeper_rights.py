"""Closes the znodes that exist to all but the brokers, or opens them again.

A znode keeps the rights with which it was created, so those of an open cluster stay open when its
brokers begin to protect what they create. Kafka's zookeeper-security-migration does the same.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

from kazoo.security import make_digest_acl_credential

from ottla.coordinator.store import acls, delegation_tokens, paths
from ottla.coordinator.store.store import NoAuth, NoNode
from ottla.coordinator.store.zookeeper_requests import ZnodeRight
from ottla.coordinator.store.zookeeper_wire import SECRET_PATHS
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ottla.coordinator.store.zookeeper_session import ZooKeeperSession

# Groups of the first consumers, which write there themselves.
CONSUMERS = "/consumers"
_READ, _ALL = 1, 31
_AT_ONCE = 100
# What brokers create, of Kafka and of Ottla; all else in the same place belongs to others.
_OWN = frozenset(
    path.split("/")[1]
    for path in (
        *paths.PERMANENT_PATHS,
        *acls.PERMANENT_PATHS,
        *acls.CHANGES.values(),
        *delegation_tokens.PERMANENT_PATHS,
        paths.CONTROLLER,
        paths.CONTROLLER_EPOCH,
        paths.FEATURE,
        "/migration",
    )
)
# The right of every program to do everything.
WORLD = ZnodeRight("world", "anyone", _ALL)


class WantedRights(NamedTuple):
    """The rights that all znodes of a cluster shall have.

    Args:
        owner: "user:password" of the brokers; None to let every program do everything.
        others_read: whether every program may read what has no secrets.
        has_certificate: whether brokers show ZooKeeper a certificate: what they create then belongs
            to its subject as well.
    """

    owner: str | None
    others_read: bool = False
    has_certificate: bool = False

    def of(self, path: str) -> frozenset[ZnodeRight]:
        """Those of one znode."""
        if self.owner is None:
            return frozenset({WORLD})
        user, _, password = self.owner.partition(":")
        own = ZnodeRight("digest", make_digest_acl_credential(user, password), _ALL)
        if not self.others_read or path.startswith(SECRET_PATHS):
            return frozenset({own})
        return frozenset({own, ZnodeRight("world", "anyone", _READ)})

    def are_met(self, path: str, found: frozenset[ZnodeRight]) -> bool:
        """Whether a znode has them."""
        if self.has_certificate and self.owner is not None:
            found = frozenset(one for one in found if one.scheme != "x509")
        return found == self.of(path)


class RightsWalk:
    """One look at all znodes of a cluster, from its root on.

    ``changed``: paths with other rights than wanted, which the walk has set unless it only looks;
    ``refused``: paths of another user; ``left``: paths that are not the brokers'.

    Args:
        session: of the user that owns the znodes.
        root: the chroot; "" for none.
        wanted: the rights that the znodes shall have.
        sets: whether to set them.
        except_for: paths to be left as they are, with all below them.
    """

    def __init__(
        self,
        session: ZooKeeperSession,
        root: str,
        wanted: WantedRights,
        *,
        sets: bool,
        except_for: Sequence[str] = (),
    ) -> None:
        self.count = 0
        self.changed: list[str] = []
        self.refused: list[str] = []
        self.left: list[str] = []
        self._session = session
        self._root = root
        self._wanted = wanted
        self._sets = sets
        self._except_for = except_for

    async def run(self) -> None:
        """Walk. Raises NoNode for a root that does not exist, StoreError when the connection is
        lost; a second walk then does the rest."""
        await self._session.rights(self._root or "/")
        waiting = deque([""])
        while waiting:
            some = [waiting.popleft() for _ in range(min(_AT_ONCE, len(waiting)))]
            found = await asyncio.gather(*map(self._look, some))
            for path, names in zip(some, found, strict=True):
                waiting.extend(self._own(path, names))

    def _own(self, path: str, names: list[str]) -> list[str]:
        """Return the paths of these children that are the brokers'."""
        found = []
        for name in names:
            below = f"{path}/{name}"
            if (path or name in _OWN) and below not in self._except_for:
                found.append(below)
            elif below != "/zookeeper":
                self.left.append(below)
        return found

    async def _look(self, path: str) -> list[str]:
        """Look at one znode; return the names below it."""
        full, shown = self._root + path or "/", path or "/"
        try:
            if not self._wanted.are_met(path, await self._session.rights(full)):
                if self._sets:
                    await self._session.set_rights(full, self._wanted.of(path))
                self.changed.append(shown)
            names = await self._session.children(full)
        except NoAuth:
            self.refused.append(shown)
            return []
        except NoNode:
            # Deleted meanwhile.
            return []
        self.count += 1
        return names
