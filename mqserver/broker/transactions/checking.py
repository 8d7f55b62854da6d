"""Asks producers about unfinished half messages (`TransactionalMessageServiceImpl.check`).

The progress is stored as committed offsets of one group in the half and op topics, where RocketMQ
looks for it too. A pass reads the half messages from that offset to the end that the queue has when
the pass begins:

- a half message whose transaction is ended, or that was stored again, is done
- a half message that is too young ends the pass
- any other half message is stored again at the end of its queue, and its producer is asked
- one that cannot be handled is set aside

The pass saves its progress repeatedly, each time after a flush of the records it stored.
"""

from __future__ import annotations

import itertools
import logging
import threading

from msgspec import Struct

from mqcommon import names
from mqcommon.message import ReceivedMessage, decode_messages, offset_msg_id
from mqcommon.wire.codes import RequestCode
from mqcommon.wire.frame import request_frame
from mqcommon.wire.headers.send import CheckTransactionStateRequestHeader
from mqserver.broker.context import BrokerContext
from mqserver.broker.transactions import known, writing
from mqserver.broker.transactions.known import GROUP, progress
from mqserver.broker.transactions.writing import QUEUE, described

log = logging.getLogger("mqserver.broker.transactions")

PASS_SECONDS_MAX = 60
SAVE_AFTER = 1_000
"""Half messages that a pass stores between two saves of its progress."""
CHANNEL_TRIES = 3
_IMMUNITY = "CHECK_IMMUNITY_TIME_IN_SECONDS"
_FIRST_OFFSET = "TRAN_PREPARED_QUEUE_OFFSET"


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
        with self._broker.services.round(self._thread.name):
            known.load(self._broker)
        while not self._stopping.wait(self._broker.settings.transaction_check_interval / 1000):
            # After a failure the next pass starts where this one saved its progress.
            with self._broker.services.round(self._thread.name):
                self.run_once()

    def run_once(self) -> None:
        """Make one pass over the half messages."""
        broker = self._broker
        broker.topics.ensure(names.HALF_TOPIC, 1)
        known.load(broker)
        start = progress(broker, names.HALF_TOPIC)
        end = broker.store.max_offset(names.HALF_TOPIC, QUEUE)
        walk = _Pass(broker, broker.monotonic() + PASS_SECONDS_MAX, end, start, start)
        try:
            while not self._stopping.is_set() and walk.step():
                if walk.to_ask is not None:
                    self._ask(walk.to_ask)
                if walk.stored >= SAVE_AFTER:
                    walk.save()
        finally:
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
                "the message with keys %r and id %s in %s is no half message, so no producer is "
                "asked about it", half.properties.get("KEYS"), half.msg_id, names.HALF_TOPIC,
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
                self._note_question(half, group)
                return
        trouble = "takes questions now" if members else "is online"
        log.warning("no producer of group %s %s; the next pass asks again about the %s",
                    group, trouble, described(half))  # fmt: skip

    def _note_question(self, half: ReceivedMessage, group: str) -> None:
        """Name a half message once, when its first question was not answered."""
        if self._broker.copies.note_question(writing.number_of(half)) == 2:
            log.warning("a producer of group %s was asked about the %s, and has neither committed "
                        "nor rolled back; the broker asks up to transactionCheckMax=%d times",
                        group, described(half),
                        self._broker.settings.transaction_check_max)  # fmt: skip


