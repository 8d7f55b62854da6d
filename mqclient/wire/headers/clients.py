"""Headers about connected clients: groups, members, remote control."""

from mqclient.wire.headers.base import Header, header


@header
class UnregisterClientRequestHeader(Header):
    """UNREGISTER_CLIENT (35)."""

    wire_names = {"client_id": "clientID"}
    client_id: str
    producer_group: str | None = None
    consumer_group: str | None = None


@header
class ConsumerGroupRequestHeader(Header):
    """One consumer group: codes 38, 40 and 203."""

    consumer_group: str


@header
class ProducerGroupRequestHeader(Header):
    """GET_PRODUCER_CONNECTION_LIST (204)."""

    producer_group: str


@header
class GetConsumerStatusRequestHeader(Header):
    """INVOKE_BROKER_TO_GET_CONSUMER_STATUS (223) and what it sends on, 221.

    client_addr: really a client id.
    """

    topic: str
    group: str
    client_addr: str | None = None


@header
class GetConsumerRunningInfoRequestHeader(Header):
    """GET_CONSUMER_RUNNING_INFO (307), relayed by the broker to the client."""

    consumer_group: str
    client_id: str
    jstack_enable: bool = False


@header
class ConsumeMessageDirectlyResultRequestHeader(Header):
    """CONSUME_MESSAGE_DIRECTLY (309), relayed by the broker. msg_id: offset message id."""

    consumer_group: str
    client_id: str | None = None
    msg_id: str | None = None
    broker_name: str | None = None
