"""RocketMQ's protectBroker: a group that reads too slowly makes the broker read from the disk."""

from __future__ import annotations

import logging

from mqserver.broker.context import BrokerContext

log = logging.getLogger("mqserver.broker")


def stop_slow_groups(broker: BrokerContext) -> None:
    """Forbid groups to consume that are too far behind, until somebody allows them again (200).

    Does nothing unless `disableConsumeIfConsumerReadSlowly` is set. Call it every three minutes.
    """
    settings = broker.settings
    if not settings.disable_consume_if_consumer_read_slowly:
        return
    slow = broker.stats.slow_groups(settings.consumer_fallbehind_threshold)
    for group, behind in slow.items():
        if broker.groups.stop_consuming(group):
            log.warning(
                "group %s was %d bytes of the log behind, more than consumerFallbehindThreshold: "
                "it may not consume until its consumeEnable is set again",
                group,
                behind,
            )
