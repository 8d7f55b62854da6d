"""mqadmin updateSubGroup: create or change a consumer group on a broker or on a cluster."""

from __future__ import annotations

from mqadmin.command import Arguments, Command, Option
from mqadmin.java_text import hash_order, java_object
from mqadmin.report import Report
from mqadmin.targets import where
from mqclient.admin import Admin
from mqcommon.wire.bodies.groups import GroupConfig

DEFAULTS = GroupConfig("")


async def run(admin: Admin, arguments: Arguments) -> Report:
    """Create or change the group."""
    config = _config(arguments)
    addresses = hash_order(await admin.groups.update(config, **where(arguments)))
    rows = [{"brokerAddr": address, **config.to_plain()} for address in addresses]
    created = "".join(f"create subscription group to {one} success.\n" for one in addresses)
    shown = java_object("SubscriptionGroupConfig", group_fields(config))
    return Report(rows, lambda: created + shown, columns=("brokerAddr", *config.to_plain()))


def _config(arguments: Arguments) -> GroupConfig:
    """The whole configuration: an absent option sets RocketMQ's default, not the present value.

    Broadcasting and reading from the start are off unless their options are given.
    """
    return GroupConfig(
        arguments.required("groupName"),
        consume_enable=_switch(arguments, "consumeEnable", default=True),
        consume_from_min_enable=arguments.is_true("consumeFromMinEnable"),
        consume_broadcast_enable=arguments.is_true("consumeBroadcastEnable"),
        retry_queue_nums=arguments.number("retryQueueNums", DEFAULTS.retry_queue_nums),
        retry_max_times=arguments.number("retryMaxTimes", DEFAULTS.retry_max_times),
        broker_id=arguments.number("brokerId", DEFAULTS.broker_id),
        which_broker_when_consume_slowly=arguments.number(
            "whichBrokerWhenConsumeSlowly", DEFAULTS.which_broker_when_consume_slowly
        ),
        notify_consumer_ids_changed_enable=_switch(
            arguments, "notifyConsumerIdsChanged", default=True
        ),
    )


def _switch(arguments: Arguments, name: str, *, default: bool) -> bool:
    return default if arguments.text(name) is None else arguments.is_true(name)


def group_fields(config: GroupConfig) -> dict[str, object]:
    """The fields of a group, in the order of RocketMQ's class."""
    plain = config.to_plain()
    names = (
        "groupName", "consumeEnable", "consumeFromMinEnable", "consumeBroadcastEnable",
        "retryQueueNums", "retryMaxTimes", "brokerId", "whichBrokerWhenConsumeSlowly",
        "notifyConsumerIdsChangedEnable",
    )  # fmt: skip
    return {name: plain[name] for name in names}


UPDATE_SUB_GROUP = Command(
    "updateSubGroup",
    run,
    [
        Option("b", "brokerAddr", "create subscription group to which broker"),
        Option("c", "clusterName", "create subscription group to which cluster"),
        Option("g", "groupName", "consumer group name", required=True),
        Option("s", "consumeEnable", "consume enable"),
        Option("m", "consumeFromMinEnable", "from min offset"),
        Option("d", "consumeBroadcastEnable", "broadcast"),
        Option("q", "retryQueueNums", "retry queue nums"),
        Option("r", "retryMaxTimes", "retry max times"),
        Option("i", "brokerId", "consumer from which broker id"),
        Option("w", "whichBrokerWhenConsumeSlowly", "which broker id when consume slowly"),
        Option("a", "notifyConsumerIdsChanged", "notify consumerId changed"),
    ],
)
