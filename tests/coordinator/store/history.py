"""A seeded history of a metadata store, told so that two stores can be compared.

Numbers that each store gives in its own way (zxids, session ids, times) are told by the order in
which they first appeared.
"""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

from ottla.coordinator.store.store import (
    ANY_VERSION,
    Check,
    Create,
    Created,
    Delete,
    GroupFailed,
    Operation,
    Replace,
    Stat,
    StoreError,
    Znode,
)

if TYPE_CHECKING:
    from ottla.coordinator.store.store import MetadataSession, WatchEvent
    from tests.coordinator.store.contract import World

PATHS = ("/a", "/b", "/a/c", "/a/d", "/a/c/e", "/b/f", "/missing/g")
SESSIONS = 3


class Telling:
    """Gives numbers names by order of appearance."""

    def __init__(self) -> None:
        self._zxids: dict[int, int] = {}
        self._owners: dict[int, str] = {0: "nobody"}

    def name_session(self, session: MetadataSession, name: str) -> None:
        self._owners[session.session_id] = name

    def told(self, value: object) -> object:
        match value:
            case Znode(data, stat):
                return data, self._stat(stat)
            case Created(path, stat):
                return path, self._stat(stat)
            case Stat():
                return self._stat(value)
            case list():
                return [self.told(one) for one in value]
            case GroupFailed():
                return "group", value.index, type(value.error).__name__
            case StoreError():
                return type(value).__name__
        return value

    def _stat(self, stat: Stat) -> tuple[object, ...]:
        return (
            self._zxid(stat.czxid),
            self._zxid(stat.mzxid),
            stat.version,
            stat.children_version,
            self._owners[stat.ephemeral_owner],
            stat.child_count,
        )

    def _zxid(self, zxid: int) -> int:
        return self._zxids.setdefault(zxid, len(self._zxids))


class Listener:
    """A watch with a name."""

    def __init__(self, name: str, heard: list[tuple[str, str, str]]) -> None:
        self._name = name
        self._heard = heard

    def __call__(self, event: WatchEvent) -> None:
        self._heard.append((self._name, event.kind.value, event.path))

    def __repr__(self) -> str:
        return self._name


class Player:
    """One of the sessions, with what its watches have heard since it was last asked."""

    def __init__(self, session: MetadataSession, name: str) -> None:
        self.session = session
        self.name = name
        self.heard: list[tuple[str, str, str]] = []
        # Two functions, so that the same one is often set twice.
        self.watches = (Listener("x", self.heard), Listener("y", self.heard))

    def take(self) -> list[tuple[str, str, str]]:
        heard = list(self.heard)
        self.heard.clear()
        return heard


class History:
    """Plays a seed on a store; the same seed does the same things on every store."""

    def __init__(self, seed: int, world: World) -> None:
        self._random = Random(seed)
        self._world = world
        self._telling = Telling()
        self._players: list[Player] = []
        self._born = 0

    async def play(self, step_count: int) -> list[Any]:
        """What was done, what was answered, and what each session heard of it."""
        for _ in range(SESSIONS):
            await self._join()
        told: list[Any] = []
        for _ in range(step_count):
            player = self._random.choice(self._players)
            roll = self._random.random()
            if roll < 0.02:
                told.append(await self._leave(player))
            else:
                action, arguments = self._draw(player)
                told.append(
                    (
                        player.name,
                        action,
                        repr(arguments),
                        await self._do(player, action, arguments),
                    )
                )
            told.append(await self._news(in_order=roll >= 0.02))
        for player in self._players:
            await player.session.close()
        return told

    async def _join(self) -> None:
        self._born += 1
        player = Player(await self._world.connect(), f"session {self._born}")
        self._telling.name_session(player.session, player.name)
        self._players.append(player)

    async def _leave(self, player: Player) -> tuple[str, str]:
        expires = self._random.random() < 0.5
        self._players.remove(player)
        await (self._world.expire(player.session) if expires else player.session.close())
        await self._join()
        return player.name, "expired" if expires else "closed"

    async def _news(self, *, in_order: bool) -> list[Any]:
        """Returns what each player heard; ephemeral znodes of an ended session go in any order."""
        told = []
        for player in self._players:
            await player.session.sync()
            heard = player.take()
            told.append((player.name, heard if in_order else sorted(heard)))
        return told

    async def _do(self, player: Player, action: str, arguments: tuple[Any, ...]) -> object:
        try:
            match action, arguments:
                case "create", (Create() as made,):
                    result: object = await player.session.create(
                        made.path, made.data, ephemeral=made.ephemeral, sequential=made.sequential
                    )
                case _:
                    result = await getattr(player.session, action)(*arguments)
        except StoreError as error:
            result = error
        return self._telling.told(result)

    def _draw(self, player: Player) -> tuple[str, tuple[Any, ...]]:
        random = self._random
        action = random.choice(
            ("create",) * 3 + ("set", "delete", "get", "exists", "children") + ("multi",) * 2
        )
        path = random.choice(PATHS)
        match action:
            case "create":
                return action, (self._draw_create(),)
            case "set":
                return action, (path, b"%d" % random.randrange(100), self._draw_version())
            case "delete":
                return action, (path, self._draw_version())
            case "multi":
                count = random.randrange(5)
                return action, ([self._draw_operation() for _ in range(count)],)
        watch = random.choice((None, *player.watches))
        return action, (path, watch) if watch is not None else (path,)

    def _draw_operation(self) -> Operation:
        path = self._random.choice(PATHS)
        match self._random.randrange(4):
            case 0:
                return Replace(path, b"m", self._draw_version())
            case 1:
                return Delete(path, self._draw_version())
            case 2:
                return Check(path, self._random.randrange(2))
        return self._draw_create()

    def _draw_create(self) -> Create:
        random = self._random
        path = random.choice(PATHS)
        is_sequential = random.random() < 0.2
        return Create(
            f"{path}/s-" if is_sequential else path,
            b"%d" % random.randrange(100),
            ephemeral=random.random() < 0.3,
            sequential=is_sequential,
        )

    def _draw_version(self) -> int:
        return self._random.choice((ANY_VERSION, ANY_VERSION, 0, 1))
