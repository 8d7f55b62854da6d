"""Measures the machine's current speed, to relate figures to it: memory, CPU, disk, loopback."""

from __future__ import annotations

import os
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

COPIED_BYTES = 16 << 20
COUNTED = 200_000
FLUSHED_BYTES = 1_280
"""About the size of a 1 KiB message's record."""
FLUSH_FILE_BYTES = 16 << 20
FLUSHES = 200
ROUND_TRIPS = 2_000
STREAMED = 10_000
IN_FLIGHT = 64
ECHO_START_SECONDS_MAX = 10.0


def memcpy_s() -> float:
    """Seconds to copy 16 MiB in memory, which is more than the inner CPU caches hold."""
    source, target = _COPIED
    started = time.perf_counter()
    target[:] = source
    return time.perf_counter() - started


def cpu_s(count: int = COUNTED) -> float:
    """Seconds of a loop of `count` steps in the interpreter."""
    total = 0
    started = time.perf_counter()
    for number in range(count):
        total += number & 7
    return time.perf_counter() - started


def work_s() -> float:
    """Seconds of memory and CPU work, in equal parts on the machine of the baseline."""
    return sum(memcpy_s() for _ in range(4)) + cpu_s()


def fdatasync_s(folder: Path, flushes: int = FLUSHES) -> float:
    """Median seconds to write a record into a preallocated file and to flush it."""
    with disk(folder) as file:
        return statistics.median(file.flush_s() for _ in range(flushes))


class Disk:
    """A preallocated file, so that a flush of a record does not write the journal."""

    def __init__(self, file: int) -> None:
        self._file = file
        self._at = 0

    def flush_s(self) -> float:
        """Seconds to write a record after the last one and to flush it."""
        started = time.perf_counter()
        os.pwrite(self._file, _RECORD, self._at)
        os.fdatasync(self._file)
        taken = time.perf_counter() - started
        self._at += FLUSHED_BYTES
        if self._at > FLUSH_FILE_BYTES - FLUSHED_BYTES:
            self._at = 0
        return taken

    def flushes_s(self, count: int) -> float:
        """Seconds of `count` flushes in a row, including slow ones."""
        return sum(self.flush_s() for _ in range(count))


@contextmanager
def disk(folder: Path) -> Iterator[Disk]:
    """The disk's calibration for the time of the block.

    The file exists for the whole block, because creating and deleting it would disturb.
    """
    path = folder / "calibrate.tmp"
    file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        os.write(file, bytes(FLUSH_FILE_BYTES))
        os.fsync(file)
        yield Disk(file)
    finally:
        os.close(file)
        path.unlink()


class Echo:
    """A loopback connection to a process that echoes everything."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection

    def round_trip_s(self, count: int = ROUND_TRIPS) -> float:
        """Seconds of `count` round trips of a record, one after the other."""
        started = time.perf_counter()
        for _ in range(count):
            self._connection.sendall(_RECORD)
            _receive(self._connection, FLUSHED_BYTES)
        return time.perf_counter() - started

    def stream_s(self, count: int = STREAMED) -> float:
        """Seconds until `count` records came back, with `IN_FLIGHT` records in flight."""
        left, unsent = count * FLUSHED_BYTES, (count - IN_FLIGHT) * FLUSHED_BYTES
        started = time.perf_counter()
        self._connection.sendall(_RECORDS[: min(count, IN_FLIGHT) * FLUSHED_BYTES])
        while left > 0:
            received = len(self._connection.recv(1 << 16))
            if not received:
                raise ConnectionError("the echo process has ended")
            left -= received
            if unsent > 0:
                self._connection.sendall(_RECORDS[: min(received, unsent)])
                unsent -= received
        return time.perf_counter() - started


@contextmanager
def echo() -> Iterator[Echo]:
    """The loopback calibration for the time of the block."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(ECHO_START_SECONDS_MAX)
        port = str(listener.getsockname()[1])
        child = subprocess.Popen([sys.executable, __file__, port])
        try:
            connection, _ = listener.accept()
            with connection:
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                yield Echo(connection)
        finally:
            child.wait(ECHO_START_SECONDS_MAX)


def _echo(port: int) -> None:
    """Run the echo process: send everything back until the connection is closed."""
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while received := connection.recv(1 << 16):
            connection.sendall(received)


def _receive(connection: socket.socket, size: int) -> None:
    while size > 0:
        received = connection.recv(size)
        if not received:
            raise ConnectionError("the echo process has ended")
        size -= len(received)


_RECORD = bytes(FLUSHED_BYTES)
_RECORDS = memoryview(_RECORD * IN_FLIGHT)
_COPIED = bytes(COPIED_BYTES), bytearray(COPIED_BYTES)


if __name__ == "__main__":
    _echo(int(sys.argv[1]))
