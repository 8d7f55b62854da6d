"""The broker's settings: RocketMQ's BrokerConfig and Netty configs, and our own keys.

Defaults and names: server.md 0.2 and B.2, checked against `mqadmin getBrokerConfig` of 4.9.7.
The store's keys are in `store_table.py`; `BROKER` holds both.
"""

from __future__ import annotations

import os

from mqserver.config.log_table import LOG_ROWS
from mqserver.config.store_table import STORE_ROWS
from mqserver.config.table import LONG_MAX, Setting, Table, inert
from mqserver.config.tls_table import TLS_CLIENT, TLS_SERVER
from mqstore import names

_CPUS = os.cpu_count() or 1
_POOL = "the compiled plane and a few hand-off threads serve all requests"
_NETTY = "the compiled plane has no such knob"
_CLIENT = "the broker's outgoing connections have no such knob"
_LATER = "not built yet"
_COMMERCIAL = "a hook of a commercial product"


_IDENTITY = (
    Setting("brokerName", "", "name of the master and its slaves; empty: the host's name",
            important=True),
    Setting("brokerClusterName", "DefaultCluster", "cluster the broker belongs to",
            important=True),
    Setting("brokerId", 0, "0 is the master", ceiling=LONG_MAX, important=True),
    Setting("brokerIP1", "", "address clients are told; empty: the interface's", important=True),
    Setting("brokerIP2", "", "address slaves are told; empty: as brokerIP1"),
    Setting("listenPort", 10911, "port of the listener; 0 picks a free one", ceiling=65535,
            important=True),
    Setting("bindAddress", "0.0.0.0", "address of the listener", important=True),
    Setting("advertisedPort", 0, "port clients are told; 0: the listener's", ceiling=65535),
    Setting("fastPortEnable", True, "also listen on listenPort-2 (VIP), without pull"),
    Setting("namesrvAddr", "", "NameServers, host:port;host:port", online=True, important=True),
    Setting("fetchNamesrvAddrByAddressServer", False, "without namesrvAddr, ask an HTTP address "
            "server every two minutes", important=True),
    Setting("rmqAddressServerDomain", "jmenv.tbsite.net", "its host, or host:port; else port 8080",
            aliases=("rocketmq.namesrv.domain",)),
    Setting("rmqAddressServerSubGroup", "nsaddr", "its list, the end of the path after /rocketmq/",
            aliases=("rocketmq.namesrv.domain.subgroup",)),
    Setting("rocketmqHome", "", "RocketMQ's home: access files are in conf/ below it"),
    Setting("metricsListen", "", "address of /metrics, /live and /ready, host:port; empty: none"),
    Setting("regionId", "DefaultRegion", "told to producers as MSG_REGION", online=True),
)  # fmt: skip

_TOPICS = (
    Setting("brokerPermission", 6, "4 read + 2 write", ceiling=15, online=True),
    Setting("defaultTopicQueueNums", 8, "queues of the template TBW102", unit="queues", floor=1,
            ceiling=65536),
    Setting("autoCreateTopicEnable", True, "create a topic at the first send", online=True,
            important=True),
    Setting("autoCreateSubscriptionGroup", True, "create a group at its first heartbeat or pull",
            online=True, important=True),
    Setting("clusterTopicEnable", True, "the cluster's topic is a template"),
    Setting("brokerTopicEnable", True, "the broker's topic is a template"),
    Setting("traceTopicEnable", False, "create the trace topic", important=True),
    Setting("msgTraceTopicName", names.TRACE_TOPIC, "the trace topic", important=True),
    Setting("traceOn", True, "told to producers as TRACE_ON", online=True),
    Setting("rejectTransactionMessage", False, "refuse half messages", online=True,
            important=True),
    Setting("startAcceptSendRequestTimeStamp", 0, "refuse sends before this time", unit="ms",
            ceiling=LONG_MAX, online=True),
)  # fmt: skip

