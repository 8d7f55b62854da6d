"""The part of `mqcommon._core` with the results of store operations.

There is no module of this name: `_core.pyi` re-exports all of it.
"""

from typing import final

@final
class PutResult:
    """Position of a stored message or batch."""

    @property
    def status(self) -> str:
        """RocketMQ's name of the outcome, "PUT_OK" for success."""
    @property
    def physical_offset(self) -> int:
        """Physical offset of the first record; -1 if refused."""
    @property
    def size_bytes(self) -> int:
        """Size of all records together in bytes."""
    @property
    def queue_offset(self) -> int:
        """Queue offset of the first record."""
    @property
    def store_timestamp_ms(self) -> int:
        """When the store accepted the message, in milliseconds since the epoch."""
    @property
    def record_offsets(self) -> list[int]:
        """Physical offset of each record; a single message has one record."""

@final
class GetResult:
    """Result of a read of a queue."""

    @property
    def status(self) -> str:
        """RocketMQ's GetMessageStatus, "FOUND" when there are messages."""
    @property
    def next_begin_offset(self) -> int:
        """Queue offset for the next read."""
    @property
    def min_offset(self) -> int:
        """First readable offset of the queue."""
    @property
    def max_offset(self) -> int:
        """One past the last offset of the queue."""
    @property
    def message_count(self) -> int:
        """Messages in `body`."""
    @property
    def suggest_slave(self) -> bool:
        """Whether a slave should serve the reader, because it lags far behind."""
    @property
    def behind_bytes(self) -> int:
        """Bytes of the log after the last message that the read looked at; 0 if there was none."""
    @property
    def body(self) -> bytes:
        """Whole records one after another; see `decode_messages`."""

@final
class QueryResult:
    """Result of a query by key."""

    @property
    def message_count(self) -> int:
        """Messages in `body`."""
    @property
    def index_last_update_timestamp_ms(self) -> int:
        """End timestamp of the newest index file, milliseconds since the epoch."""
    @property
    def index_last_update_physical_offset(self) -> int:
        """End physical offset of the newest index file."""
    @property
    def body(self) -> bytes:
        """Whole records one after another; see `decode_messages`."""
