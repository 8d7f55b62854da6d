"""Where reading a queue begins: at the committed offset, or where `consume_from` says.

Rules: RocketMQ 4.9 `RebalancePushImpl.computePullFromWhere`. In addition, a queue that appears
after the start begins at its minimum, so that no message to it is missed.
"""

import logging
from datetime import datetime

from mqclient.consumer.settings import ConsumerSettings, LitePullSettings
from mqclient.engine import Client
from mqclient.offsets import OFFSET_TIMEOUT, MemoryOffsets
from mqclient.wire import calls
from mqstore.message import MessageQueue
from mqstore.names import RETRY_PREFIX

__all__ = ["start_offset"]

log = logging.getLogger(__name__)


async def start_offset(
    client: Client,
    settings: ConsumerSettings | LitePullSettings,
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
        from_broker = settings.model == "clustering"
        if stored == 0 and from_broker and settings.consume_from == "latest" and not appeared_later:
            await _explain_zero(client, queue)
        return stored
    call = _question(settings, queue, appeared_later)
    if call is None:
        return 0
    return await client.invoke(client.address_of(queue), call, OFFSET_TIMEOUT)


def _question(
    settings: ConsumerSettings | LitePullSettings, queue: MessageQueue, appeared_later: bool
) -> calls.Call[int] | None:
    retry = queue.topic.startswith(RETRY_PREFIX)
    start = settings.consume_from
    if isinstance(start, datetime):
        if retry:
            return calls.max_offset(queue)
        return calls.search_offset(queue, int(start.timestamp() * 1000))
    if retry and start == "latest":
        return None
    if start == "earliest" or appeared_later:
        return calls.min_offset(queue)
    return calls.max_offset(queue)


async def _explain_zero(client: Client, queue: MessageQueue) -> None:
    """A broker answers 0 for a new group while a queue's first messages are still in memory."""
    if queue.topic.startswith(RETRY_PREFIX):
        return
    end = await client.invoke(client.address_of(queue), calls.max_offset(queue), OFFSET_TIMEOUT)
    if end:
        log.info(
            "%s: the broker says offset 0 although consume_from is 'latest'; for a new group "
            "this means that the queue still holds its first messages, so all %d are delivered",
            queue,
            end,
        )
