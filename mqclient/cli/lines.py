"""Reads lines of standard input as soon as they arrive."""

import asyncio
import contextlib
import io
import os
import sys
import threading
from collections.abc import AsyncIterator, Callable

from mqclient.settings.producers import BODY_BYTES_MAX

__all__ = ["Lines"]

CHUNK_BYTES = 64 * 1024
AHEAD = 2
"""Most chunks that are read ahead."""


class Lines:
    """Reads in a thread, because a terminal, a pipe and a file must all do.

    The thread may sit in a read for ever, so it is a daemon, and it reads the file descriptor
    itself: the interpreter cannot end while a thread holds the lock of `sys.stdin`.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._chunks: asyncio.Queue[list[bytes] | Exception | None] = asyncio.Queue()
        self._room = threading.Semaphore(AHEAD)
        threading.Thread(target=self._read, name="mqclient-stdin", daemon=True).start()

    def stop(self) -> None:
        """End the iteration after the lines already read; call it on the loop's thread."""
        self._chunks.put_nowait(None)

    async def batches(self) -> AsyncIterator[list[bytes]]:
        """Batches of all lines that are available, without line ends and empty lines."""
        while (chunk := await self._chunks.get()) is not None:
            if isinstance(chunk, Exception):
                raise chunk
            self._room.release()
            yield chunk

    def _read(self) -> None:
        rest = b""
        try:
            read = _reader()
            while self._room.acquire() and (chunk := read(CHUNK_BYTES)):
                *lines, rest = (rest + chunk).split(b"\n")
                if len(rest) > BODY_BYTES_MAX:
                    raise ValueError(
                        f"a line of standard input is longer than {BODY_BYTES_MAX} bytes, the most "
                        "that a message may have; end the line earlier"
                    )
                self._give(_bodies(lines))
            self._give(_bodies([rest]))
            self._give(None)
        except (OSError, ValueError) as error:
            self._give(error)

    def _give(self, what: list[bytes] | Exception | None) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: no reader is left
            self._loop.call_soon_threadsafe(self._chunks.put_nowait, what)


def _reader() -> Callable[[int], bytes]:
    """Return a function that reads up to `size` bytes once any are there; b"" at the end."""
    buffer = sys.stdin.buffer
    try:
        descriptor = buffer.fileno()
    except io.UnsupportedOperation:  # no file: bytes in memory
        return buffer.read
    return lambda size: os.read(descriptor, size)


def _bodies(lines: list[bytes]) -> list[bytes]:
    stripped = (line.rstrip(b"\r\n") for line in lines)
    return [line for line in stripped if line]
