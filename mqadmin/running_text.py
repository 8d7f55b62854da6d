"""The running state of a consumer as RocketMQ prints it, and its problems.

`ConsumerRunningInfo.formatString`, `analyzeSubscription`, `analyzeProcessQueue`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

from mqadmin.java_order import properties_order
from mqadmin.java_text import fixed, java_object, java_value
from mqcommon.wire.bodies.running import ConsumerRunningInfo, ProcessQueueInfo

__all__ = ["has_same_subscriptions", "problems", "running_text"]

SETTLED_MS = 120_000
"""A member that started later than this may not have its subscriptions yet."""
BLOCKED_MS = 60_000
"""A queue with messages that were not consumed for this long is blocked."""
CONSUME_TYPE = "PROP_CONSUME_TYPE"
IS_ORDERLY = "PROP_CONSUMEORDERLY"
STARTED = "PROP_CONSUMER_START_TIMESTAMP"


def running_text(info: ConsumerRunningInfo) -> str:
    """All of a member's state."""
    parts = [
        "#Consumer Properties#\n",
        *(f"{key:<40}: {info.properties[key]}\n" for key in properties_order(info.properties)),
        "\n\n#Consumer Subscription#\n",
        *_subscriptions(info),
        "\n\n#Consumer Offset#\n",
        _queue_line(64, "#Topic", "#Broker Name", "#QID", f"{'#Consumer Offset':<20}"),
        *(
            _queue_line(32, queue.topic, queue.broker_name, queue.queue_id, f"{at:<20}")
            for queue, at in ((q, one.commit_offset) for q, one in sorted(info.mq_table.items()))
        ),
        "\n\n#Consumer MQ Detail#\n",
        _queue_line(64, "#Topic", "#Broker Name", "#QID", f"{'#ProcessQueueInfo':<20}"),
        *(
            _queue_line(64, queue.topic, queue.broker_name, queue.queue_id, _queue_state(one))
            for queue, one in sorted(info.mq_table.items())
        ),
        "\n\n#Consumer RT&TPS#\n",
        *_rates(info),
    ]
    if info.jstack is not None:
        parts += ["\n\n#Consumer jstack#\n", info.jstack]
    return "".join(parts)


def _subscriptions(info: ConsumerRunningInfo) -> list[str]:
    ordered = sorted(info.subscription_set, key=lambda one: f"{one.topic}@{one.sub_string}")
    return [
        f"{place:03d} Topic: {one.topic:<40} ClassFilter: {java_value(one.class_filter_mode):<8} "
        f"SubExpression: {one.sub_string}\n"
        for place, one in enumerate(ordered, start=1)
    ]


def _queue_line(width: int, topic: str, broker: str, queue_id: object, rest: str) -> str:
    return f"{topic:<{width}}  {broker:<32}  {queue_id!s:<4}  {rest}\n"


def _queue_state(one: ProcessQueueInfo) -> str:
    values = {
        "commitOffset": one.commit_offset,
        "cachedMsgMinOffset": one.cached_msg_min_offset,
        "cachedMsgMaxOffset": one.cached_msg_max_offset,
        "cachedMsgCount": one.cached_msg_count,
        "cachedMsgSizeInMiB": one.cached_msg_size_in_mib,
        "transactionMsgMinOffset": one.transaction_msg_min_offset,
        "transactionMsgMaxOffset": one.transaction_msg_max_offset,
        "transactionMsgCount": one.transaction_msg_count,
        "locked": one.locked,
        "tryUnlockTimes": one.try_unlock_times,
        "lastLockTimestamp": _digits(one.last_lock_timestamp),
        "droped": one.droped,
        "lastPullTimestamp": _digits(one.last_pull_timestamp),
        "lastConsumeTimestamp": _digits(one.last_consume_timestamp),
    }
    return java_object("ProcessQueueInfo", values)


def _rates(info: ConsumerRunningInfo) -> list[str]:
    titles = ("#Pull RT", "#Pull TPS", "#Consume RT", "#ConsumeOK TPS")
    head = " ".join(f"{title:>14}" for title in titles)
    lines = [
        f"{'#Topic':<64}  {head} {'#ConsumeFailed TPS':>18} {'#ConsumeFailedMsgsInHour':>25}\n"
    ]
    for topic, one in sorted(info.status_table.items()):
        rates = (one.pull_rt, one.pull_tps, one.consume_rt, one.consume_ok_tps)
        cells = " ".join(f"{fixed(rate, 2):>14}" for rate in rates)
        failed = f"{fixed(one.consume_failed_tps, 2):>18} {one.consume_failed_msgs:>25}"
        lines.append(f"{topic:<32}  {cells} {failed}\n")
    return lines


def has_same_subscriptions(members: Mapping[str, ConsumerRunningInfo], now_ms: int) -> bool:
    """Whether all members of a group have the same subscriptions.

    As in RocketMQ, pull consumers and a group whose first member has just started are not judged.
    """
    infos = [members[client] for client in sorted(members)]
    started = int(infos[0].properties.get(STARTED) or now_ms)
    if not _is_push(infos[0]) or now_ms - started <= SETTLED_MS:
        return True
    sets = [{(one.topic, one.sub_string) for one in info.subscription_set} for info in infos]
    return bool(sets[0]) and all(one == sets[0] for one in sets)


def problems(client_id: str, info: ConsumerRunningInfo, now_ms: int) -> list[str]:
    """The queues of a push consumer that are not locked, not unlocked, or not consumed."""
    if not _is_push(info):
        return []
    judge = _of_orderly if info.properties.get(IS_ORDERLY, "").lower() == "true" else _of_blocked
    return [
        f"{client_id} {queue} {problem}"
        for queue, one in sorted(info.mq_table.items())
        for problem in judge(one, now_ms)
    ]


def _of_orderly(one: ProcessQueueInfo, now_ms: int) -> Iterable[str]:
    if not one.locked:
        yield f"can't lock for a while, {now_ms - one.last_lock_timestamp}ms"
    elif one.droped and one.try_unlock_times > 0:
        yield f"unlock {one.try_unlock_times} times, still failed"


def _of_blocked(one: ProcessQueueInfo, now_ms: int) -> Iterable[str]:
    idle_ms = now_ms - one.last_consume_timestamp
    if idle_ms > BLOCKED_MS and one.cached_msg_count > 0:
        yield f"can't consume for a while, maybe blocked, {idle_ms}ms"


def _is_push(info: ConsumerRunningInfo) -> bool:
    return info.properties.get(CONSUME_TYPE) == "CONSUME_PASSIVELY"


def _digits(timestamp_ms: int) -> str:
    """Local time as digits: 20261121075118062."""
    seconds, millis = divmod(timestamp_ms, 1000)
    return f"{datetime.fromtimestamp(seconds):%Y%m%d%H%M%S}{millis:03d}"
