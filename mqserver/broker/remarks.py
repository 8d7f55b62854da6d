"""Remarks that several processors share, in RocketMQ's words."""

from __future__ import annotations

from mqcommon.wire.codes import ResponseCode
from mqserver.broker.context import BrokerContext
from mqserver.runtime.processor_api import Refused

FAQ = "\nSee http://rocketmq.apache.org/docs/faq/ for further details."


def no_group(group: str, separator: str = " ") -> Refused:
    """The refusal for a group that does not exist and may not be created."""
    remark = f"subscription group not exist, {group}{separator}{FAQ}"
    return Refused(ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST, remark)


def address(broker: BrokerContext) -> str:
    """The broker's IP address, as remarks show it."""
    return broker.store_host.rpartition(":")[0]


def sending_forbidden(broker: BrokerContext) -> Refused:
    """The refusal of a broker that accepts no messages."""
    remark = f"the broker[{address(broker)}] sending message is forbidden"
    return Refused(ResponseCode.NO_PERMISSION, remark)


def system_error(remark: str) -> Refused:
    """A refusal with code 1 and a remark."""
    return Refused(ResponseCode.SYSTEM_ERROR, remark)
