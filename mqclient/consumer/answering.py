"""Handles a broker's answer to a pull, for push and lite pull consumers alike."""

import logging
from collections.abc import Callable

from mqclient.consumer.corrupt import pass_damage
from mqclient.consumer.fruitless import check_sense, pause_after
from mqclient.consumer.missing_codec import until_missing
from mqclient.consumer.process_queue import ProcessQueue
from mqclient.consumer.pull_answer import PullAnswer, read_pull_answer
from mqclient.consumer.subscription import Subscription
from mqclient.engine.outages import Outages
from mqcommon.message import ReceivedMessage

__all__ = ["ERROR_DELAY", "handle_reply", "wanted"]

log = logging.getLogger(__name__)
ERROR_DELAY = 1.0
"""Seconds until the next pull after an error."""


def handle_reply(
    held: ProcessQueue,
    asked: int,
    reply: object,
    take: Callable[[PullAnswer], None],
    outages: Outages,
    suspend: float,
) -> float:
    """Check the reply to a pull, and call `take` with the part of it that can be delivered.

    asked: the offset of the pull. suspend: seconds that the broker holds an empty pull.
    Returns seconds until the next pull. Raises BrokerError, ProtocolError, and MissingCodecError
    after the messages before the one that needs the codec are taken.
    """
    answer = read_pull_answer(reply, held.queue.broker_name)
    if answer.moved and len(held):
        return ERROR_DELAY  # move only when no message from the old position is held
    outages.answered(held.queue.broker_name)
    check_sense(held, asked, answer)
    answer, missing = until_missing(pass_damage(held, answer))
    held.broker_id = answer.suggested_broker_id
    if answer.moved:
        log.warning(
            "%s: offset %d does not exist (the queue holds %d to %d); continuing at %d",
            held.queue,
            held.next_offset,
            answer.min_offset,
            answer.max_offset,
            answer.next_offset,
        )
    take(answer)
    if missing is not None:
        raise missing
    return pause_after(held, asked, answer, suspend)


def wanted(subscription: Subscription, answer: PullAnswer) -> tuple[list[ReceivedMessage], int]:
    """The messages of an answer that a subscription wants, and their bytes; brokers compare only
    hashes of tags."""
    tags = subscription.tags
    if tags is None:
        return answer.messages, answer.size
    messages = [message for message in answer.messages if message.tags in tags]
    return messages, sum(message.store_size for message in messages)
