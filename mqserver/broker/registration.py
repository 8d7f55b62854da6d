"""The requests that a broker makes of NameServers, signed where `registrationSecret` is set."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from zlib import crc32

from mqclient.wire.bodies.common import DataVersion
from mqclient.wire.bodies.topics import RegisterBrokerBody, TopicConfigSerializeWrapper
from mqclient.wire.codes import RequestCode
from mqclient.wire.frame import Frame
from mqclient.wire.headers.namesrv import BrokerIdentityRequestHeader, RegisterBrokerRequestHeader
from mqserver import registration_secret
from mqserver.broker.state.topics import READ_WRITE
from mqserver.config.settings import BrokerSettings


@dataclass(frozen=True, slots=True)
class Identity:
    """How the broker is known: what registrations and unregistrations say.

    address, ha_address: "host:port" told to clients and slaves.
    """

    cluster: str
    broker_name: str
    broker_id: int
    address: str
    ha_address: str


class Requests:
    """Makes the requests. settings: asked each time, because it may change online."""

    def __init__(self, identity: Identity, settings: Callable[[], BrokerSettings]) -> None:
        self._identity = identity
        self._settings = settings

    def register(self, topics: TopicConfigSerializeWrapper) -> Frame:
        """REGISTER_BROKER (103) of all topics, or of those that changed up to a version."""
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
        return self._signed(RequestCode.REGISTER_BROKER, header.to_fields(), body)

    def unregister(self) -> Frame:
        """UNREGISTER_BROKER (104)."""
        return self._signed(RequestCode.UNREGISTER_BROKER, self._identity_fields(), b"")

    def ask_version(self, version: DataVersion) -> Frame:
        """QUERY_DATA_VERSION (322)."""
        fields = self._identity_fields()
        return self._signed(RequestCode.QUERY_DATA_VERSION, fields, version.to_json())

    def _identity_fields(self) -> dict[str, str]:
        me = self._identity
        return BrokerIdentityRequestHeader(
            broker_name=me.broker_name,
            broker_addr=me.address,
            cluster_name=me.cluster,
            broker_id=me.broker_id,
        ).to_fields()

    def _signed(self, code: int, fields: dict[str, str], body: bytes) -> Frame:
        secret = self._settings().registration_secret
        if secret:
            fields |= registration_secret.sign(secret, int(code), fields, body)
        return Frame(int(code), fields, body)


def _permitted(
    topics: TopicConfigSerializeWrapper, settings: BrokerSettings
) -> TopicConfigSerializeWrapper:
    """A broker that may not read or write says so of every topic."""
    perm = settings.broker_permission
    if perm & READ_WRITE == READ_WRITE:
        return topics
    table = topics.topic_config_table
    rows = {name: replace(config, perm=perm) for name, config in table.items()}
    return TopicConfigSerializeWrapper(rows, topics.data_version)
