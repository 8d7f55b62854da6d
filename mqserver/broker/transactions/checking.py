"""Asks producers about unfinished half messages (`TransactionalMessageServiceImpl.check`).

The progress is stored as committed offsets of one group in the half and op topics, where RocketMQ
looks for it too. A pass reads the half messages from that offset:

- a half message that an op message ends is done
- a half message that is too young ends the pass
- any other half message is stored again at the end of its queue, and its producer is asked
"""

from __future__ import annotations

import itertools
import logging
import threading
from collections.abc import Mapping

from msgspec import Struct, field

from mqclient.wire.codes import RequestCode
from mqclient.wire.frame import request_frame
from mqclient.wire.headers.send import CheckTransactionStateRequestHeader
from mqserver.broker.context import BrokerContext
from mqserver.broker.transactions import writing
from mqstore import GetResult, ReceivedMessage, decode_messages, names, offset_msg_id

log = logging.getLogger("mqserver.broker.transactions")

GROUP = names.TRANSACTION_GROUP
QUEUE = 0
"""Half messages have one queue."""
OPS_AT_ONCE = 32
PASS_MS_MAX = 60_000
CHANNEL_TRIES = 3
_IMMUNITY = "CHECK_IMMUNITY_TIME_IN_SECONDS"
_FIRST_OFFSET = "TRAN_PREPARED_QUEUE_OFFSET"
_TIMES = "TRANSACTION_CHECK_TIMES"


class Checks:
    """The thread that makes a pass every `transactionCheckInterval`."""

    def __init__(self, broker: BrokerContext) -> None:
        self._broker = broker
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="transaction-check", daemon=True)
        self._turn = itertools.count()

    def start(self) -> None:
        """Start the thread; the first pass comes after one interval."""
        self._thread.start()

    def stop(self) -> None:
        """End the thread after the message that it is checking."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while not self._stopping.wait(self._broker.settings.transaction_check_interval / 1000):
            # After a failure the next pass starts where this one started.
            with self._broker.services.round(self._thread.name):
                self.run_once()

    def run_once(self) -> None:
        """Make one pass over the half messages."""
        broker = self._broker
        broker.topics.ensure(names.HALF_TOPIC, 1)
        walk = _Pass(
            broker,
            broker.now_ms(),
            _progress(broker, names.HALF_TOPIC),
            _progress(broker, names.OP_HALF_TOPIC),
        )
        walk.read_ops()
        while not self._stopping.is_set() and walk.step():
            if walk.to_ask is not None:
                self._ask(walk.to_ask)
        walk.save()

    def _ask(self, offset: int) -> None:
        """Send CHECK_TRANSACTION_STATE (39) to one producer of the half message's group."""
        broker = self._broker
        record = broker.store.get_at(offset)
        if record is None:
            return
        half = decode_messages(record)[0]
        if not writing.is_half(half):
            log.warning(
                "the message at log offset %d in %s is no half message, so no producer is asked "
                "about it", offset, names.HALF_TOPIC,
            )  # fmt: skip
            return
        group = half.properties.get("PGROUP", "")
        host, _, port = half.store_host.rpartition(":")
        header = CheckTransactionStateRequestHeader(
            tran_state_table_offset=half.queue_offset,
            commit_log_offset=offset,
            msg_id=half.properties.get("UNIQ_KEY"),
            transaction_id=half.properties.get("UNIQ_KEY"),
            offset_msg_id=offset_msg_id(host.strip("[]"), int(port), offset),
        )
        body = writing.real_record(record, half)
        request = request_frame(RequestCode.CHECK_TRANSACTION_STATE, header, body)
        members = broker.producers.members(group)
        for _ in range(min(CHANNEL_TRIES, len(members))):
            member = members[next(self._turn) % len(members)]
            if broker.relay.tell(member.connection, request):
                return
        log.warning(
            "no producer of group %s is online, so the half message at log offset %d stays "
            "unchecked until the next pass",
            group,
            offset,
        )


def _progress(broker: BrokerContext, topic: str) -> int:
    """The offset at which the last pass ended, limited to the offsets that the queue has."""
    store = broker.store
    first, end = store.min_offset(topic, QUEUE), store.max_offset(topic, QUEUE)
    committed = store.committed(GROUP, topic, QUEUE)
    return first if committed is None else min(max(committed, first), end)


