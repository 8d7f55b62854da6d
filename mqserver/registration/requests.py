"""The requests that a broker sends to NameServers, signed if `registrationSecret` is set."""

from __future__ import annotations

from collections.abc import Callable
from zlib import crc32

from msgspec import Struct
from msgspec.structs import replace

from mqcommon.wire.bodies.common import DataVersion
from mqcommon.wire.bodies.topics import RegisterBrokerBody, TopicConfigSerializeWrapper
from mqcommon.wire.codes import RequestCode
from mqcommon.wire.frame import Frame, request_frame
from mqcommon.wire.headers.base import Header
from mqcommon.wire.headers.namesrv import BrokerIdentityRequestHeader, RegisterBrokerRequestHeader
from mqserver.broker.state.topics import READ_WRITE
from mqserver.config.settings import BrokerSettings
from mqserver.registration import secret as registration_secret


class Identity(Struct, frozen=True):
    """The identity that registrations and unregistrations carry.

    address, ha_address: the "host:port" that clients and slaves connect to.
    """

    cluster: str
    broker_name: str
    broker_id: int
    address: str
    ha_address: str


class Requests:
    """Makes the requests. settings: called each time, because settings may change online."""

    def __init__(self, identity: Identity, settings: Callable[[], BrokerSettings]) -> None:
        self._identity = identity
        self._settings = settings

    def register(self, topics: TopicConfigSerializeWrapper) -> Frame:
        """REGISTER_BROKER (103) with all topics, or with the topics changed up to a version."""
        settings, me = self._settings(), self._identity
        body = RegisterBrokerBody(_permitted(topics, settings)).encode(settings.compressed_register)
        header = RegisterBrokerRequestHeader(
            broker_name=me.broker_name,
            broker_addr=me.address,
            cluster_name=me.cluster,
            ha_server_addr=me.ha_address,
            broker_id=me.broker_id,
            compressed=settings.compressed_register,
            body_crc32=crc32(body) & 0x7FFFFFFF,
        )
        return self._signed(RequestCode.REGISTER_BROKER, header, body)

    def unregister(self) -> Frame:
        """UNREGISTER_BROKER (104)."""
        return self._signed(RequestCode.UNREGISTER_BROKER, self._identity_header())

    def ask_version(self, version: DataVersion) -> Frame:
        """QUERY_DATA_VERSION (322)."""
        header = self._identity_header()
        return self._signed(RequestCode.QUERY_DATA_VERSION, header, version.to_json())

    def _identity_header(self) -> BrokerIdentityRequestHeader:
        me = self._identity
        return BrokerIdentityRequestHeader(
            broker_name=me.broker_name,
            broker_addr=me.address,
            cluster_name=me.cluster,
            broker_id=me.broker_id,
        )

    def _signed(self, code: int, header: Header, body: bytes = b"") -> Frame:
        frame = request_frame(code, header, body)
        secret = self._settings().registration_secret
        if secret:
            frame.fields |= registration_secret.sign(secret, frame.code, frame.fields, body)
        return frame


def _permitted(
    topics: TopicConfigSerializeWrapper, settings: BrokerSettings
) -> TopicConfigSerializeWrapper:
    """Give every topic the broker's permission, if the broker may not read or not write."""
    perm = settings.broker_permission
    if perm & READ_WRITE == READ_WRITE:
        return topics
    table = topics.topic_config_table
    rows = {name: replace(config, perm=perm) for name, config in table.items()}
    return TopicConfigSerializeWrapper(rows, topics.data_version)
