"""The broker's settings: RocketMQ's BrokerConfig and Netty configs, and our own keys.

Names and defaults are those of RocketMQ 4.9.7. The store's settings are in `store_table.py`, those
that both servers have in `listener_table.py`; `BROKER` holds all.
"""

from __future__ import annotations

import os

from mqserver.config.listener_table import ListenerSettings
from mqserver.config.log_table import LogSettings
from mqserver.config.store_table import STORE_INERT, StoreSettings
from mqserver.config.table import LATER, LONG_MAX, UNLISTED, Table, inert, ours, setting
from mqserver.config.tls_table import ClientTlsSettings, ServerTlsSettings
from mqstore import names

_CPUS = os.cpu_count() or 1
_POOL = "the compiled plane and a few hand-off threads serve all requests"
_NETTY = "the compiled plane has no such knob"
_CLIENT = "the broker's outgoing connections have no such knob"
_LATER = "not built yet"
_COMMERCIAL = "a hook of a commercial product"


class BrokerSettings(StoreSettings, ListenerSettings):
    """What the broker is told."""

    # fmt: off
    # the broker and its addresses
    broker_name: str = setting("brokerName", "",
        "name of the master and its slaves; empty: the host's name", important=True)
    broker_cluster_name: str = setting("brokerClusterName", "DefaultCluster",
        "cluster the broker belongs to", important=True)
    broker_id: int = setting("brokerId", 0, "0 is the master", ceiling=LONG_MAX, important=True)
    broker_ip1: str = setting("brokerIP1", "",
        "address clients are told; empty: the interface's", important=True)
    broker_ip2: str = setting("brokerIP2", "", "address slaves are told; empty: as brokerIP1")
    listen_port: int = setting("listenPort", 10911,
        "port of the listener; 0 picks a free one", ceiling=65535, important=True)
    advertised_port: int = ours("advertisedPort", 0,
        "port clients are told; 0: the listener's", ceiling=65535)
    fast_port_enable: bool = ours("fastPortEnable", True,
        "also listen on listenPort-2 (VIP), without pull")
    namesrv_addr: str = setting("namesrvAddr", "",
        "NameServers, host:port;host:port", online=True, important=True)
    fetch_namesrv_addr_by_address_server: bool = setting("fetchNamesrvAddrByAddressServer", False,
        "without namesrvAddr, ask an HTTP address server every two minutes", important=True)
    rocketmq_home: str = setting("rocketmqHome", "",
        "RocketMQ's home: access files are in conf/ below it")
    region_id: str = setting("regionId", "DefaultRegion",
        "told to producers as MSG_REGION", online=True)

    # topics and groups
    broker_permission: int = setting("brokerPermission", 6,
        "4 read + 2 write", ceiling=15, online=True)
    default_topic_queue_nums: int = setting("defaultTopicQueueNums", 8,
        "queues of the template TBW102", unit="queues", floor=1, ceiling=65536)
    auto_create_topic_enable: bool = setting("autoCreateTopicEnable", True,
        "create a topic at the first send", online=True, important=True)
    auto_create_subscription_group: bool = setting("autoCreateSubscriptionGroup", True,
        "create a group at its first heartbeat or pull", online=True, important=True)
    cluster_topic_enable: bool = setting("clusterTopicEnable", True,
        "the cluster's topic is a template")
    broker_topic_enable: bool = setting("brokerTopicEnable", True,
        "the broker's topic is a template")
    trace_topic_enable: bool = setting("traceTopicEnable", False,
        "create the trace topic", important=True)
    msg_trace_topic_name: str = setting("msgTraceTopicName", names.TRACE_TOPIC,
        "the trace topic", important=True)
    trace_on: bool = setting("traceOn", True, "told to producers as TRACE_ON", online=True)
    reject_transaction_message: bool = setting("rejectTransactionMessage", False,
        "refuse half messages", online=True, important=True)
    start_accept_send_request_time_stamp: int = setting("startAcceptSendRequestTimeStamp", 0,
        "refuse sends before this time", unit="ms", ceiling=LONG_MAX, online=True)

    # what clients may make up
    auto_create_topic_max: int = ours("autoCreateTopicMax", 10_000,
        "topics, without built-in and retry topics, from which on sends create no more; an "
        "administrator still does", online=True)
    auto_create_topic_per_second: int = ours("autoCreateTopicPerSecond", 100,
        "topics that sends may create in a second; after a pause ten times as many at once",
        unit="topics", floor=1, ceiling=1_000_000, online=True)
    auto_create_group_max: int = ours("autoCreateGroupMax", 10_000,
        "consumer groups from which on heartbeats, pulls and sends create no more; an "
        "administrator still does", online=True)
    consumer_offset_max: int = ours("consumerOffsetMax", 1_000_000,
        "committed offsets, one for each group and queue, from which on new ones are refused; a "
        "group goes on in the queues where it has one", online=True)
    unknown_group_offset_max: int = ours("unknownGroupOffsetMax", 100_000,
        "committed offsets from which on a group, topic or queue that the broker does not know "
        "gets no new one", online=True)
    queue_lock_max: int = ours("queueLockMax", 100_000,
        "queues locked by orderly consumers at once", online=True)
    client_queue_lock_max: int = ours("clientQueueLockMax", 10_000,
        "queues that one client may have locked", online=True)
    client_group_max: int = ours("clientGroupMax", 1_000,
        "groups of producers and consumers that one connection may be in",
        floor=1, online=True)
    max_heartbeat_bytes: int = ours("maxHeartbeatBytes", 1 << 20,
        "longest heartbeat; twice as much is remembered of one connection's heartbeats",
        unit="bytes", floor=4096, ceiling=64 << 20, online=True)
    max_subscription_bytes: int = ours("maxSubscriptionBytes", 128 << 20,
        "most that is remembered of all heartbeats: names, tags and expressions",
        unit="bytes", floor=1 << 20, online=True)
    max_filter_bytes: int = ours("maxFilterBytes", 16 << 20,
        "most that consumerFilter.json keeps; where more SQL92 expressions come, those that nobody"
        " used for longest are forgotten", unit="bytes", floor=64 << 10, online=True)
    stats_item_max: int = ours("statsItemMax", 100_000,
        "items of the statistics, a few for each topic and each group and queue; what comes after "
        "them is not counted", floor=1_000)

    # consumers
    long_polling_enable: bool = setting("longPollingEnable", True,
        "hold pulls that find nothing", online=True)
    short_polling_time_mills: int = setting("shortPollingTimeMills", 1000,
        "hold time without long polling", unit="ms", online=True)
    notify_consumer_ids_changed_enable: bool = setting("notifyConsumerIdsChangedEnable", True,
        "send 40 when a group changes", online=True)
    slave_read_enable: bool = setting("slaveReadEnable", False,
        "suggest slaves to slow consumers", online=True)

    # registration at NameServers
    register_name_server_period: int = setting("registerNameServerPeriod", 30000,
        "register again; clamped to 10,000-60,000", unit="ms", online=True)
    register_broker_timeout_mills: int = setting("registerBrokerTimeoutMills", 6000,
        "wait for a NameServer's answer", unit="ms", floor=1, online=True)
    force_register: bool = setting("forceRegister", True,
        "register even if nothing changed", online=True)
    compressed_register: bool = setting("compressedRegister", False,
        "compress registrations", online=True)

    # transactions
    transaction_time_out: int = setting("transactionTimeOut", 6000,
        "a half message older than this is asked about", unit="ms", online=True, important=True)
    transaction_check_max: int = setting("transactionCheckMax", 15,
        "asked so often, it is given up", online=True, important=True)
    transaction_check_interval: int = setting("transactionCheckInterval", 60_000,
        "pause between two checks", unit="ms", floor=1, online=True, important=True)
    end_transaction_pool_queue_capacity: int = setting("endTransactionPoolQueueCapacity", 100_000,
        "ends of transactions that may wait", floor=1)

    # filters
    enable_property_filter: bool = setting("enablePropertyFilter", False,
        "consumers may filter by SQL92 expressions", online=True)
    filter_support_retry: bool = setting("filterSupportRetry", False,
        "messages that come again are filtered by expressions too", online=True)
    enable_calc_filter_bit_map: bool = setting("enableCalcFilterBitMap", False,
        "the consume-queue extension keeps which groups' expressions a message satisfies")
    expect_consumer_num_use_filter: int = setting("expectConsumerNumUseFilter", 32,
        "groups the bloom filter is made for", floor=1, ceiling=100_000)
    max_error_rate_of_bloom_filter: int = setting("maxErrorRateOfBloomFilter", 20,
        "its error rate", unit="%", floor=1, ceiling=99)
    filter_data_clean_time_span: int = setting("filterDataCleanTimeSpan", 86_400_000,
        "a filter nobody used for so long is forgotten", unit="ms")

    # statistics
    enable_detail_stat: bool = setting("enableDetailStat", True,
        "statistics of each queue of the schedule topic")
    auto_delete_unused_stats: bool = setting("autoDeleteUnusedStats", False,
        "statistics go with their topic or group", online=True)

    # overload
    disable_consume_if_consumer_read_slowly: bool = setting(
        "disableConsumeIfConsumerReadSlowly", False,
        "groups that are too far behind may not consume any more", online=True)
    consumer_fallbehind_threshold: int = setting("consumerFallbehindThreshold", 16 << 30,
        "too far, of the log", unit="bytes", floor=1, ceiling=LONG_MAX, online=True)
    broker_fast_failure_enable: bool = setting("brokerFastFailureEnable", True,
        "refuse requests that waited for too long", online=True)
    wait_time_mills_in_send_queue: int = setting("waitTimeMillsInSendQueue", 200,
        "a send may wait so long", unit="ms", floor=1, online=True)
    wait_time_mills_in_pull_queue: int = setting("waitTimeMillsInPullQueue", 5000,
        "a pull may wait so long", unit="ms", floor=1, online=True)
    wait_time_mills_in_heartbeat_queue: int = setting("waitTimeMillsInHeartbeatQueue", 31000,
        "a heartbeat may wait so long", unit="ms", floor=1, online=True)
    wait_time_mills_in_transaction_queue: int = setting("waitTimeMillsInTransactionQueue", 3000,
        "the end of a transaction may wait so long", unit="ms", floor=1, online=True)

    # requests
    data_plane: str = ours("dataPlane", "native",
        "who serves send and pull", choices=("native", "python"))
    registration_secret: str = ours("registrationSecret", "",
        "sign registrations at NameServers; set the same secret, of 16 characters or more, on each"
        " of them", secret=True)
    query_thread_pool_queue_capacity: int = setting("queryThreadPoolQueueCapacity", 20_000,
        "queries that may wait", floor=1)
    reply_thread_pool_queue_capacity: int = setting("replyThreadPoolQueueCapacity", 10_000,
        "replies to requests that may wait", floor=1)
    store_reply_message_enable: bool = setting("storeReplyMessageEnable", True,
        "replies to requests are stored as well", online=True)
    send_thread_pool_queue_capacity: int = setting("sendThreadPoolQueueCapacity", 10_000,
        "sends that may wait", floor=1)
    pull_thread_pool_queue_capacity: int = setting("pullThreadPoolQueueCapacity", 100_000,
        "pulls that may wait", floor=1)
    heartbeat_thread_pool_queue_capacity: int = setting("heartbeatThreadPoolQueueCapacity", 50_000,
        "heartbeats that may wait", floor=1)
    client_manager_thread_pool_queue_capacity: int = setting(
        "clientManagerThreadPoolQueueCapacity", 1_000_000,
        "client calls that may wait", floor=1)
    consumer_manager_thread_pool_queue_capacity: int = setting(
        "consumerManagerThreadPoolQueueCapacity", 1_000_000,
        "offset calls that may wait", floor=1)

    # access control
    acl_enable: bool = setting("aclEnable", False,
        "requests need an account and its signature: docs/acl.md", important=True)
    acl_plain_file: str = setting("aclPlainFile", "conf/plain_acl.yml",
        "main access file, from rocketmqHome", known_to=UNLISTED)
    acl_white_list_skips_signature: bool = ours("aclWhiteListSkipsSignature", False,
        "a white address needs no signature, as in RocketMQ")
    use_tls: bool = setting("useTLS", False,
        "speak TLS with NameServers; not set: true if tls.server.mode is enforcing",
        aliases=("tls.enable",))
    # fmt: on
    client_tls: ClientTlsSettings

    @property
    def namesrv_addresses(self) -> list[str]:
        """The NameServers, "host:port" each."""
        return [part.strip() for part in self.namesrv_addr.split(";") if part.strip()]


_INERT = (
    inert(
        "configBlackList",
        "configBlackList;brokerConfigPath",
        "only listed keys change online",
        known_to=LATER,
    ),
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

BROKER = Table(
    *BrokerSettings.rows().values(),
    *ServerTlsSettings.rows().values(),
    *ClientTlsSettings.rows().values(),
    *LogSettings.rows().values(),
    *STORE_INERT,
    *_INERT,
)
