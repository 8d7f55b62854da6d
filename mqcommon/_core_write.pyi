"""The part of `mqcommon._core` that sends rows of Arrow columns to brokers.

There is no module of this name: `_core.pyi` re-exports all of it.
"""

from collections.abc import Callable, Mapping
from typing import Any, Self, final

_Routes = Callable[[str, bool], list[tuple[str, str, int]]]
_Stored = tuple[list[tuple[int, int]], str, str, int, int]

class SendFailed(Exception):
    """A send of rows failed for good, or until the retries ran out.

    args: category, broker's name, its address as connected, code, text. The category is "refused",
    with the broker's code and remark, or a category of `Connector.drain`, with code 0.
    """

@final
class RowWriter:
    """Writes rows as messages: at least once, in batches, many in flight; see mq_client::write.

    One task at a time, from one thread. Connections stay open from task to task. Every call
    raises RuntimeError in a forked child and after `close`.

    settings: see `Connector`. plan: a mapping of group; topic for rows without one, or None;
    request_timeout and retry_timeout in seconds; message_bytes_max; rate in messages per second, or
    None; reserved, names of properties that rows must not set; first_queue, the queue at which the
    round robin starts. routes: called in the thread of `write` and `finish` with a topic and
    whether a send to it failed; returns the writable queues in RocketMQ's order: broker name,
    address to connect to, queue id.
    """

    def __new__(
        cls, settings: dict[str, Any], plan: Mapping[str, Any], routes: _Routes
    ) -> Self: ...
    def start(self, row_id: str, id_prefix: str, month_ms: int) -> None:
        """Start a task; unfinished rows of an earlier task are dropped.

        row_id: the part of the property `sparkRowId` before the row number. id_prefix, month_ms:
        see `mqcommon.message.unique_id_origin`.
        """
    def write(self, rows: int, columns: dict[str, tuple[Any, ...]]) -> list[_Stored]:
        """Add rows; waits until there is room for more. Returns the rows stored since the last
        call.

        columns: by name, with their buffers in Arrow's layout; the validity is None without nulls:
        - body, topic, tags, order_key: (offset, length, validity, ends, values);
        - flag, delay_level: (offset, length, validity, values);
        - keys: as tags, or lists: (offset, length, validity, ends, items as tags);
        - properties: (offset, length, validity, ends, names as tags, values as tags).

        Each stored part is (runs of rows as first and count, topic, broker name, queue id, queue
        offset of the first row). Raises ValueError for a row that cannot be a message, SendFailed,
        and the errors of `routes`; after an error only `progress` and `start` may be called.
        """
    def finish(self) -> list[_Stored]:
        """Wait until every row is stored. Returns and raises as `write` does."""
    def progress(self) -> tuple[int, int, int]:
        """Rows added, rows stored, and the first row that is not stored."""
    def close(self, timeout: float) -> None:
        """Close, and wait up to `timeout` seconds for the threads. May be called twice."""
