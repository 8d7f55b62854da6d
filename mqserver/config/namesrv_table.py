"""The NameServer's settings: RocketMQ's NamesrvConfig and NettyServerConfig, and our own keys."""

from __future__ import annotations

from mqserver.config.log_table import LOG_ROWS
from mqserver.config.table import Setting, Table, inert
from mqserver.config.tls_table import TLS_CLIENT, TLS_SERVER

_NETTY = "the compiled plane has no such knob"
_NO_CLIENT = "a NameServer connects to nobody, but in plain for clusterTest"


NAMESRV = Table(
    (
        Setting("listenPort", 9876, "port of the listener; 0 picks a free one", ceiling=65535,
                important=True),
        Setting("bindAddress", "0.0.0.0", "address of the listener", important=True),
        Setting("kvConfigPath", "~/namesrv/kvConfig.json", "file of the key-value tables",
                important=True),
        Setting("configStorePath", "", "the configuration file, only shown"),
        Setting("rocketmqHome", "", "RocketMQ's home, only shown"),
        Setting("metricsListen", "", "address of /metrics, /live and /ready, host:port; empty: "
                "none"),
        Setting("orderMessageEnable", False, "attach ordered-topic configuration to routes",
                online=True),
        Setting("adminAllowAddresses", "",
                "networks, CIDR, besides this machine, that may administer", online=True),
        Setting("brokerAllowAddresses", "", "networks, CIDR, besides this machine, that may "
                "register; empty: loopback and private networks, or any with registrationSecret",
                online=True),
        Setting("registrationSecret", "", "take registrations only from brokers with this secret, "
                "of 16 characters or more; a Java broker has none", secret=True),
        Setting("scanNotActiveBrokerInterval", 5000, "look for dead brokers", unit="ms",
                floor=10),
        Setting("brokerExpiry", 120_000, "a silent broker is dead after this", unit="ms",
                floor=100),
        Setting("brokerRegistrationMax", 10_000, "broker addresses, and brokers in clusters, from "
                "which on no new one is registered; those that are known register again", floor=1,
                online=True),
        Setting("brokerIdMax", 100, "addresses of one broker name, master and slaves", floor=1,
                online=True),
        Setting("brokerTopicMax", 200_000, "topics of one broker name; more are left out of its "
                "registrations", floor=1, online=True),
        Setting("topicRouteMax", 2_000_000, "topics of all broker names, where a topic on two "
                "brokers counts twice; more are left out of registrations", floor=1, online=True),
        Setting("workerThreads", 0, "threads of the compiled plane; 0: cores + 2", ceiling=1024),
        Setting("handoffThreads", 2, "Python threads", floor=1, ceiling=64),
        Setting("maxFrameBytes", 16 << 20, "largest frame taken", unit="bytes", floor=64 << 10,
                ceiling=1 << 30),
        Setting("maxHeaderBytes", 256 << 10, "longest header of a frame; a connection that "
                "sends a longer one is closed", unit="bytes", floor=64 << 10, ceiling=16 << 20),
        Setting("maxHeaderFields", 256, "most fields in the header of a frame, where all "
                "properties of a message are one; a connection that sends more is closed", floor=64,
                ceiling=1 << 20),
        Setting("maxFrameSeconds", 30, "close a connection that has not completed a frame this "
                "long after its first byte; time in which the server does not read does not count",
                unit="s", floor=1, ceiling=3600),
        Setting("minFrameBytesPerSecond", 1024, "close a connection whose frame takes over a third "
                "of maxFrameSeconds and comes slower than this on average; 0: any speed",
                unit="bytes/s"),
        Setting("maxLargeRequestBytes", 64 << 20, "memory that requests over 1 MiB may take, of "
                "all connections; one connection may take a quarter of it. A request that finds "
                "no room waits, and its connection is not read", unit="bytes", floor=1 << 20),
        Setting("maxUnfinishedFrameBytes", 128 << 20, "frames that have begun and not ended, of "
                "all connections, at least twice maxFrameBytes; above it the oldest are closed",
                unit="bytes", floor=1 << 20),
        Setting("maxConnections", 100_000, "most connections; fewer where the limit on open "
                "files (ulimit -n), less a quarter and 128 for the store, is lower", floor=1),
        Setting("serverChannelMaxIdleTimeSeconds", 120, "close silent connections", unit="s",
                floor=1, ceiling=86400),
        Setting("clusterTest", False, "ask the product environment for routes that are not known "
                "here, over plain connections; ordered-topic configuration is always attached"),
        Setting("productEnvName", "center", "the product environment: the unit whose NameServers "
                "an address server lists"),
        Setting("rmqAddressServerDomain", "jmenv.tbsite.net", "the address server's host, or "
                "host:port; else port 8080", aliases=("rocketmq.namesrv.domain",)),
        Setting("rmqAddressServerSubGroup", "nsaddr", "its list, the end of the path after "
                "/rocketmq/", aliases=("rocketmq.namesrv.domain.subgroup",)),
        inert("configBlackList", "configBlackList;configStorePath;kvConfigPath",
               "only listed keys change online"),
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
        *TLS_SERVER,
        *LOG_ROWS,
        *(inert(row.key, row.default, _NO_CLIENT) for row in TLS_CLIENT),
    )
)  # fmt: skip
