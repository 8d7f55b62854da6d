"""The NameServer's settings: RocketMQ's NamesrvConfig and NettyServerConfig, and our own keys."""

from __future__ import annotations

from mqserver.config.listener_table import ListenerSettings
from mqserver.config.log_table import LogSettings
from mqserver.config.table import LATER, ROCKETMQ_5, Table, inert, ours, setting
from mqserver.config.tls_table import ClientTlsSettings, ServerTlsSettings

_NETTY = "the Rust data plane does not use Netty"
_NO_CLIENT = "a NameServer opens no connections, except plain ones for clusterTest"


class NamesrvSettings(ListenerSettings):
    """All settings of the NameServer, except those for log files and TLS."""

    # fmt: off
    listen_port: int = setting("listenPort", 9876,
        "port that the NameServer listens on; 0: a free port", ceiling=65535, important=True)
    kv_config_path: str = setting("kvConfigPath", "~/namesrv/kvConfig.json",
        "file that stores the key-value tables", important=True)
    config_store_path: str = setting("configStorePath", "",
        "path of the configuration file; shown to administrators, has no other effect")
    rocketmq_home: str = setting("rocketmqHome", "",
        "RocketMQ's home directory; shown to administrators, has no other effect")
    order_message_enable: bool = setting("orderMessageEnable", False,
        "add the configuration of ordered topics to routes", online=True)
    broker_allow_addresses: str = ours("brokerAllowAddresses", "",
        "networks (CIDR) that may register brokers, besides this machine; empty: loopback and "
        "private networks, or any network if registrationSecret is set", online=True)
    registration_secret: str = ours("registrationSecret", "",
        "accept registrations only from brokers that sign with this secret, of 16 characters or "
        "more; RocketMQ's brokers cannot sign; empty: accept unsigned registrations", secret=True)
    scan_not_active_broker_interval: int = setting("scanNotActiveBrokerInterval", 5000,
        "interval between checks for dead brokers", unit="ms", floor=10, known_to=ROCKETMQ_5)
    broker_expiry: int = ours("brokerExpiry", 120_000,
        "remove a broker that did not register for this long", unit="ms", floor=100)
    broker_registration_max: int = ours("brokerRegistrationMax", 10_000,
        "refuse new brokers when this many broker addresses, or members of clusters, are "
        "registered; known brokers can still register", floor=1, online=True)
    broker_id_max: int = ours("brokerIdMax", 100,
        "most addresses, master and slaves, under one broker name", floor=1, online=True)
    broker_topic_max: int = ours("brokerTopicMax", 200_000,
        "most topics of one broker name; the NameServer leaves more out of the broker's "
        "registrations", floor=1, online=True)
    topic_route_max: int = ours("topicRouteMax", 2_000_000,
        "most topics of all broker names, where a topic on two brokers counts twice; the "
        "NameServer leaves more out of registrations", floor=1, online=True)
    source_share_percent: int = ours("sourceSharePercent", 50,
        "largest part of a bound that the brokers of one source address may take: of "
        "brokerRegistrationMax, brokerIdMax and topicRouteMax; 100: no address has a share. "
        "Brokers on this machine and in adminAllowAddresses have none. Raise it when most brokers "
        "register through one NAT or proxy",
        unit="percent", floor=1, ceiling=100, online=True)
    cluster_test: bool = setting("clusterTest", False,
        "ask the NameServers of the product environment, over plain connections, for routes that "
        "are not known here; routes then always have the configuration of ordered topics")
    product_env_name: str = setting("productEnvName", "center",
        "name of the product environment for clusterTest: the unit whose NameServers an address "
        "server lists")
    # fmt: on


_INERT = (
    inert(
        "configBlackList",
        "configBlackList;configStorePath;kvConfigPath",
        "only keys marked online can change while the server runs",
        known_to=LATER,
    ),
    inert("serverWorkerThreads", 8, _NETTY),
    inert("serverCallbackExecutorThreads", 0, _NETTY),
    inert("serverSelectorThreads", 3, _NETTY),
    inert("serverOnewaySemaphoreValue", 256, _NETTY),
    inert("serverAsyncSemaphoreValue", 64, _NETTY),
    inert("serverSocketSndBufSize", 0, _NETTY),
    inert("serverSocketRcvBufSize", 0, _NETTY),
    inert("serverSocketBacklog", 1024, _NETTY),
    inert("writeBufferHighWaterMark", 0, _NETTY),
    inert("writeBufferLowWaterMark", 0, _NETTY),
    inert("serverPooledByteBufAllocatorEnable", True, _NETTY),
    inert("useEpollNativeSelector", False, _NETTY),
    inert("useTLS", False, _NO_CLIENT),
    *(inert(row.key, row.default, _NO_CLIENT) for row in ClientTlsSettings.rows().values()),
)

NAMESRV = Table(
    *NamesrvSettings.rows().values(),
    *ServerTlsSettings.rows().values(),
    *LogSettings.rows().values(),
    *_INERT,
    listed_by="mqserver namesrv start -p",
)