_BOUNDS = (
    Setting("autoCreateTopicMax", 10_000, "topics, without built-in and retry topics, from which "
            "on sends create no more; an administrator still does", online=True),
    Setting("autoCreateTopicPerSecond", 100, "topics that sends may create in a second; after a "
            "pause ten times as many at once", unit="topics", floor=1, ceiling=1_000_000,
            online=True),
    Setting("autoCreateGroupMax", 10_000, "consumer groups from which on heartbeats, pulls and "
            "sends create no more; an administrator still does", online=True),
    Setting("consumerOffsetMax", 1_000_000, "committed offsets, one for each group and queue, from "
            "which on new ones are refused; a group goes on in the queues where it has one",
            online=True),
    Setting("unknownGroupOffsetMax", 100_000, "committed offsets from which on a group, topic or "
            "queue that the broker does not know gets no new one", online=True),
    Setting("queueLockMax", 100_000, "queues locked by orderly consumers at once", online=True),
    Setting("clientQueueLockMax", 10_000, "queues that one client may have locked", online=True),
    Setting("clientGroupMax", 1_000, "groups of producers and consumers that one connection may be "
            "in", floor=1, online=True),
    Setting("maxHeartbeatBytes", 1 << 20, "longest heartbeat; twice as much is remembered of one "
            "connection's heartbeats", unit="bytes", floor=4096, ceiling=64 << 20, online=True),
    Setting("maxSubscriptionBytes", 128 << 20, "most that is remembered of all heartbeats: names, "
            "tags and expressions", unit="bytes", floor=1 << 20, online=True),
    Setting("maxFilterBytes", 16 << 20, "most that consumerFilter.json keeps; where more SQL92 "
            "expressions come, those that nobody used for longest are forgotten", unit="bytes",
            floor=64 << 10, online=True),
    Setting("statsItemMax", 100_000, "items of the statistics, a few for each topic and each group "
            "and queue; what comes after them is not counted", floor=1_000),
)  # fmt: skip

_CONSUMERS = (
    Setting("longPollingEnable", True, "hold pulls that find nothing", online=True),
    Setting("shortPollingTimeMills", 1000, "hold time without long polling", unit="ms",
            online=True),
    Setting("notifyConsumerIdsChangedEnable", True, "send 40 when a group changes", online=True),
    Setting("flushConsumerOffsetInterval", 5000, "persist committed offsets", unit="ms", floor=100),
    Setting("slaveReadEnable", False, "suggest slaves to slow consumers", online=True),
)  # fmt: skip

_REGISTRATION = (
    Setting("registerNameServerPeriod", 30000, "register again; clamped to 10,000-60,000",
            unit="ms", online=True),
    Setting("registerBrokerTimeoutMills", 6000, "wait for a NameServer's answer", unit="ms",
            floor=1, online=True),
    Setting("forceRegister", True, "register even if nothing changed", online=True),
    Setting("compressedRegister", False, "compress registrations", online=True),
)  # fmt: skip

_OURS = (
    Setting("dataPlane", "native", "who serves send and pull",
            choices=("native", "python")),
    Setting("workerThreads", 0, "threads of the compiled plane; 0: cores + 2", ceiling=1024),
    Setting("handoffThreads", 2, "Python threads for each family of requests", floor=1,
            ceiling=64),
    Setting("adminAllowAddresses", "", "networks, CIDR, besides this machine, that may administer",
            online=True),
    Setting("registrationSecret", "", "sign registrations at NameServers; set the same secret, of "
            "16 characters or more, on each of them", secret=True),
    Setting("maxFrameBytes", 16 << 20, "largest frame taken", unit="bytes", floor=64 << 10,
            ceiling=1 << 30),
    Setting("maxHeaderBytes", 256 << 10, "longest header of a frame; a connection that "
            "sends a longer one is closed", unit="bytes", floor=64 << 10, ceiling=16 << 20),
    Setting("maxHeaderFields", 256, "most fields in the header of a frame, where all properties "
            "of a message are one; a connection that sends more is closed", floor=64,
            ceiling=1 << 20),
    Setting("maxFrameSeconds", 30, "close a connection that has not completed a frame this long "
            "after its first byte; time in which the server does not read does not count",
            unit="s", floor=1, ceiling=3600),
    Setting("minFrameBytesPerSecond", 1024, "close a connection whose frame takes over a third of "
            "maxFrameSeconds and comes slower than this on average; 0: any speed", unit="bytes/s"),
    Setting("maxLargeRequestBytes", 64 << 20, "memory that requests over 1 MiB may take, of all "
            "connections; one connection may take a quarter of it. A request that finds no room "
            "waits, and its connection is not read", unit="bytes", floor=1 << 20),
    Setting("maxUnfinishedFrameBytes", 128 << 20, "frames that have begun and not ended, of all "
            "connections, at least twice maxFrameBytes; above it the oldest are closed",
            unit="bytes", floor=1 << 20),
    Setting("maxConnections", 100_000, "most connections; fewer where the limit on open "
            "files (ulimit -n), less a quarter and 128 for the store, is lower", floor=1),
    Setting("serverChannelMaxIdleTimeSeconds", 120, "close silent connections", unit="s", floor=1,
            ceiling=86400),
    Setting("queryThreadPoolQueueCapacity", 20_000, "queries that may wait", floor=1),
    Setting("replyThreadPoolQueueCapacity", 10_000, "replies to requests that may wait",
            floor=1),
    Setting("storeReplyMessageEnable", True, "replies to requests are stored as well",
            online=True),
    Setting("sendThreadPoolQueueCapacity", 10_000, "sends that may wait", floor=1),
    Setting("pullThreadPoolQueueCapacity", 100_000, "pulls that may wait", floor=1),
    Setting("heartbeatThreadPoolQueueCapacity", 50_000, "heartbeats that may wait", floor=1),
    Setting("clientManagerThreadPoolQueueCapacity", 1_000_000, "client calls that may wait",
            floor=1),
    Setting("consumerManagerThreadPoolQueueCapacity", 1_000_000, "offset calls that may wait",
            floor=1),
)  # fmt: skip