class _Pass(Struct):
    """One pass over the half messages.

    until: monotonic seconds at which the pass ends. end: half messages from this queue offset on
    wait for the next pass. saved: the progress that is saved. to_ask: physical offset of the half
    message to ask about after the step. stored: messages stored since the last save.
    """

    broker: BrokerContext
    until: float
    end: int
    at: int
    saved: int
    to_ask: int | None = None
    stored: int = 0

    def step(self) -> bool:
        """Process the next half message; False at the end of the pass."""
        self.to_ask = None
        broker, at = self.broker, self.at
        if at >= self.end or broker.monotonic() > self.until:
            return False
        number = broker.copies.number(at)
        newest = broker.copies.newest(number)
        if newest is not None and newest > at:
            self.at += 1
            return True
        if broker.store.is_ended(number):
            return self._is_done(number)
        found = broker.store.get(names.HALF_TOPIC, QUEUE, at, 1)
        if not found.message_count:
            return self._jump(found.next_begin_offset)
        broker.stats.got(names.HALF_TOPIC, GROUP, found.message_count, len(found.body))
        half = decode_messages(found.body)[0]
        if half.queue_offset > at:
            return self._jump(half.queue_offset)
        try:
            return self._look_at(half, number)
        except Exception:
            log.exception("the check of a %s failed", described(half))
            return self._set_aside(half, number, "its check failed")

    def save(self) -> None:
        """Commit the offsets that the pass has reached, after the records it stored are durable."""
        store = self.broker.store
        if self.stored:
            store.flush()
            self.stored = 0
        if self.at != self.saved:
            store.commit(GROUP, names.HALF_TOPIC, QUEUE, self.at)
            self.saved = self.at
        self._save_ops()

    def _save_ops(self) -> None:
        """Commit past the op messages that no later start needs to find ended transactions."""
        broker = self.broker
        start = at = progress(broker, names.OP_HALF_TOPIC)
        for op in known.messages(broker, names.OP_HALF_TOPIC, start):
            target = known.op_target(op)
            if target is None:
                log.error(
                    "skipped op message %d: its body %r is not the offset of a half message",
                    op.queue_offset,
                    op.body,
                )
            elif target >= self.at or broker.copies.is_open(target):
                break
            at = op.queue_offset + 1
        if at != start:
            broker.store.commit(GROUP, names.OP_HALF_TOPIC, QUEUE, at)

    def _jump(self, offset: int) -> bool:
        """Skip half messages that are deleted."""
        if offset <= self.at:
            return False
        open_ones = sum(not self.broker.store.is_ended(n) for n in range(self.at, offset))
        log.warning(
            "%d half messages were deleted with old files of the log, %d of them without a known "
            "end", offset - self.at, open_ones,
        )  # fmt: skip
        self.at = offset
        return True

    def _is_done(self, number: int) -> bool:
        self.broker.copies.forget(number)
        self.at += 1
        return True

    def _look_at(self, half: ReceivedMessage, number: int) -> bool:
        """Decide about one half message."""
        broker, settings = self.broker, self.broker.settings
        age_ms = broker.now_ms() - half.born_timestamp_ms
        times = writing.checks_of(half)
        is_asked_enough = times >= settings.transaction_check_max
        # RocketMQ counts every look, also at a message that is too old or spared below.
        next_times = times if is_asked_enough else times + 1
        if is_asked_enough or age_ms > settings.file_reserved_time * 3_600_000:
            return self._give_up(half, number, next_times)
        own_s = _number(half, _IMMUNITY, -1)
        immunity_ms = own_s * 1000 if own_s >= 0 else settings.transaction_time_out
        # A message that was born in the future is asked about at once, as in RocketMQ.
        is_young = 0 <= age_ms <= immunity_ms
        if is_young and _IMMUNITY not in half.properties:
            return False
        # A message with an immunity of its own goes to the end of the queue, and does not hold up
        # others. Each move counts as a check, as in RocketMQ.
        first = {_FIRST_OFFSET: str(number)} if _IMMUNITY in half.properties else {}
        result = writing.put_back(broker, half, next_times, first)
        if result.status not in writing.STORED:
            return self._not_stored(half, number, result.status)
        self.stored += 1
        self.at += 1
        if not (_IMMUNITY in half.properties and age_ms < immunity_ms):
            self.to_ask = result.physical_offset
        return True

    def _give_up(self, half: ReceivedMessage, number: int, times: int) -> bool:
        result = writing.put_given_up(self.broker, half, times)
        if result.status not in writing.STORED:
            return self._not_stored(half, number, result.status)
        log.warning("gave up on the %s, which its producer never committed or rolled back; the "
                    "message is kept in %s",
                    described(half), names.CHECK_MAX_TIME_TOPIC)  # fmt: skip
        self.stored += 1
        return self._is_done(number)

    def _not_stored(self, half: ReceivedMessage, number: int, status: str) -> bool:
        """Wait for the next pass if a later put may succeed; set the message aside otherwise."""
        if status in writing.NOT_NOW:
            log.warning("checks of half messages pause until the next pass: the store answers %s "
                        "for a %s", status, described(half))  # fmt: skip
            return False
        return self._set_aside(half, number, f"the store answers {status}")

    def _set_aside(self, half: ReceivedMessage, number: int, why: str) -> bool:
        """Skip a message that cannot be handled; its producer is asked a last time."""
        result = writing.put_given_up(self.broker, half, writing.checks_of(half))
        is_kept = result.status in writing.STORED
        if result.status in writing.NOT_NOW:
            return False
        self.broker.copies.set_aside += 1
        log.error("set aside the %s: %s; its producer is asked a last time, and the message is %s",
                  described(half), why,
                  f"kept in {names.CHECK_MAX_TIME_TOPIC}" if is_kept else "left where it is",
                  )  # fmt: skip
        self.stored += is_kept
        self.to_ask = half.commit_log_offset
        return self._is_done(number)


def _number(half: ReceivedMessage, name: str, default: int) -> int:
    try:
        return int(half.properties.get(name, default))
    except ValueError:
        return default
