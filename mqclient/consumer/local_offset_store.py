"""Progress of a broadcasting consumer, kept in a file of its own or in memory.

A queue that disappears with its broker continues later at its offset. The file has the form of
RocketMQ's `LocalFileOffsetStore`: {"offsetTable": {queue: offset}}. It is replaced atomically, and
the copy before it stays in `{path}.bak`.
"""

import asyncio
import errno
import logging
import os
from collections.abc import Iterable

from mqclient.consumer.offset_store import MemoryOffsets
from mqclient.engine.threads import in_thread
from mqcommon.files import make_folders, read_own, replace
from mqcommon.message import MessageQueue
from mqcommon.wire.bodies.base import BodyError
from mqcommon.wire.bodies.offsets import OffsetSerializeWrapper

__all__ = ["LocalOffsets"]

log = logging.getLogger(__name__)
FILE_BYTES_MAX = 64 * 1024 * 1024


class LocalOffsets(MemoryOffsets):
    """Offsets that no broker knows. path: a file, which one consumer at a time uses; None keeps
    them in memory only."""

    def __init__(self, path: str | None) -> None:
        super().__init__()
        self._path = path
        self._stored: dict[MessageQueue, int] = {}
        self._writing = asyncio.Lock()

    async def load(self) -> None:
        """Read the file, or its previous copy; a missing file holds no offsets.

        Raises OSError if it cannot be read, ValueError if neither copy holds offsets.
        """
        if self._path is not None:
            self._stored = await in_thread(_load, self._path)

    async def fetch(self, queue: MessageQueue) -> int | None:
        """The last committed offset, None when there is none."""
        return self._stored.get(queue)

    async def commit(self, queues: Iterable[MessageQueue]) -> None:
        """Keep the offsets of these queues, and write them if they changed; a failure is logged."""
        self._catch_up()
        now = {queue: self._table[queue] for queue in queues if queue in self._table}
        async with self._writing:
            offsets = {**self._stored, **now}
            if offsets == self._stored:
                return
            if self._path is not None:
                try:
                    content = OffsetSerializeWrapper(offsets).to_json()
                    await in_thread(_save, self._path, content)
                except OSError as error:
                    log.warning("offsets are not saved yet: %s", error)
                    return
            self._stored = offsets

    async def commit_surely(self, queues: Iterable[MessageQueue]) -> bool:
        """Write the offsets of these queues. A failure is logged; False if there was one."""
        queues = list(queues)
        await self.commit(queues)
        return all(self._stored.get(queue) == self._table.get(queue) for queue in queues)


def _save(path: str, content: bytes) -> None:
    make_folders(os.path.dirname(path))
    replace(path, content, backup=True)


def _load(path: str) -> dict[MessageQueue, int]:
    if os.path.isdir(path):
        raise IsADirectoryError(errno.EISDIR, "offset_store is a folder; name a file in it", path)
    damage = ""
    for name in (path, path + ".bak"):
        try:
            content = read_own(name, FILE_BYTES_MAX)
        except FileNotFoundError:
            continue
        try:
            return OffsetSerializeWrapper.from_json(content).offset_table
        except BodyError as error:
            damage = damage or f"{name}: {error}"
            log.warning("%s does not hold offsets: %s", name, error)
    if damage:
        raise ValueError(
            f"offset_store is damaged: {damage}; remove it to start at consume_from again"
        )
    return {}