_ACCESS = (
    Setting("aclEnable", False, "requests need an account and its signature: docs/acl.md",
            important=True),
    Setting("aclPlainFile", "conf/plain_acl.yml", "main access file, from rocketmqHome"),
    Setting("aclWhiteListSkipsSignature", False, "a white address needs no signature, as in "
            "RocketMQ"),
)  # fmt: skip

_TRANSACTIONS = (
    Setting("transactionTimeOut", 6000, "a half message older than this is asked about", unit="ms",
            online=True, important=True),
    Setting("transactionCheckMax", 15, "asked so often, it is given up", online=True,
            important=True),
    Setting("transactionCheckInterval", 60_000, "pause between two checks", unit="ms", floor=1,
            online=True, important=True),
    Setting("endTransactionPoolQueueCapacity", 100_000, "ends of transactions that may wait",
            floor=1),
)  # fmt: skip

_FILTERS = (
    Setting("enablePropertyFilter", False, "consumers may filter by SQL92 expressions",
            online=True),
    Setting("filterSupportRetry", False, "messages that come again are filtered by expressions too",
            online=True),
    Setting("enableCalcFilterBitMap", False, "the consume-queue extension keeps which groups' "
            "expressions a message satisfies"),
    Setting("expectConsumerNumUseFilter", 32, "groups the bloom filter is made for", floor=1,
            ceiling=100_000),
    Setting("maxErrorRateOfBloomFilter", 20, "its error rate", unit="%", floor=1, ceiling=99),
    Setting("filterDataCleanTimeSpan", 86_400_000, "a filter nobody used for so long is "
            "forgotten", unit="ms"),
)  # fmt: skip

_STATISTICS = (
    Setting("enableDetailStat", True, "statistics of each queue of the schedule topic"),
    Setting("autoDeleteUnusedStats", False, "statistics go with their topic or group",
            online=True),
)  # fmt: skip

_OVERLOAD = (
    Setting("disableConsumeIfConsumerReadSlowly", False, "groups that are too far behind may not "
            "consume any more", online=True),
    Setting("consumerFallbehindThreshold", 16 << 30, "too far, of the log", unit="bytes", floor=1,
            ceiling=LONG_MAX, online=True),
    Setting("brokerFastFailureEnable", True, "refuse requests that waited for too long",
            online=True),
    Setting("waitTimeMillsInSendQueue", 200, "a send may wait so long", unit="ms", floor=1,
            online=True),
    Setting("waitTimeMillsInPullQueue", 5000, "a pull may wait so long", unit="ms", floor=1,
            online=True),
    Setting("waitTimeMillsInHeartbeatQueue", 31000, "a heartbeat may wait so long", unit="ms",
            floor=1, online=True),
    Setting("waitTimeMillsInTransactionQueue", 3000, "the end of a transaction may wait so long",
            unit="ms", floor=1, online=True),
)  # fmt: skip

