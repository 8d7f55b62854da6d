"""Slows the pulls of a queue whose broker answers at once, but brings the queue no further."""

import time

from mqclient.consumer.process_queue import ProcessQueue
from mqclient.consumer.pull_answer import PullAnswer
from mqclient.errors import ProtocolError

__all__ = ["check_sense", "pause_after"]

FREE = 4
"""Fruitless answers in a row that cost no pause: a healthy broker may give these."""
FIRST_PAUSE = 0.01
PAUSE_MAX = 1.0
DAMAGED_PAUSE_MAX = 0.1
"""Seconds until the next pull. Pauses double. After a damaged message they are shorter, because
the good messages after it wait."""


def check_sense(held: ProcessQueue, asked: int, answer: PullAnswer) -> None:
    """Raises ProtocolError for messages that would lead to the same pull again.

    asked: the offset of the pull.
    """
    if (answer.messages or answer.damaged) and answer.next_offset <= asked and not answer.moved:
        what = f"messages for offset {asked}, but the next offset is {answer.next_offset}"
        raise ProtocolError(what, f"broker {held.queue.broker_name}")


def pause_after(held: ProcessQueue, asked: int, answer: PullAnswer, suspend: float) -> float:
    """Seconds to wait after an answer. asked: the offset of its pull. suspend: seconds that the
    broker holds an empty pull; an answer that it held that long is not fruitless."""
    is_fruitless = answer.moved or (
        not answer.messages and (bool(answer.damaged) or answer.next_offset <= asked)
    )
    if answer.messages:
        held.fruitless = 0
    if not is_fruitless:
        return 0.0
    if time.time_ns() // 1_000_000 - held.last_pull_ms >= 1000 * min(suspend, PAUSE_MAX) / 2:
        held.fruitless = 0
        return 0.0
    held.fruitless += 1
    if held.fruitless <= FREE:
        return 0.0
    most = DAMAGED_PAUSE_MAX if held.pulls_one or answer.damaged else PAUSE_MAX
    return min(most, FIRST_PAUSE * 2.0 ** min(held.fruitless - FREE, 10))
