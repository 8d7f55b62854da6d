"""Finds out which transactions are ended, if the store does not remember their ends.

The store remembers the ends of its present run (`mq_store::Transactions`). After a start the op
messages from the saved progress on tell the others. A crash can cut a commit from its op message:
the index then finds the committed message by the client's id. Without an index
(`messageIndexEnable`) such a commit is not found, and is stored again as RocketMQ would.
"""

from __future__ import annotations

from collections.abc import Iterator

from mqcommon import names
from mqcommon.message import ReceivedMessage, decode_messages
from mqserver.broker.context import BrokerContext
from mqserver.broker.transactions import writing
from mqserver.broker.transactions.writing import QUEUE

GROUP = names.TRANSACTION_GROUP
READ_AT_ONCE = 32
_QUERY_MAX = 32


def progress(broker: BrokerContext, topic: str) -> int:
    """The offset at which the last pass ended, limited to the offsets that the queue has."""
    store = broker.store
    first, end = store.min_offset(topic, QUEUE), store.max_offset(topic, QUEUE)
    committed = store.committed(GROUP, topic, QUEUE)
    return first if committed is None else min(max(committed, first), end)


def messages(broker: BrokerContext, topic: str, start: int) -> Iterator[ReceivedMessage]:
    """The messages of the half or op queue from an offset on."""
    while True:
        found = broker.store.get(topic, QUEUE, start, READ_AT_ONCE)
        yield from decode_messages(found.body) if found.message_count else ()
        if found.next_begin_offset <= start:
            return
        start = found.next_begin_offset


def op_target(op: ReceivedMessage) -> int | None:
    """The queue offset of the half message that an op message ends, None if it names none."""
    text = op.body.decode("utf-8", "replace")
    return int(text) if op.tags == writing.DONE_TAG and text.isdecimal() else None


def load(broker: BrokerContext) -> None:
    """Read copies and ends of the runs before this one, once."""
    copies, store = broker.copies, broker.store
    with copies.loading:
        if copies.is_loaded:
            return
        start = progress(broker, names.HALF_TOPIC)
        for half in messages(broker, names.HALF_TOPIC, start):
            if writing.is_copy(half):
                copies.add(writing.number_of(half), half.queue_offset)
        for op in messages(broker, names.OP_HALF_TOPIC, progress(broker, names.OP_HALF_TOPIC)):
            target = op_target(op)
            if target is not None:
                store.note_ended(_number_at(broker, target, start))
        for half in messages(broker, names.HALF_TOPIC, start):
            number = writing.number_of(half)
            if not store.is_ended(number) and _final(broker, half):
                store.note_ended(number)
        store.know_transactions_from(start)
        copies.is_loaded = True


def _number_at(broker: BrokerContext, offset: int, start: int) -> int:
    """The number of the half message at a queue offset. Copies from start on are known."""
    if offset < start:
        for half in messages(broker, names.HALF_TOPIC, offset):
            return writing.number_of(half) if half.queue_offset == offset else offset
    return broker.copies.number(offset)


def is_ended(broker: BrokerContext, half: ReceivedMessage) -> bool:
    """Whether the transaction of a half message is ended, when the store does not remember."""
    load(broker)
    number = writing.number_of(half)
    if broker.store.is_ended(number):
        return True
    if broker.copies.newest(number) is not None:
        # The op message will name this copy, and the checks have already passed it.
        broker.copies.add(number, half.queue_offset)
        return False
    is_final = _final(broker, half)
    if is_final or half.queue_offset >= progress(broker, names.HALF_TOPIC):
        return is_final
    # The checks are done with it: they gave it up, or its end was known. Where the index finds
    # nothing at all, the end remains unknown.
    key = half.properties.get("UNIQ_KEY", "")
    is_given_up = bool(_by_key(broker, names.CHECK_MAX_TIME_TOPIC, key))
    return not is_given_up and bool(_by_key(broker, names.HALF_TOPIC, key))


def _final(broker: BrokerContext, half: ReceivedMessage) -> bool:
    """Whether the committed message of a half message is in the store."""
    number = writing.number_of(half)
    key = half.properties.get("UNIQ_KEY", "")
    for message in _by_key(broker, half.properties.get("REAL_TOPIC", ""), key):
        if message.sys_flag & writing.TYPE_BITS != writing.COMMIT:
            continue
        record = broker.store.get_at(message.prepared_transaction_offset)
        first = decode_messages(record)[0] if record else None
        if first and first.topic == names.HALF_TOPIC and writing.number_of(first) == number:
            return True
    return False


def _by_key(broker: BrokerContext, topic: str, key: str) -> list[ReceivedMessage]:
    if not key or not topic:
        return []
    found = broker.store.query(topic, key, _QUERY_MAX)
    return decode_messages(found.body) if found.message_count else []
