"""The part of `mqcommon._core` that reads and searches ranges of queues.

There is no module of this name: `_core.pyi` re-exports all of it.
"""

from collections.abc import Mapping
from typing import Any, Self, final

from mqcommon._core_offline import ColumnBuilder

class RangeFailed(Exception):
    """A range cannot be read on. `args` are kind, address, code, remark, text.

    kind: "unreachable" or "timeout" (no reply until the retries ran out), "refused" (the broker
    answered with `code` and `remark`), or "broken", "closed", "bad_frame", "busy" for others.
    address: "host:port" of the last request. remark: the failure alone. text: the failure with
    queue, address and offset.
    """

@final
class RangeReader:
    """Reads ranges of queues, one after another, with pulls of several ranges in flight.

    Joins no group, commits nothing. settings: as for `Connector`. Each plan is a mapping:
    - master, slave: "host:port" of the broker's master and slave; one of them may be None. The
      slave
      is used while the master fails, but its answers never count as data loss;
    - broker_name, topic, queue_id, group, and the offsets first and end;
    - tags: the list of wanted tags, or filter: an SQL92 condition; None for all messages;
    - pull_count: messages that one pull asks for, at most; pulls_in_flight;
    - waiting_bytes: most bytes of replies that wait for `fill`; one larger reply may exceed it;
    - timeout: seconds of one pull; retry_timeout: seconds for which a pull is retried after a
      transient failure.

    Raises ValueError for a field that is missing or outside its range. Starts one thread.
    """

    def __new__(cls, settings: dict[str, Any], plans: list[Mapping[str, Any]]) -> Self: ...
    def fill(
        self, builder: ColumnBuilder, rows: int, size_bytes: int
    ) -> tuple[bool, list[tuple[int, int, str]]]:
        """Add records of the first range to columns, until they have enough or the range ends.

        rows, size_bytes: what `builder` holds when it has enough; the last reply may exceed them.
        Returns whether the range ended, and its losses since the last call: offset, number of
        offsets, and reason. After the end of a range, the next range is the first.
        Waits without the GIL; pulls are sent while this runs. Raises RangeFailed, DecodeError for a
        body that cannot be decompressed, RuntimeError when closed or in a forked process.
        """

    def search(
        self, conditions: Conditions, *, timeout: float, size_bytes: int, messages: int
    ) -> tuple[bool, bytes, int, int, int | None, list[tuple[int, int, str]], int]:
        """Search the first range for at most `timeout` seconds, until `size_bytes` of records or
        `messages` are found, or until the range ends. Search no more after `messages` are found.

        Returns whether the range ended; the found records, as they are stored, and their number;
        the number of offsets searched, and the offset where the search continues, None if none was
        searched; the losses as `fill` returns them, with the bodies that cannot be decompressed;
        and the number of bodies that are not JSON. Raises RangeFailed, RuntimeError as `fill` does.
        """

    def close(self) -> None:
        """Close the connections and end the thread."""

@final
class Conditions:
    """Conditions on messages, all of which must hold.

    tags: the message has one of them. key: a regular expression in the syntax of Rust's crate
    `regex`, found in one of the keys. body: a text in the body. json: JSONPath (RFC 9535) that
    selects a value of the body, "$.items[?@.price > 100]", or a condition on the whole body,
    "@.order == 17"; a body that is not JSON does not match. Raises ValueError for an expression
    that cannot be parsed.
    """

    def __new__(
        cls,
        *,
        tags: set[str] | None = None,
        key: str | None = None,
        body: str | None = None,
        json: str | None = None,
    ) -> Self: ...