_INERT = (
    inert("configBlackList", "configBlackList;brokerConfigPath", "only listed keys change online"),
    inert("flushConsumerOffsetHistoryInterval", 60000, "the history is not kept"),
    inert("maxDelayTime", 40, "unused by RocketMQ too"),
    inert("isolateLogEnable", False, "unused by RocketMQ too"),
    inert("transferMsgByHeap", True, "messages are always copied once, to the socket"),
    inert("highSpeedMode", False, "unused by RocketMQ too"),
    inert("filterServerNums", 0, "filter servers are gone since 4.9"),
    inert("messageStorePlugIn", "", "there is no JVM to load it"),
    inert("commercialEnable", True, _COMMERCIAL),
    inert("commercialTimerCount", 1, _COMMERCIAL),
    inert("commercialTransCount", 1, _COMMERCIAL),
    inert("commercialBigCount", 1, _COMMERCIAL),
    inert("commercialBaseCount", 1, _COMMERCIAL),
    inert("sendMessageThreadPoolNums", min(_CPUS, 4), _POOL),
    inert("putMessageFutureThreadPoolNums", min(_CPUS, 4), _POOL),
    inert("putThreadPoolQueueCapacity", 10000, _POOL),
    inert("pullMessageThreadPoolNums", 16 + 2 * _CPUS, _POOL),
    inert("processReplyMessageThreadPoolNums", 16 + 2 * _CPUS, _POOL),
    inert("queryMessageThreadPoolNums", 8 + _CPUS, _POOL),
    inert("clientManageThreadPoolNums", 32, _POOL),
    inert("consumerManageThreadPoolNums", 32, _POOL),
    inert("heartbeatThreadPoolNums", min(32, _CPUS), _POOL),
    inert("endTransactionThreadPoolNums", max(8 + 2 * _CPUS, 4 * min(_CPUS, 4)), _POOL),
    inert("adminBrokerThreadPoolNums", 16, _POOL),
    inert("serverWorkerThreads", 8, _NETTY),
    inert("serverCallbackExecutorThreads", 0, _NETTY),
    inert("serverSelectorThreads", 3, _NETTY),
    inert("serverOnewaySemaphoreValue", 256, _NETTY),
    inert("serverAsyncSemaphoreValue", 64, _NETTY),
    inert("serverSocketSndBufSize", 0, _NETTY),
    inert("serverSocketRcvBufSize", 0, _NETTY),
    inert("serverSocketBacklog", 1024, _NETTY),
    inert("serverPooledByteBufAllocatorEnable", True, _NETTY),
    inert("writeBufferHighWaterMark", 0, _NETTY),
    inert("writeBufferLowWaterMark", 0, _NETTY),
    inert("useEpollNativeSelector", False, _NETTY),
    inert("clientWorkerThreads", 4, _CLIENT),
    inert("clientCallbackExecutorThreads", _CPUS, _CLIENT),
    inert("clientOnewaySemaphoreValue", 65535, _CLIENT),
    inert("clientAsyncSemaphoreValue", 65535, _CLIENT),
    inert("connectTimeoutMillis", 3000, _CLIENT),
    inert("channelNotActiveInterval", 60000, _CLIENT),
    inert("clientChannelMaxIdleTimeSeconds", 120, _CLIENT),
    inert("clientSocketSndBufSize", 0, _CLIENT),
    inert("clientSocketRcvBufSize", 0, _CLIENT),
    inert("clientPooledByteBufAllocatorEnable", False, _CLIENT),
    inert("clientCloseSocketIfTimeout", True, _CLIENT),
)

BROKER = Table((*_IDENTITY, *_TOPICS, *_BOUNDS, *_CONSUMERS, *_REGISTRATION, *_TRANSACTIONS,
                *_FILTERS, *_STATISTICS, *_OVERLOAD, *_OURS, *_ACCESS, *TLS_SERVER,
                *TLS_CLIENT, *LOG_ROWS, *STORE_ROWS, *_INERT))  # fmt: skip
