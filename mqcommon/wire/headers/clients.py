"""Headers about connected clients: groups, members, remote control."""

from mqcommon.wire.headers.base import Header, Name


class UnregisterClientRequestHeader(Header, frozen=True, kw_only=True):
    """UNREGISTER_CLIENT (35)."""

    wire_names = {"client_id": "clientID"}
    client_id: Name
    producer_group: Name | None = None
    consumer_group: Name | None = None


class ConsumerGroupRequestHeader(Header, frozen=True, kw_only=True):
    """One consumer group: codes 38, 40 and 203."""

    consumer_group: Name


class ProducerGroupRequestHeader(Header, frozen=True, kw_only=True):
    """GET_PRODUCER_CONNECTION_LIST (204)."""

    producer_group: Name


class GetConsumerStatusRequestHeader(Header, frozen=True, kw_only=True):
    """INVOKE_BROKER_TO_GET_CONSUMER_STATUS (223), and 221, which the broker relays.

    client_addr: a client id, despite its name.
    """

    topic: Name
    group: Name
    client_addr: Name | None = None


class GetConsumerRunningInfoRequestHeader(Header, frozen=True, kw_only=True):
    """GET_CONSUMER_RUNNING_INFO (307), relayed by the broker to the client."""

    consumer_group: Name
    client_id: Name
    jstack_enable: bool = False


class ConsumeMessageDirectlyResultRequestHeader(Header, frozen=True, kw_only=True):
    """CONSUME_MESSAGE_DIRECTLY (309), relayed by the broker. msg_id: offset message id."""

    consumer_group: Name
    client_id: Name | None = None
    msg_id: str | None = None
    broker_name: Name | None = None
