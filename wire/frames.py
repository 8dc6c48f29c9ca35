"""Cuts the bytes of a connection into frames, with at most one copy. Pure.

A frame is a length of four bytes and that many more. Small frames share a scratch buffer and are
copied out of it; a large one gets a buffer of its own as soon as its length is known, into which
the socket then reads directly, so that fetched records are never copied at all. Buffers are used
again once nobody holds what was in them: fresh memory costs more than reading into it.
"""

from __future__ import annotations

from ottla.protocol.errors import RemoteProtocolError

SCRATCH_BYTES = 64 * 1024
LENGTH_BYTES = 4
# What an idle connection keeps: enough for a fetch under way, one that waits and one that is read.
SPARES_MAX = 4
SPARES_BYTES_MAX = 16 * 1024 * 1024
# Frames of one stream differ a little in size.
SPARE_STEP_BYTES = 128 * 1024


class FrameTooLarge(RemoteProtocolError):
    """A length that may be meant, but that nobody has room for."""

    def __init__(self, size_bytes: int, limit_bytes: int) -> None:
        super().__init__(f"a frame of {size_bytes} bytes, of {limit_bytes} that are allowed")
        self.size_bytes = size_bytes
        self.limit_bytes = limit_bytes


class Spares:
    """Buffers to read into. Nobody says when a frame is not needed any more; it is known all the
    same, since a bytearray refuses to change its size as long as somebody looks into it."""

    __slots__ = ("_buffers",)

    def __init__(self) -> None:
        self._buffers: list[bytearray] = []

    def take(self, size_bytes: int) -> memoryview:
        """A place for that many bytes, whatever they are now."""
        for index, buffer in enumerate(self._buffers):
            if len(buffer) >= size_bytes and _is_free(buffer):
                # The one that was used last is the likeliest to be in the processor's cache.
                self._buffers.insert(0, self._buffers.pop(index))
                return memoryview(buffer)[:size_bytes]
        made = bytearray(-(-size_bytes // SPARE_STEP_BYTES) * SPARE_STEP_BYTES)
        self._buffers.insert(0, made)
        while len(self._buffers) > SPARES_MAX or self.kept_bytes > SPARES_BYTES_MAX:
            self._buffers.pop()
        return memoryview(made)[:size_bytes]

    @property
    def kept_bytes(self) -> int:
        return sum(map(len, self._buffers))


def _is_free(buffer: bytearray) -> bool:
    try:
        last = buffer.pop()
    except BufferError:
        return False
    buffer.append(last)
    return True


class FrameReader:
    """Owned by one connection. ``window`` is where the next bytes go; tell it what came."""

    __slots__ = ("_breach", "_filled", "_frame", "_limit_bytes", "_scratch", "_spares")

    def __init__(self, limit_bytes: int) -> None:
        assert limit_bytes > 0
        self._limit_bytes = limit_bytes
        self._scratch = memoryview(bytearray(SCRATCH_BYTES))
        # The frame under way, and how much of it (or of the scratch) is filled.
        self._frame: memoryview | None = None
        self._filled = 0
        self._spares = Spares()
        # What is wrong with the length behind the frames that were returned last.
        self._breach: RemoteProtocolError | None = None

    def window(self) -> memoryview:
        """The free place; never empty."""
        if self._frame is not None:
            return self._frame[self._filled :]
        return self._scratch[self._filled :]

    @property
    def left_bytes(self) -> int:
        """Of the large frame under way, that much is to come; 0 if there is none."""
        return 0 if self._frame is None else len(self._frame) - self._filled

    def received(self, count: int) -> list[memoryview]:
        """That many bytes were written into the window; return the frames they complete.

        A frame is read-only by contract and stays valid as long as somebody holds it. Whoever has
        taken them calls ``check``."""
        assert count > 0
        assert self._breach is None
        self._filled += count
        if self._frame is None:
            return self._cut_scratch()
        if self._filled < len(self._frame):
            return []
        frame, self._frame, self._filled = self._frame, None, 0
        return [frame]

    def check(self) -> None:
        """Raise RemoteProtocolError if a length that cannot be came behind the frames that were
        returned, FrameTooLarge for one that may not; there is no way to what is behind it.

        Theirs first: whose this one is, is told by what is answered then."""
        if self._breach is not None:
            raise self._breach

    def _cut_scratch(self) -> list[memoryview]:
        frames: list[memoryview] = []
        start, end = 0, self._filled
        while end - start >= LENGTH_BYTES:
            size_bytes = int.from_bytes(self._scratch[start : start + LENGTH_BYTES], signed=True)
            if size_bytes <= 0:
                self._breach = RemoteProtocolError(f"a frame of {size_bytes} bytes")
                return frames
            if size_bytes > self._limit_bytes:
                self._breach = FrameTooLarge(size_bytes, self._limit_bytes)
                return frames
            start += LENGTH_BYTES
            if end - start < size_bytes:
                self._frame = self._spares.take(size_bytes)
                self._frame[: end - start] = self._scratch[start:end]
                self._filled = end - start
                return frames
            frames.append(memoryview(bytes(self._scratch[start : start + size_bytes])))
            start += size_bytes
        # At most three bytes of a length are left.
        rest = bytes(self._scratch[start:end])
        self._scratch[: len(rest)] = rest
        self._filled = len(rest)
        return frames
