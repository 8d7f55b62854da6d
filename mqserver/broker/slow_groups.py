"""Stops groups that read too slowly (`BrokerController.protectBroker`).

A slow group makes the broker read from the disk, which slows all other clients.
"""

from __future__ import annotations

import logging

from mqserver.broker.context import BrokerContext

log = logging.getLogger("mqserver.broker")


def stop_slow_groups(broker: BrokerContext) -> None:
    """Stop groups with a long backlog from consuming, until an administrator allows them (200).

    Does nothing unless `disableConsumeIfConsumerReadSlowly` is set. Call it every three minutes.
    """
    settings = broker.settings
    if not settings.disable_consume_if_consumer_read_slowly:
        return
    slow = broker.stats.slow_groups(settings.consumer_fallbehind_threshold)
    for group, behind in slow.items():
        if broker.groups.stop_consuming(group):
            log.warning(
                "group %s may not consume any more: its backlog is %d bytes of the log, more than "
                "consumerFallbehindThreshold; set consumeEnable of the group to allow it again",
                group,
                behind,
            )
