"""Where reading a queue begins: at the committed offset, or where `consume_from` says.

Rules: RocketMQ 4.9 `RebalancePushImpl.computePullFromWhere`. In addition, a queue that appears
after the start begins at its minimum, so that no message to it is missed.
"""

import logging
from datetime import datetime
from functools import partial

from mqclient.consumer.offset_store import OFFSET_TIMEOUT, MemoryOffsets, RemoteOffsets
from mqclient.engine.client import Client
from mqclient.engine.first_at import asking, first_at
from mqclient.errors import BrokerError
from mqclient.settings.checks import milliseconds
from mqclient.settings.consumers import LitePullOptions, PushOptions
from mqcommon.message import MessageQueue
from mqcommon.names import RETRY_PREFIX, TOOLS_GROUP
from mqcommon.wire.calls import offset_calls
from mqcommon.wire.calls.call import Call

__all__ = ["start_offset"]

log = logging.getLogger(__name__)


async def start_offset(
    client: Client,
    settings: PushOptions | LitePullOptions,
    offsets: MemoryOffsets,
    queue: MessageQueue,
    *,
    appeared_later: bool,
) -> int:
    """The offset of the first pull of a queue.

    appeared_later: the queue did not exist when the consumer started. Raises BrokerError,
    UnreachableError, ClientTimeout if the brokers do not answer; the caller then tries again.
    """
    stored = await offsets.fetch(queue)
    if stored is not None:
        asked_more = isinstance(offsets, RemoteOffsets) and settings.consume_from != "earliest"
        if stored == 0 and asked_more and not appeared_later:
            await _warn_of_zero(client, queue, settings.consume_from)
        return stored
    invoke = partial(client.invoke, client.address_of(queue), timeout=OFFSET_TIMEOUT)
    start = settings.consume_from
    if isinstance(start, datetime) and not queue.topic.startswith(RETRY_PREFIX):
        group = settings.group or TOOLS_GROUP
        return await first_at(asking(invoke), queue, group, milliseconds("consume_from", start))
    call = _question(settings, queue, appeared_later)
    return 0 if call is None else await invoke(call)


def _question(
    settings: PushOptions | LitePullOptions, queue: MessageQueue, appeared_later: bool
) -> Call[int] | None:
    retry = queue.topic.startswith(RETRY_PREFIX)
    start = settings.consume_from
    if isinstance(start, datetime):
        return offset_calls.max_offset(queue)
    if retry and start == "latest":
        return None
    if start == "earliest" or appeared_later:
        return offset_calls.min_offset(queue)
    return offset_calls.max_offset(queue)


async def _warn_of_zero(client: Client, queue: MessageQueue, start: str | datetime) -> None:
    """Say how many old messages come because a broker answers 0 for a group without an offset.

    RocketMQ 4 does so while a queue's first messages are in memory. Whether this broker does is
    asked for a group that commits nothing; other brokers mean the 0 that the group committed.
    """
    if queue.topic.startswith(RETRY_PREFIX):
        return
    address = client.address_of(queue)
    unknown = offset_calls.query_consumer_offset(TOOLS_GROUP, queue, zero_if_new=False)
    end = await client.invoke(address, offset_calls.max_offset(queue), OFFSET_TIMEOUT)
    try:
        if not end or await client.invoke(address, unknown, OFFSET_TIMEOUT) is None:
            return
    except BrokerError as error:  # the account may not ask for that group
        log.debug("%s: offset 0 is not explained: %s", queue, error)
    log.warning(
        "%s: %d old messages may be delivered although consume_from is '%s': the broker answers "
        "offset 0, which for a new group means that the queue still holds its first messages "
        "(RocketMQ 4); seek_to_end(queue) skips them",
        *(queue, end, start),
    )
