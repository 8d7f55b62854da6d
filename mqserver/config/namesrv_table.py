"""The NameServer's settings: RocketMQ's NamesrvConfig and NettyServerConfig, and our own keys."""

from __future__ import annotations

from mqserver.config.listener_table import ListenerSettings
from mqserver.config.log_table import LogSettings
from mqserver.config.table import LATER, ROCKETMQ_5, Table, inert, ours, setting
from mqserver.config.tls_table import ClientTlsSettings, ServerTlsSettings

_NETTY = "the compiled plane has no such knob"
_NO_CLIENT = "a NameServer connects to nobody, but in plain for clusterTest"


class NamesrvSettings(ListenerSettings):
    """What the NameServer is told."""

    # fmt: off
    listen_port: int = setting("listenPort", 9876,
        "port of the listener; 0 picks a free one", ceiling=65535, important=True)
    kv_config_path: str = setting("kvConfigPath", "~/namesrv/kvConfig.json",
        "file of the key-value tables", important=True)
    config_store_path: str = setting("configStorePath", "", "the configuration file, only shown")
    rocketmq_home: str = setting("rocketmqHome", "", "RocketMQ's home, only shown")
    order_message_enable: bool = setting("orderMessageEnable", False,
        "attach ordered-topic configuration to routes", online=True)
    broker_allow_addresses: str = ours("brokerAllowAddresses", "",
        "networks, CIDR, besides this machine, that may register; empty: loopback and private "
        "networks, or any with registrationSecret", online=True)
    registration_secret: str = ours("registrationSecret", "",
        "take registrations only from brokers with this secret, of 16 characters or more; a Java "
        "broker has none", secret=True)
    scan_not_active_broker_interval: int = setting("scanNotActiveBrokerInterval", 5000,
        "look for dead brokers", unit="ms", floor=10, known_to=ROCKETMQ_5)
    broker_expiry: int = ours("brokerExpiry", 120_000,
        "a silent broker is dead after this", unit="ms", floor=100)
    broker_registration_max: int = ours("brokerRegistrationMax", 10_000,
        "broker addresses, and brokers in clusters, from which on no new one is registered; those "
        "that are known register again", floor=1, online=True)
    broker_id_max: int = ours("brokerIdMax", 100,
        "addresses of one broker name, master and slaves", floor=1, online=True)
    broker_topic_max: int = ours("brokerTopicMax", 200_000,
        "topics of one broker name; more are left out of its registrations", floor=1, online=True)
    topic_route_max: int = ours("topicRouteMax", 2_000_000,
        "topics of all broker names, where a topic on two brokers counts twice; more are left out "
        "of registrations", floor=1, online=True)
    cluster_test: bool = setting("clusterTest", False,
        "ask the product environment for routes that are not known here, over plain connections; "
        "ordered-topic configuration is always attached")
    product_env_name: str = setting("productEnvName", "center",
        "the product environment: the unit whose NameServers an address server lists")
    # fmt: on


_INERT = (
    inert(
        "configBlackList",
        "configBlackList;configStorePath;kvConfigPath",
        "only listed keys change online",
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
)
