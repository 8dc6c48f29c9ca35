"""A simulated file: what programs see now, and what would be left after the power went.

Between two fsyncs any written page may or may not have reached the disk, torn at sectors, and the
file may have any of the sizes it passed through. That is weaker than real file systems are, on
purpose: programs may rely only on what is specified.
"""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.simulation.world.random import SimRandom

PAGE_BYTES = 4096
SECTOR_BYTES = 512


class Sync(NamedTuple):
    """An fsync under way: what it promised to write, page by page."""

    version: int
    pages: dict[int, bytes]
    size_bytes: int
    sizes_seen: int


class Inode:
    """One file's content; lives as long as a name, a handle or a crash image refers to it."""

    __slots__ = ("_before", "_changed", "_ghosts", "_sizes", "_version", "_versions", "data")

    def __init__(self, versions: Iterator[int] | None = None) -> None:
        self.data = bytearray()
        self._versions = versions or count(1)
        self._version = 0
        # What the disk has of each page written since, and the version of the last write to it.
        self._before: dict[int, bytes] = {}
        self._changed: dict[int, int] = {}
        # Pages that the kernel believes clean although their write failed.
        self._ghosts: dict[int, bytes] = {}
        # Sizes it passed through since the last sync, each with the version of its write.
        self._sizes: list[tuple[int, int]] = [(0, 0)]

    @property
    def is_durable(self) -> bool:
        """Whether a power cut would leave it exactly as it is."""
        return not self._before and not self._ghosts and len(self._sizes) == 1

    @property
    def durable_prefix_bytes(self) -> int:
        """How many bytes from the start are certain to survive a power cut unchanged.

        Of a page that was only added to, what was there before survives whichever of the two
        contents the disk has."""
        unsure = [
            page * PAGE_BYTES + _common_bytes(before, self._page(page))
            for page, before in (*self._ghosts.items(), *self._before.items())
        ]
        sizes = [size for _, size in self._sizes]
        return min([*sizes, *unsure, len(self.data)])

    def write_end(self, chunk: bytes | memoryview) -> None:
        """Add bytes at the end."""
        if not chunk:
            return
        start = len(self.data)
        self._touch(start, start + len(chunk))
        self.data += chunk
        self._sizes.append((self._version, len(self.data)))

    def truncate(self, size_bytes: int) -> None:
        """Cut, or extend by zeros; a power cut may undo it."""
        self._touch(min(size_bytes, len(self.data)), max(size_bytes, len(self.data)))
        if size_bytes <= len(self.data):
            del self.data[size_bytes:]
        else:
            self.data += bytes(size_bytes - len(self.data))
        self._sizes.append((self._version, size_bytes))

    def begin_sync(self) -> Sync:
        """Note what an fsync that starts now must bring to the disk."""
        pages = {page: self._page(page) for page in self._before}
        return Sync(self._version, pages, len(self.data), len(self._sizes))

    def finish_sync(self, sync: Sync) -> None:
        """The write-back succeeded; pages written again since then have the synced content beneath
        them."""
        for page, content in sync.pages.items():
            if page not in self._before:
                continue
            if self._changed[page] <= sync.version:
                del self._before[page], self._changed[page]
            else:
                self._before[page] = content
        self._sizes = [(0, sync.size_bytes), *self._sizes[sync.sizes_seen :]]

    def fail_sync(self) -> None:
        """The write-back failed: pages are clean in memory, gone on the disk, and no later fsync
        reports it (hazard S-09). Sizes belong to the journal and are kept."""
        for page, before in self._before.items():
            self._ghosts.setdefault(page, before)
        self._before.clear()
        self._changed.clear()
        self._sizes = [(0, len(self.data))]

    @property
    def has_ghosts(self) -> bool:
        """Whether pages are clean in memory and absent from the disk."""
        return bool(self._ghosts)

    def drop_ghosts(self) -> None:
        """Memory lets go of them."""
        for page, before in self._ghosts.items():
            self._restore(self.data, page, before, None)
        self._ghosts.clear()

    def flip_bit(self, position: int, bit: int) -> None:
        """Rot one bit, on the disk and in memory."""
        self.data[position] ^= 1 << bit

    def versions(self) -> list[int]:
        """When something was written that the disk may not have yet."""
        return [*self._changed.values(), *(version for version, _ in self._sizes[1:])]

    def lose_power(self, random: SimRandom) -> None:
        """Keep what the disk happens to have: any subset of the pages, torn at sectors."""
        image = self._image(self._size_after(random))
        keep = random.choice((0.0, 0.5, 0.9, 1.0))
        for page in sorted(self._before):
            if random.chance(keep) and page * PAGE_BYTES < len(self.data):
                continue
            torn = random if random.chance(0.3) else None
            self._restore(image, page, self._before[page], torn)
        self._become(image)

    def lose_power_in_order(self, last_version: int) -> None:
        """Keep what was written up to that version, over all files, in whole pages: what a
        journal with ordered data gives, where no size is on the disk before its bytes are."""
        size_bytes = next(
            size for version, size in reversed(self._sizes) if version <= last_version
        )
        image = self._image(size_bytes)
        lost = sorted(page for page, version in self._changed.items() if version > last_version)
        for page in lost:
            self._restore(image, page, self._before[page], None)
        if lost:
            del image[max(self._sizes[0][1], lost[0] * PAGE_BYTES) :]
        self._become(image)

    def _image(self, size_bytes: int) -> bytearray:
        image = bytearray(self.data[:size_bytes])
        return image + bytes(size_bytes - len(image))

    def _become(self, image: bytearray) -> None:
        for page in sorted(self._ghosts):
            if page not in self._before:
                self._restore(image, page, self._ghosts[page], None)
        self.data = image
        self._before, self._changed, self._ghosts = {}, {}, {}
        self._sizes = [(0, len(image))]

    def _size_after(self, random: SimRandom) -> int:
        kind = random.below(3)
        if kind == 0:
            return self._sizes[-1][1]
        if kind == 1:
            return self._sizes[0][1]
        return random.choice(self._sizes)[1]

    def _restore(self, image: bytearray, page: int, before: bytes, torn: SimRandom | None) -> None:
        start = page * PAGE_BYTES
        old = before.ljust(PAGE_BYTES, b"\0")
        for sector in range(0, PAGE_BYTES, SECTOR_BYTES):
            first = start + sector
            if first >= len(image):
                break
            if torn is not None and torn.chance(0.5):
                continue
            last = min(first + SECTOR_BYTES, len(image))
            image[first:last] = old[sector : sector + last - first]

    def _page(self, page: int) -> bytes:
        return bytes(self.data[page * PAGE_BYTES : (page + 1) * PAGE_BYTES])

    def _touch(self, start: int, end: int) -> None:
        self._version = next(self._versions)
        for page in range(start // PAGE_BYTES, max(start, end - 1) // PAGE_BYTES + 1):
            if page not in self._before:
                ghost = self._ghosts.pop(page, None)
                self._before[page] = self._page(page) if ghost is None else ghost
            self._changed[page] = self._version


def _common_bytes(one: bytes, other: bytes) -> int:
    """The length of their common beginning."""
    shorter = min(len(one), len(other))
    if one[:shorter] == other[:shorter]:
        return shorter
    return next(at for at in range(shorter) if one[at] != other[at])
