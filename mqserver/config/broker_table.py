"""The broker's settings: RocketMQ's BrokerConfig and Netty configurations, and our own keys.

Names and defaults come from RocketMQ 4.9.7. `store_table.py` has the settings of the store,
`replication_table.py` those of masters and slaves, and `listener_table.py` those that both servers
share; `BROKER` holds all.
"""

from __future__ import annotations

import os

from mqcommon import names
from mqserver.config.listener_table import ListenerSettings
from mqserver.config.log_table import LogSettings
from mqserver.config.replication_table import ReplicationSettings
from mqserver.config.store_table import STORE_INERT, StoreSettings
from mqserver.config.table import LATER, LONG_MAX, UNLISTED, Table, inert, ours, setting
from mqserver.config.tls_table import ClientTlsSettings, ServerTlsSettings

_CPUS = os.cpu_count() or 1
_POOL = "the Rust data plane and handoffThreads serve all requests"
_NETTY = "the Rust data plane does not use Netty"
_CLIENT = "the broker's outgoing connections do not use Netty"
_LATER = "not built yet"
_COMMERCIAL = "belongs to a commercial edition of RocketMQ"


class BrokerSettings(StoreSettings, ReplicationSettings, ListenerSettings):
    """All settings of the broker, except those for log files and TLS."""

    # fmt: off
    # the broker and its addresses
    broker_name: str = setting("brokerName", "",
        "name that a master shares with its slaves; empty: the machine's host name", important=True)
    broker_cluster_name: str = setting("brokerClusterName", "DefaultCluster",
        "cluster that the broker joins; commands and the console group brokers by it",
        important=True)
    broker_id: int = setting("brokerId", 0,
        "id under the broker name: 0 for a master, and a number of its own for each slave",
        ceiling=LONG_MAX, important=True)
    broker_ip1: str = setting("brokerIP1", "",
        "address that clients connect to; empty: the address of the network interface. Set it "
        "when clients reach the broker through NAT or a container network", important=True)
    broker_ip2: str = setting("brokerIP2", "",
        "address that slaves connect to; empty: brokerIP1")
    listen_port: int = setting("listenPort", 10911,
        "port that the broker listens on; 0: a free port", ceiling=65535, important=True)
    advertised_port: int = ours("advertisedPort", 0,
        "port that clients connect to; 0: the listener's. Set it when a proxy or a container maps "
        "the port", ceiling=65535)
    fast_port_enable: bool = ours("fastPortEnable", True,
        "listen on listenPort - 2 (RocketMQ's VIP channel) as well; that port serves no pulls")
    namesrv_addr: str = setting("namesrvAddr", "",
        "NameServers that the broker registers with, as host:port;host:port; empty: none, unless "
        "an address server lists them", online=True, important=True)
    fetch_namesrv_addr_by_address_server: bool = setting("fetchNamesrvAddrByAddressServer", False,
        "fetch the list of NameServers from an HTTP address server every two minutes; applies "
        "while namesrvAddr is empty", important=True)
    rocketmq_home: str = setting("rocketmqHome", "",
        "RocketMQ's home directory; the access files (ACL) are in conf/ below it")
    region_id: str = setting("regionId", "DefaultRegion",
        "region that each reply to a producer names (MSG_REGION)", online=True)

    # topics and groups
    broker_permission: int = setting("brokerPermission", 6,
        "what clients may do on this broker, as a sum: 4 read, 2 write; set it to 4 to drain the "
        "broker before maintenance", ceiling=15, online=True)
    default_topic_queue_nums: int = setting("defaultTopicQueueNums", 8,
        "most queues of a topic that a send creates (queues of the template topic TBW102)",
        unit="queues", floor=1, ceiling=65536)
    auto_create_topic_enable: bool = setting("autoCreateTopicEnable", True,
        "create an unknown topic when a producer first sends to it; false: an administrator "
        "creates every topic", online=True, important=True)
    auto_create_subscription_group: bool = setting("autoCreateSubscriptionGroup", True,
        "create an unknown consumer group at its first heartbeat or pull; false: an administrator "
        "creates every group", online=True, important=True)
    cluster_topic_enable: bool = setting("clusterTopicEnable", True,
        "let producers create topics from the template named after the cluster")
    broker_topic_enable: bool = setting("brokerTopicEnable", True,
        "let producers create topics from the template named after the broker")
    trace_topic_enable: bool = setting("traceTopicEnable", False,
        "create the topic for message traces at start", important=True)
    msg_trace_topic_name: str = setting("msgTraceTopicName", names.TRACE_TOPIC,
        "name of the topic for message traces", important=True)
    trace_on: bool = setting("traceOn", True,
        "tell producers in each reply that they may send traces (TRACE_ON)", online=True)
    reject_transaction_message: bool = setting("rejectTransactionMessage", False,
        "refuse half messages; producers can then send no transactions to this broker",
        online=True, important=True)
    start_accept_send_request_time_stamp: int = setting("startAcceptSendRequestTimeStamp", 0,
        "refuse sends before this wall-clock time, counted from 1970; 0: accept sends at once",
        unit="ms", ceiling=LONG_MAX, online=True)

    # limits on what clients can create
    auto_create_topic_max: int = ours("autoCreateTopicMax", 10_000,
        "stop creating topics on sends when the broker has this many, not counting built-in and "
        "retry topics; an administrator can still create more", online=True)
    auto_create_topic_per_second: int = ours("autoCreateTopicPerSecond", 100,
        "topics that sends may create per second; after a quiet time, a burst of ten times as "
        "many is allowed",
        unit="topics", floor=1, ceiling=1_000_000, online=True)
    auto_create_group_max: int = ours("autoCreateGroupMax", 10_000,
        "stop creating consumer groups on heartbeats, pulls and sends when the broker has this "
        "many; an administrator can still create more", online=True)
    source_share_percent: int = ours("sourceSharePercent", 50,
        "largest part of a bound that the clients of one source address may take: of "
        "autoCreateTopicMax, autoCreateTopicPerSecond, autoCreateGroupMax, unknownGroupOffsetMax, "
        "queueLockMax and maxSubscriptionBytes; 100: no address has a share. Clients on this "
        "machine and in adminAllowAddresses have none. Raise it when most clients come through one "
        "NAT or proxy",
        unit="percent", floor=1, ceiling=100, online=True)
    unused_unasked_hours: int = ours("unusedUnaskedHours", 24,
        "delete a topic that a send created, or a group that a client created, when it has had no "
        "message, no committed offset and no member for this long; also delete a committed offset "
        "whose group, topic or queue does not exist after this time, unless a client of this "
        "machine or of adminAllowAddresses made it. 0: never. What an administrator created or "
        "changed stays",
        unit="hours", ceiling=87_600, online=True)
    consumer_offset_max: int = ours("consumerOffsetMax", 1_000_000,
        "refuse new committed offsets when the broker stores this many, one per group and queue; "
        "a group can still update the offsets it has", online=True)
    unknown_group_offset_max: int = ours("unknownGroupOffsetMax", 100_000,
        "refuse a first committed offset for a group, topic or queue that the broker does not "
        "know, when the broker stores this many offsets", online=True)
    queue_lock_max: int = ours("queueLockMax", 100_000,
        "most queues that orderly consumers may have locked at a time", online=True)
    client_queue_lock_max: int = ours("clientQueueLockMax", 10_000,
        "most queues that one client may have locked at a time", online=True)
    client_group_max: int = ours("clientGroupMax", 1_000,
        "most producer and consumer groups that one connection may join",
        floor=1, online=True)
    max_heartbeat_bytes: int = ours("maxHeartbeatBytes", 1 << 20,
        "largest heartbeat that the broker accepts; the broker remembers up to twice as much per "
        "connection",
        unit="bytes", floor=4096, ceiling=64 << 20, online=True)
    max_subscription_bytes: int = ours("maxSubscriptionBytes", 128 << 20,
        "memory for the names, tags and expressions of all heartbeats; beyond it the broker "
        "refuses further groups and subscriptions",
        unit="bytes", floor=1 << 20, online=True)
    max_filter_bytes: int = ours("maxFilterBytes", 16 << 20,
        "largest size of consumerFilter.json; beyond it the broker drops the SQL92 expressions "
        "that were unused for longest", unit="bytes", floor=64 << 10, online=True)
    stats_item_max: int = ours("statsItemMax", 100_000,
        "most statistics items, a few for each topic and for each group and queue; the broker "
        "does not count what comes after", floor=1_000)

    # consumers
    long_polling_enable: bool = setting("longPollingEnable", True,
        "hold a pull that finds no message until one arrives; false: answer it after "
        "shortPollingTimeMills", online=True)
    short_polling_time_mills: int = setting("shortPollingTimeMills", 1000,
        "time to hold a pull that finds no message, when longPollingEnable is false",
        unit="ms", online=True)
    notify_consumer_ids_changed_enable: bool = setting("notifyConsumerIdsChangedEnable", True,
        "notify the members of a group when the group changes, so that they rebalance at once "
        "(request code 40)", online=True)
    slave_read_enable: bool = setting("slaveReadEnable", False,
        "suggest a slave to consumers that read messages no longer in memory", online=True)

    # registration at NameServers
    register_name_server_period: int = setting("registerNameServerPeriod", 30000,
        "interval between registrations at the NameServers; values outside 10,000 to 60,000 are "
        "clamped", unit="ms", online=True)
    register_broker_timeout_mills: int = setting("registerBrokerTimeoutMills", 6000,
        "longest time to wait for a NameServer's answer", unit="ms", floor=1, online=True)
    force_register: bool = setting("forceRegister", True,
        "register in each interval even if nothing changed; false: first ask whether the "
        "NameServer has the current topics", online=True)
    compressed_register: bool = setting("compressedRegister", False,
        "compress registrations; useful with many topics", online=True)

    # transactions
    transaction_time_out: int = setting("transactionTimeOut", 6000,
        "age at which the broker first asks the producer about a half message",
        unit="ms", online=True, important=True)
    transaction_check_max: int = setting("transactionCheckMax", 15,
        "give up on a half message after this many checks", online=True, important=True)
    transaction_check_interval: int = setting("transactionCheckInterval", 60_000,
        "interval between two checks for unfinished transactions",
        unit="ms", floor=1, online=True, important=True)
    end_transaction_pool_queue_capacity: int = setting("endTransactionPoolQueueCapacity", 100_000,
        "most commits and rollbacks of transactions that may wait; the broker answers busy to "
        "more", floor=1)

    # filters
    enable_property_filter: bool = setting("enablePropertyFilter", False,
        "let consumers filter messages with SQL92 expressions", online=True)
    filter_support_retry: bool = setting("filterSupportRetry", False,
        "apply SQL92 expressions to redelivered messages as well", online=True)
    enable_calc_filter_bit_map: bool = setting("enableCalcFilterBitMap", False,
        "store in the consume-queue extension which groups' SQL92 expressions each message "
        "satisfies, so that pulls can skip messages")
    expect_consumer_num_use_filter: int = setting("expectConsumerNumUseFilter", 32,
        "number of groups that the bloom filter is sized for", floor=1, ceiling=100_000)
    max_error_rate_of_bloom_filter: int = setting("maxErrorRateOfBloomFilter", 20,
        "false-positive rate that the bloom filter is sized for; a lower rate takes more bits",
        unit="%", floor=1, ceiling=99)
    filter_data_clean_time_span: int = setting("filterDataCleanTimeSpan", 86_400_000,
        "forget a filter that no consumer used for this long", unit="ms")

    # statistics
    enable_detail_stat: bool = setting("enableDetailStat", True,
        "count messages for each queue of the schedule topic as well")
    auto_delete_unused_stats: bool = setting("autoDeleteUnusedStats", False,
        "drop the statistics of a topic or group when it is deleted", online=True)

    # overload
    disable_consume_if_consumer_read_slowly: bool = setting(
        "disableConsumeIfConsumerReadSlowly", False,
        "stop a group from consuming when its backlog exceeds consumerFallbehindThreshold; an "
        "administrator allows it again", online=True)
    consumer_fallbehind_threshold: int = setting("consumerFallbehindThreshold", 16 << 30,
        "backlog of a group, measured in the commit log, at which "
        "disableConsumeIfConsumerReadSlowly stops it",
        unit="bytes", floor=1, ceiling=LONG_MAX, online=True)
    broker_fast_failure_enable: bool = setting("brokerFastFailureEnable", True,
        "refuse requests that waited in a queue for too long (waitTimeMills... below); false: let "
        "them wait", online=True)
    wait_time_mills_in_send_queue: int = setting("waitTimeMillsInSendQueue", 200,
        "longest time a send may wait before it is refused", unit="ms", floor=1, online=True)
    wait_time_mills_in_pull_queue: int = setting("waitTimeMillsInPullQueue", 5000,
        "longest time a pull may wait before it is refused", unit="ms", floor=1, online=True)
    wait_time_mills_in_heartbeat_queue: int = setting("waitTimeMillsInHeartbeatQueue", 31000,
        "longest time a heartbeat may wait before it is refused", unit="ms", floor=1, online=True)
    wait_time_mills_in_transaction_queue: int = setting("waitTimeMillsInTransactionQueue", 3000,
        "longest time a commit or rollback of a transaction may wait before it is refused",
        unit="ms", floor=1, online=True)

    # requests
    data_plane: str = ours("dataPlane", "native",
        "code that serves sends and pulls: native is fast, python is for comparison and debugging",
        choices=("native", "python"))
    registration_secret: str = ours("registrationSecret", "",
        "secret that signs registrations; use 16 characters or more and set the same secret on "
        "each NameServer; empty: registrations are not signed", secret=True)
    query_thread_pool_queue_capacity: int = setting("queryThreadPoolQueueCapacity", 20_000,
        "most message queries that may wait; the broker answers busy to more", floor=1)
    reply_thread_pool_queue_capacity: int = setting("replyThreadPoolQueueCapacity", 10_000,
        "most request-reply answers that may wait; the broker answers busy to more", floor=1)
    store_reply_message_enable: bool = setting("storeReplyMessageEnable", True,
        "store request-reply answers as messages as well as sending them to the client that asked",
        online=True)
    send_thread_pool_queue_capacity: int = setting("sendThreadPoolQueueCapacity", 10_000,
        "most sends that may wait; the broker answers busy to more", floor=1)
    pull_thread_pool_queue_capacity: int = setting("pullThreadPoolQueueCapacity", 100_000,
        "most pulls that may wait; the broker answers busy to more", floor=1)
    heartbeat_thread_pool_queue_capacity: int = setting("heartbeatThreadPoolQueueCapacity", 50_000,
        "most heartbeats that may wait; the broker answers busy to more", floor=1)
    client_manager_thread_pool_queue_capacity: int = setting(
        "clientManagerThreadPoolQueueCapacity", 1_000_000,
        "most client requests, such as unregistering, that may wait; the broker answers busy to "
        "more", floor=1)
    consumer_manager_thread_pool_queue_capacity: int = setting(
        "consumerManagerThreadPoolQueueCapacity", 1_000_000,
        "most requests about consumer offsets that may wait; the broker answers busy to more",
        floor=1)

    # access control
    acl_enable: bool = setting("aclEnable", False,
        "require an account and its signature on each request: docs/acl.md", important=True)
    acl_plain_file: str = setting("aclPlainFile", "conf/plain_acl.yml",
        "main access file (ACL), relative to rocketmqHome", known_to=UNLISTED)
    acl_white_list_skips_signature: bool = ours("aclWhiteListSkipsSignature", False,
        "accept requests from white-listed addresses without a signature, as RocketMQ does")
    use_tls: bool = setting("useTLS", False,
        "connect to the NameServers over TLS; not set: true if tls.server.mode is enforcing",
        aliases=("tls.enable",))
    # fmt: on
    client_tls: ClientTlsSettings

    @property
    def namesrv_addresses(self) -> list[str]:
        """The addresses of the NameServers, each as "host:port"."""
        return [part.strip() for part in self.namesrv_addr.split(";") if part.strip()]


_INERT = (
    inert(
        "configBlackList",
        "configBlackList;brokerConfigPath",
        "only keys marked online can change while the server runs",
        known_to=LATER,
    ),
    inert("flushConsumerOffsetHistoryInterval", 60000, "the broker keeps no history of offsets"),
    inert("maxDelayTime", 40, "RocketMQ does not use it either"),
    inert("isolateLogEnable", False, "RocketMQ does not use it either"),
    inert("transferMsgByHeap", True, "the broker always copies messages once, to the socket"),
    inert("highSpeedMode", False, "RocketMQ does not use it either"),
    inert("filterServerNums", 0, "RocketMQ 4.9 removed filter servers"),
    inert("messageStorePlugIn", "", "the broker has no JVM to load a plug-in"),
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
    listed_by="mqserver broker start -p",
)
