"""Asks producers about open half messages (`TransactionalMessageServiceImpl.check`).

Progress is kept as the committed offsets of one group in the half and op topics, where Java looks
for it too. A pass walks the half messages from there: those an op message ends are done, those
too young end the pass, the rest go back to the end of their queue and their producer is asked.
"""

from __future__ import annotations

import itertools
import logging
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field

from mqclient.wire.codes import RequestCode
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
    """The thread that makes a pass every transactionCheckInterval."""

    def __init__(self, broker: BrokerContext) -> None:
        self._broker = broker
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="transaction-check", daemon=True)
        self._turn = itertools.count()

    def start(self) -> None:
        """Begin; the first pass comes after one interval."""
        self._thread.start()

    def stop(self) -> None:
        """End after the message in hand."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        while not self._stopping.wait(self._broker.settings.transaction_check_interval / 1000):
            # After a failure the next pass begins where this one did.
            with self._broker.services.round(self._thread.name):
                self.run_once()

    def run_once(self) -> None:
        """One pass over the half messages."""
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
        """CHECK_TRANSACTION_STATE (39) to one producer of the half message's group."""
        broker = self._broker
        record = broker.store.get_at(offset)
        if record is None:
            return
        half = decode_messages(record)[0]
        group = half.properties.get("PGROUP", "")
        host, _, port = half.store_host.rpartition(":")
        header = CheckTransactionStateRequestHeader(
            tran_state_table_offset=half.queue_offset,
            commit_log_offset=offset,
            msg_id=half.properties.get("UNIQ_KEY"),
            transaction_id=half.properties.get("UNIQ_KEY"),
            offset_msg_id=offset_msg_id(host.strip("[]"), int(port), offset),
        )
        fields, body = header.to_fields(), writing.real_record(record, half)
        members = broker.producers.members(group)
        for _ in range(min(CHANNEL_TRIES, len(members))):
            member = members[next(self._turn) % len(members)]
            code = int(RequestCode.CHECK_TRANSACTION_STATE)
            if broker.relay.tell(member.connection, code, fields, body):
                return
        log.warning("no producer of group %s is online to be asked about %d", group, offset)


def _progress(broker: BrokerContext, topic: str) -> int:
    """Where the last pass ended, within what the queue still has."""
    store = broker.store
    first, end = store.min_offset(topic, QUEUE), store.max_offset(topic, QUEUE)
    committed = store.committed(GROUP, topic, QUEUE)
    return first if committed is None else min(max(committed, first), end)


@dataclass(slots=True)
class _Pass:
    """One walk over the half messages.

    started_ms: wall clock; messages stored later wait for the next pass. ended: queue offset of
    each half message with an op message ahead of the walk, to the op message's. done: op
    messages that are used up. to_ask: physical offset of the half message just put back.
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
        """Take in the next op messages."""
        found = self._get(names.OP_HALF_TOPIC, self._next_op, OPS_AT_ONCE)
        self._last_op_born_ms = None
        self._next_op = found.next_begin_offset
        for op in decode_messages(found.body):
            self._last_op_born_ms = op.born_timestamp_ms
            offset = op.body.decode("utf-8", "replace")
            if op.tags != writing.DONE_TAG or not offset.isdecimal():
                log.error("op message %d is none: %r", op.queue_offset, offset)
                self.done.add(op.queue_offset)
            elif int(offset) < self.half_start:
                self.done.add(op.queue_offset)
            else:
                self.ended[int(offset)] = op.queue_offset

    def step(self) -> bool:
        """Look at the next half message; False at the end of the pass."""
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
        """Keep how far the pass came."""
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
        """Over half messages that are gone, once."""
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
        # RocketMQ counts whenever it looks: also at one that is too old, or spared below.
        counted = {} if is_asked_enough else {_TIMES: str(times + 1)}
        if is_asked_enough or age_ms > settings.file_reserved_time * 3_600_000:
            writing.put_given_up(broker, half, counted)
            log.warning("half message %d was never ended; kept in %s", half.queue_offset,
                        names.CHECK_MAX_TIME_TOPIC)  # fmt: skip
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
                return False  # RocketMQ would spin until it is old enough
            self.read_ops()  # one further on may end it; without any, its age decides
            return True
        result = writing.put_back(broker, half, counted)
        if result.status != "PUT_OK":
            return False
        self.to_ask = result.physical_offset
        self._at += 1
        return True

    def _spare(self, half: ReceivedMessage, counted: Mapping[str, str]) -> bool:
        """A half message too young by its own word goes to the end of the queue.

        It remembers its first offset there: that is what its op message names. So one that wants
        to be spared for longer than all its checks take is given up unasked, as in RocketMQ.
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
