"""The settings of replication: what a master and its slaves promise, and how they connect."""

from __future__ import annotations

from mqserver.config.table import LONG_MAX, ROCKETMQ_5, Group, ours, setting

ASYNC_MASTER, SYNC_MASTER, SLAVE = "ASYNC_MASTER", "SYNC_MASTER", "SLAVE"
SLAVES_MAX = 16
"""Most slaves of one master."""


class ReplicationSettings(Group):
    """The settings of replication, with RocketMQ's keys and defaults where it has them."""

    # fmt: off
    # replication
    broker_role: str = setting("brokerRole", ASYNC_MASTER,
        "ASYNC_MASTER acknowledges a send without its slaves, SYNC_MASTER when inSyncReplicas "
        "slaves have the message; SLAVE copies a master and takes no sends",
        choices=(ASYNC_MASTER, SYNC_MASTER, SLAVE), important=True)
    ha_listen: bool = ours("haListen", True,
        "a master listens for slaves; false: it can have none")
    ha_listen_port: int = setting("haListenPort", 10912,
        "port that slaves connect to; not set: listenPort + 1 (RocketMQ 4.9 always uses that)",
        ceiling=65535)
    ha_allow_addresses: str = ours("haAllowAddresses", "",
        "networks (CIDR) that slaves may connect from, separated by commas; empty: this machine "
        "and private networks. Who connects gets every message, so open no other network")
    ha_master_address: str = setting("haMasterAddress", "",
        "address, as host:port, whose log a slave copies; empty: the NameServers name it",
        important=True)
    in_sync_replicas: int = setting("inSyncReplicas", 1,
        "slaves that must have a message before a SYNC_MASTER acknowledges it",
        floor=1, ceiling=SLAVES_MAX, known_to=ROCKETMQ_5)
    slave_timeout: int = setting("slaveTimeout", 3000,
        "longest time that a send to a SYNC_MASTER waits for slaves; then the answer is "
        "FLUSH_SLAVE_TIMEOUT, and the message is stored", unit="ms", floor=1)
    ha_slave_fallbehind_max: int = setting("haSlaveFallbehindMax", 268435456,
        "sends to a SYNC_MASTER are answered SLAVE_NOT_AVAILABLE at once, and are stored, while "
        "its slaves are further behind than this", unit="bytes", floor=1)
    ha_transfer_batch_size: int = setting("haTransferBatchSize", 32768,
        "most bytes of the log that a master sends to a slave in one frame",
        unit="bytes", floor=1024, ceiling=4 << 20)
    ha_max_bytes_per_second: int = ours("haMaxBytesPerSecond", 0,
        "most bytes of the log that a master sends to each slave in a second; 0: no limit",
        unit="bytes/s", ceiling=LONG_MAX)
    ha_send_heartbeat_interval: int = setting("haSendHeartbeatInterval", 5000,
        "longest silence of a replication connection, before one side sends a heartbeat",
        unit="ms", floor=100)
    ha_housekeeping_interval: int = setting("haHousekeepingInterval", 20000,
        "a replication connection is closed after this time without a word from the other side",
        unit="ms", floor=1000)
    ha_full_copy: bool = ours("haFullCopy", False,
        "an empty slave copies the master's whole log; false: as in RocketMQ, from the start of "
        "the master's last file")
    ha_ack_flushed: bool = ours("haAckFlushed", False,
        "a slave flushes messages to its disk before it acknowledges them, also with ASYNC_FLUSH; "
        "false: as in RocketMQ, it acknowledges messages in memory. Set it on the slaves")
    ha_tls_enable: bool = ours("haTlsEnable", False,
        "replication under TLS, between brokers of mqstack: a master shows tls.server.certPath, "
        "a slave checks it by tls.client.*. Set it on all brokers of a name; RocketMQ's brokers "
        "have no TLS here")
    ha_copy_acl: bool = ours("haCopyAcl", False,
        "a slave with aclEnable copies the access files of its master, of mqstack, and deletes its "
        "other ones. It signs with the admin account of conf/tools.yml below rocketmqHome; the "
        "master must have its network in adminAllowAddresses")
    offset_check_in_slave: bool = setting("offsetCheckInSlave", False,
        "a slave corrects the offset of a pull that its queue does not have; false: it lets the "
        "consumer ask again, as its copy may be behind")
    # fmt: on

    @property
    def is_slave(self) -> bool:
        """Whether the broker copies a master, and takes no sends."""
        return self.broker_role == SLAVE

    @property
    def corrects_offsets(self) -> bool:
        """Whether the broker corrects the offset of a pull that a queue does not have."""
        return not self.is_slave or self.offset_check_in_slave

    @property
    def replicas_awaited(self) -> int:
        """Slaves that must have a message before its send is acknowledged."""
        return self.in_sync_replicas if self.broker_role == SYNC_MASTER else 0
