"""Bodies that clients send about themselves: heartbeat, subscriptions."""

from msgspec import field

from mqcommon.wire.bodies.base import Body
from mqcommon.wire.headers.base import Int32, Name

SUBSCRIBE_ALL = "*"
"""The tag expression that takes every message."""
SQL92 = "SQL92"
"""The expression type of a filter over properties; TAG is the type of tag expressions."""


class SubscriptionData(Body):
    """A group's subscription to a topic.

    sub_string: tag expression "A || B", "*", or SQL92. tags_set, code_set: its tags and their
    hash codes (Java's String.hashCode), empty for "*". sub_version: ms of the last change.
    """

    topic: Name
    sub_string: str = SUBSCRIBE_ALL
    tags_set: list[str] = field(default_factory=list)
    code_set: list[Int32] = field(default_factory=list)
    sub_version: int = 0
    expression_type: str | None = "TAG"
    class_filter_mode: bool = False


class ConsumerData(Body):
    """One consumer group of a client.

    consume_type: CONSUME_ACTIVELY (pull) or CONSUME_PASSIVELY (push). message_model: CLUSTERING
    or BROADCASTING. consume_from_where: CONSUME_FROM_LAST_OFFSET, _FIRST_OFFSET, _TIMESTAMP.
    """

    group_name: Name
    consume_type: str | None = "CONSUME_PASSIVELY"
    message_model: str | None = "CLUSTERING"
    consume_from_where: str | None = "CONSUME_FROM_LAST_OFFSET"
    subscription_data_set: list[SubscriptionData] = field(default_factory=list)
    unit_mode: bool = False


class ProducerData(Body):
    """One producer group of a client."""

    group_name: Name


class HeartbeatData(Body):
    """Body of HEART_BEAT (34): all groups of one client."""

    wire_names = {"client_id": "clientID"}
    client_id: Name
    producer_data_set: list[ProducerData] = field(default_factory=list)
    consumer_data_set: list[ConsumerData] = field(default_factory=list)


class CheckClientRequestBody(Body):
    """Body of CHECK_CLIENT_CONFIG (46): may this expression be used?"""

    client_id: Name
    group: Name
    subscription_data: SubscriptionData


class GetConsumerListByGroupResponseBody(Body):
    """Client ids of a group: the answer to 38."""

    consumer_id_list: list[str] = field(default_factory=list)
