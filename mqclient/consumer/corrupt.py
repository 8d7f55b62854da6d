"""Handles damaged messages in a pull's answer: pulls each once more, alone, then skips it.

RocketMQ's clients before 5.0 do not check the body's CRC, and one record that cannot be decoded
makes the rest of its reply unreadable. Here no good message is lost: the messages before a
damaged one are delivered, the damaged one is pulled once more, by itself, since the network or a
broker's memory may have been at fault, and those after it are pulled after that. A message that is
damaged again is logged and skipped; its record stays in the broker's log.
"""

import logging

from mqclient.consumer.process_queue import ProcessQueue
from mqclient.consumer.pull_answer import PullAnswer

__all__ = ["pass_damage"]

log = logging.getLogger(__name__)


def pass_damage(held: ProcessQueue, answer: PullAnswer) -> PullAnswer:
    """The messages to deliver from an answer, and the offset to continue at.

    held.pulls_one: whether the pull requested one message; set for the next pull.
    """
    asked_for_one, held.pulls_one = held.pulls_one, False
    if not answer.damaged:
        return answer
    first = answer.damaged[0]
    if asked_for_one and not first.position:
        # The broker's next offset lies after this one message.
        log.error("%s: skipping a damaged message: %s", held.queue, first)
        return answer
    messages = answer.messages[: first.position]
    next_offset = messages[-1].queue_offset + 1 if messages else held.next_offset
    log.warning("%s: pulling a damaged message once more: %s", held.queue, first)
    held.pulls_one = True
    size = sum(message.store_size for message in messages)
    return answer._replace(messages=messages, next_offset=next_offset, size=size, damaged=[])
