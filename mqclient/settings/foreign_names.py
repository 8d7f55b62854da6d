"""What options and arguments of Kafka's, RocketMQ's Java and NATS's clients are called here.

An error for an unknown name shows it, because the nearest name may be another thing.
"""

import re
from collections.abc import Mapping
from difflib import get_close_matches

__all__ = ["hint_of"]

_OURS = {
    # Kafka: aiokafka and kafka-python; confluent-kafka writes dots.
    "bootstrap_servers": "namesrv",
    "group_id": "group",
    "enable_auto_commit": "commit_interval=None, to commit only by commit()",
    "auto_commit_interval_ms": "commit_interval, in seconds",
    "auto_offset_reset": "consume_from",
    "max_poll_records": "batch_size|poll(max_messages) says how many; leave it out",
    "max_poll_interval_ms": "a slow loop loses no queues; leave it out",
    "session_timeout_ms": "a slow loop loses no queues; leave it out",
    "fetch_max_wait_ms": "pull.long_poll_timeout, in seconds",
    "request_timeout_ms": "connection.request_timeout, in seconds",
    "heartbeat_interval_ms": "connection.heartbeat_interval, in seconds",
    "metadata_max_age_ms": "connection.route_poll_interval, in seconds",
    "partition_assignment_strategy": "allocate",
    "value_serializer": "serializer",
    "value_deserializer": "deserializer",
    "linger_ms": "linger=Linger(seconds)",
    "compression_type": "compression=Compression('zstd')",
    "retries": "retry.max_retries",
    "acks": "result.raise_for_status() tells how durable a message is; leave it out",
    "security_protocol": "tls=TlsConfig(...)",
    "ssl_context": "tls=TlsConfig(...)",
    "sasl_plain_username": "credentials=Credentials(name, secret)",
    "sasl_plain_password": "credentials=Credentials(name, secret)",
    # RocketMQ's Java and C++ clients, in Java's spelling and in Python's.
    "namesrv_addr": "namesrv",
    "name_server": "namesrv",
    "name_server_address": "namesrv",
    "consumer_group": "group",
    "producer_group": "group",
    "group_name": "group",
    "max_reconsume_times": "max_retries",
    "consume_thread_min": "threads",
    "consume_thread_max": "threads",
    "consume_message_batch_max_size": "batch_size",
    "consume_from_where": "consume_from",
    "message_model": "model",
    "allocate_message_queue_strategy": "allocate",
    "send_msg_timeout": "timeout, in seconds",
    "retry_times_when_send_failed": "retry.max_retries",
    "compress_msg_body_over_howmuch": "compression.threshold",
    "max_message_size": "body_bytes_max",
    "pull_batch_size": "pull.batch",
    "pull_interval": "pull.interval, in seconds|only push consumers pause; leave it out",
    "broker_suspend_max_time_millis": "pull.long_poll_timeout, in seconds",
    "suspend_current_queue_time_millis": "orderly.retry_delay, in seconds",
    "mq_client_api_timeout": "connection.request_timeout, in seconds",
    "poll_name_server_interval": "connection.route_poll_interval, in seconds",
    "heartbeat_broker_interval": "connection.heartbeat_interval, in seconds",
    "check_thread_pool_max_size": "check_limits.concurrency",
    "check_request_hold_max": "check_limits.queue_max",
    "persist_consumer_offset_interval": "commit_interval, in seconds",
    "instance_name": "client_id.instance",
    "unit_name": "client_id.unit",
    "vip_channel_enabled": "clients use the main port; leave it out",
    "access_key": "credentials=Credentials(access_key, secret_key)",
    "secret_key": "credentials=Credentials(access_key, secret_key)",
    # NATS, and worker libraries.
    "topic": "topic|topics|messages and subscriptions name their topic; leave it out",
    "servers": "namesrv",
    "durable": "group",
    "queue_group": "group",
    "ack_wait": "consume_timeout",
    "max_deliver": "max_retries",
    "deliver_policy": "consume_from",
    "concurrency": "threads",
    "max_workers": "threads",
    "prefetch_count": "limits.queue_messages",
}
_SPELT = {name.replace("_", ""): ours for name, ours in _OURS.items()}
_NOTHING = "leave it out"


def hint_of(name: str, known: Mapping[str, str]) -> str:
    """The end of an error for an unknown name; "" if no known one is meant.

    known: how the options here are written, by name; a part of a value has a dotted name:
    "pull.batch". A foreign name may be spelt as in Java or with dots: groupId, group.id.
    """
    for ours in _SPELT.get(name.lower().replace("_", "").replace(".", ""), "").split("|"):
        if ours.endswith(_NOTHING):
            return f"; {ours}"
        place = re.split(r"[^\w.]", ours, maxsplit=1)[0]
        if place in known:
            return f"; here it is {known[place]}{ours.removeprefix(place)}"
    written = {place.rpartition(".")[2]: how for place, how in known.items()}
    near = get_close_matches(name, sorted(written), 1)
    return f"; did you mean {written[near[0]]}?" if near else ""
