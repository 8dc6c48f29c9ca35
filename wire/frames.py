"""Splits the bytes of a connection into frames, with at most one copy. Pure.

A frame is a length of four bytes and that many more. Small frames share a scratch buffer and are
copied out of it; a large one gets its own buffer as soon as its length is known, and the socket
reads directly into it, so fetched records are never copied. Buffers are reused once no view of them
is left: allocating fresh memory costs more than reading into it.
"""

from __future__ import annotations

from ottla.protocol.errors import RemoteProtocolError

SCRATCH_BYTES = 64 * 1024
LENGTH_BYTES = 4
# The buffers that a connection keeps: enough for a fetch in flight, one that waits and one being
# read.
SPARES_MAX = 4
SPARES_BYTES_MAX = 16 * 1024 * 1024
# Frames of one stream differ slightly in size.
SPARE_STEP_BYTES = 128 * 1024


class FrameTooLarge(RemoteProtocolError):
    """A frame length that is plausible but exceeds the limit."""

    def __init__(self, size_bytes: int, limit_bytes: int) -> None:
        super().__init__(f"a frame of {size_bytes} bytes, of {limit_bytes} that are allowed")
        self.size_bytes = size_bytes
        self.limit_bytes = limit_bytes


class Spares:
    """Reusable receive buffers. Readers do not return them: a bytearray refuses to be resized while
    a memoryview of it exists, which shows whether it is free."""

    __slots__ = ("_buffers",)

    def __init__(self) -> None:
        self._buffers: list[bytearray] = []

    def take(self, size_bytes: int) -> memoryview:
        """A view of a free or new buffer with that many bytes, whose content is undefined."""
        for index, buffer in enumerate(self._buffers):
            if len(buffer) >= size_bytes and _is_free(buffer):
                # The most recently used buffer is the likeliest to be in the processor's cache.
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
    """Splits one connection's bytes into frames. Owned by the connection, which reads into
    ``window`` and calls ``received``."""

    __slots__ = ("_filled", "_frame", "_limit_bytes", "_scratch", "_spares", "breach")

    def __init__(self, limit_bytes: int) -> None:
        assert limit_bytes > 0
        self._limit_bytes = limit_bytes
        self._scratch = memoryview(bytearray(SCRATCH_BYTES))
        # The incomplete large frame, and how much of it (or of the scratch) is filled.
        self._frame: memoryview | None = None
        self._filled = 0
        self._spares = Spares()
        # Set if the length after the returned frames is impossible, to FrameTooLarge if it exceeds
        # the limit: the stream cannot be read past it.
        self.breach: RemoteProtocolError | None = None

    def window(self) -> memoryview:
        """The free part of the buffer to read into; never empty."""
        if self._frame is not None:
            return self._frame[self._filled :]
        return self._scratch[self._filled :]

    @property
    def left_bytes(self) -> int:
        """Missing bytes of the incomplete large frame; 0 if there is none."""
        return 0 if self._frame is None else len(self._frame) - self._filled

    def received(self, count: int) -> list[memoryview]:
        """Account for ``count`` bytes written into the window; return the frames they complete.

        A frame is read-only by contract and stays valid as long as a view of it exists. After
        processing the frames the connection raises ``breach``, if there is one: only then is the
        oldest unanswered request the one that an oversized frame answers."""
        assert count > 0
        assert self.breach is None
        self._filled += count
        if self._frame is None:
            return self._cut_scratch()
        if self._filled < len(self._frame):
            return []
        frame, self._frame, self._filled = self._frame, None, 0
        return [frame]

    def _cut_scratch(self) -> list[memoryview]:
        frames: list[memoryview] = []
        start, end = 0, self._filled
        while end - start >= LENGTH_BYTES:
            size_bytes = int.from_bytes(self._scratch[start : start + LENGTH_BYTES], signed=True)
            if size_bytes <= 0:
                self.breach = RemoteProtocolError(f"a frame of {size_bytes} bytes")
                return frames
            if size_bytes > self._limit_bytes:
                self.breach = FrameTooLarge(size_bytes, self._limit_bytes)
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