class _Pass(Struct):
    """One pass over the half messages.

    started_ms: wall clock; messages stored later wait for the next pass. ended: maps the queue
    offset of each half message that the pass has not reached to that of the op message that ends
    it. done: queue offsets of op messages that are not needed any more. to_ask: physical offset of
    the half message that was just stored again.
    """

    broker: BrokerContext
    started_ms: int
    half_start: int
    op_start: int
    ended: dict[int, int] = field(default_factory=dict)
    done: set[int] = field(default_factory=set)
    to_ask: int | None = None
    _at: int = 0
    _next_op: int = 0
    _last_op_born_ms: int | None = None
    _was_empty: bool = False

    def __post_init__(self) -> None:
        self._at = self.half_start
        self._next_op = self.op_start

    def read_ops(self) -> None:
        """Read the next op messages."""
        found = self._get(names.OP_HALF_TOPIC, self._next_op, OPS_AT_ONCE)
        self._last_op_born_ms = None
        self._next_op = found.next_begin_offset
        for op in decode_messages(found.body):
            self._last_op_born_ms = op.born_timestamp_ms
            offset = op.body.decode("utf-8", "replace")
            if op.tags != writing.DONE_TAG or not offset.isdecimal():
                log.error(
                    "skipped op message %d: its body %r is not the offset of a half message",
                    op.queue_offset,
                    offset,
                )
                self.done.add(op.queue_offset)
            elif int(offset) < self.half_start:
                self.done.add(op.queue_offset)
            else:
                self.ended[int(offset)] = op.queue_offset

    def step(self) -> bool:
        """Process the next half message; False at the end of the pass."""
        self.to_ask = None
        broker = self.broker
        if broker.now_ms() - self.started_ms > PASS_MS_MAX:
            return False
        if self._at in self.ended:
            self.done.add(self.ended.pop(self._at))
            self._at += 1
            return True
        found = self._get(names.HALF_TOPIC, self._at, 1)
        if not found.message_count:
            return self._jump(found)
        return self._look_at(decode_messages(found.body)[0])

    def save(self) -> None:
        """Commit the offsets that the pass has reached."""
        commit = self.broker.store.commit
        if self._at != self.half_start:
            commit(GROUP, names.HALF_TOPIC, QUEUE, self._at)
        op_offset = self.op_start
        while op_offset in self.done:
            op_offset += 1
        if op_offset != self.op_start:
            commit(GROUP, names.OP_HALF_TOPIC, QUEUE, op_offset)

    def _get(self, topic: str, offset: int, count: int) -> GetResult:
        found = self.broker.store.get(topic, QUEUE, offset, count)
        if found.message_count:
            self.broker.stats.got(topic, GROUP, found.message_count, len(found.body))
        return found

    def _jump(self, found: GetResult) -> bool:
        """Skip half messages that are deleted, once per pass."""
        is_end = found.status in ("OFFSET_OVERFLOW_ONE", "NO_MESSAGE_IN_QUEUE")
        if self._was_empty or is_end or found.next_begin_offset <= self._at:
            return False
        self._was_empty = True
        self._at = found.next_begin_offset
        return True

    def _look_at(self, half: ReceivedMessage) -> bool:
        """Decide about one half message."""
        broker, settings = self.broker, self.broker.settings
        age_ms = broker.now_ms() - half.born_timestamp_ms
        times = _number(half, _TIMES, 0)
        is_asked_enough = times >= settings.transaction_check_max
        # RocketMQ counts every look, also at a message that is too old or spared below.
        counted = {} if is_asked_enough else {_TIMES: str(times + 1)}
        if is_asked_enough or age_ms > settings.file_reserved_time * 3_600_000:
            writing.put_given_up(broker, half, counted)
            log.warning("gave up on half message %d, which its producer never committed or rolled "
                        "back; the message is kept in %s",
                        half.queue_offset, names.CHECK_MAX_TIME_TOPIC)  # fmt: skip
            self._at += 1
            return True
        if half.store_timestamp_ms >= self.started_ms:
            return False
        own_s = _number(half, _IMMUNITY, -1)
        immunity_ms = own_s * 1000 if own_s >= 0 else settings.transaction_time_out
        if _IMMUNITY in half.properties:
            if age_ms < immunity_ms and self._spare(half, counted):
                self._at += 1
                return True
        elif 0 <= age_ms < immunity_ms:
            return False
        last_op_ms = self._last_op_born_ms
        is_due = age_ms > immunity_ms if last_op_ms is None else (
            last_op_ms - self.started_ms > settings.transaction_time_out
        )  # fmt: skip
        if not is_due and age_ms > -1:
            if last_op_ms is None:
                return False  # RocketMQ would spin until the message is old enough
            self.read_ops()  # a later op message may end it; if there is none, its age decides
            return True
        result = writing.put_back(broker, half, counted)
        if result.status != "PUT_OK":
            return False
        self.to_ask = result.physical_offset
        self._at += 1
        return True

    def _spare(self, half: ReceivedMessage, counted: Mapping[str, str]) -> bool:
        """Move a half message that is younger than its own immunity to the end of the queue.

        The moved message keeps its first offset in a property, because its op message names that
        offset. Each move counts as a check. So the broker gives up on a message with a very long
        immunity without asking its producer, as RocketMQ does.
        """
        first = _number(half, _FIRST_OFFSET, half.queue_offset)
        if _FIRST_OFFSET in half.properties and first == -1:
            return False
        if _FIRST_OFFSET in half.properties and first in self.ended:
            self.done.add(self.ended.pop(first))
            return True
        changes = {**counted, _FIRST_OFFSET: str(first), "WAIT": "false"}
        return writing.put_back(self.broker, half, changes).status == "PUT_OK"


def _number(half: ReceivedMessage, name: str, default: int) -> int:
    try:
        return int(half.properties.get(name, default))
    except ValueError:
        return default
