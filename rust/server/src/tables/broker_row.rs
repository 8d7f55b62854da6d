//! The broker's own settings, for native requests.

use std::net::SocketAddr;
use std::sync::OnceLock;

use crate::state::queue_locks::LockLimits;
use mq_format::remoting::{FLAG_RESPONSE, FieldValue, Prepared, PreparedReply, ReplyTo, Serialize};

/// The broker's own settings that native requests need.
#[derive(Debug, Clone)]
pub struct BrokerRow {
    /// `brokerPermission` bits.
    pub permission: i32,
    /// `regionId`, in every reply to a send.
    pub region_id: String,
    /// `traceOn`, in every reply to a send.
    pub trace_on: bool,
    /// `brokerClusterName`, stored with every message.
    pub cluster_name: String,
    /// `brokerName`, in the notice of a moved offset.
    pub broker_name: String,
    /// `longPollingEnable`.
    pub long_polling: bool,
    /// `shortPollingTimeMills`.
    pub short_polling_ms: i64,
    /// `maxMessageSize`, bytes of a body.
    pub max_message_bytes: usize,
    /// `startAcceptSendRequestTimeStamp`, milliseconds since the epoch.
    pub start_accept_ms: i64,
    /// `rejectTransactionMessage`: half messages are refused.
    pub reject_transaction: bool,
    /// Whether pulls may be sent to slaves.
    pub slave_read: bool,
    /// Whether this broker is a slave, which commits no offset that comes with a pull.
    pub is_slave: bool,
    /// `offsetCheckInSlave`: whether a slave corrects the offsets of pulls, as a master does.
    pub corrects_offsets: bool,
    /// `enablePropertyFilter`: whether SQL92 expressions are allowed.
    pub property_filter: bool,
    /// `filterSupportRetry`: whether expressions also filter retried messages.
    pub filter_retry: bool,
    /// The address that clients get, stored with every message.
    pub store_host: SocketAddr,
    /// False while the broker stops: sends are refused with 14.
    pub accepting: bool,
    /// `consumerOffsetMax`: with this many offsets, no new ones are stored.
    pub offsets_max: usize,
    /// `queueLockMax` and `clientQueueLockMax`.
    pub locks: LockLimits,
    /// Prepared replies to successful sends.
    pub stored: StoredReplies,
}

/// RocketMQ's defaults.
impl Default for BrokerRow {
    fn default() -> Self {
        Self {
            permission: 6,
            region_id: "DefaultRegion".into(),
            trace_on: true,
            cluster_name: "DefaultCluster".into(),
            broker_name: "broker-a".into(),
            long_polling: true,
            short_polling_ms: 1_000,
            max_message_bytes: 4_194_304,
            start_accept_ms: 0,
            reject_transaction: false,
            slave_read: false,
            is_slave: false,
            corrects_offsets: true,
            property_filter: false,
            filter_retry: false,
            store_host: SocketAddr::from(([127, 0, 0, 1], 10_911)),
            accepting: true,
            offsets_max: 1_000_000,
            locks: LockLimits::default(),
            stored: StoredReplies::default(),
        }
    }
}

/// Prepared replies to successful sends, which nearly all sends are; each is encoded at first use.
#[derive(Debug, Clone, Default)]
pub struct StoredReplies {
    json: OnceLock<PreparedReply>,
    binary: OnceLock<Prepared>,
}

impl BrokerRow {
    /// Appends the reply to a successful send; `open`: queue, message id and queue offset.
    pub(crate) fn encode_stored(&self, to: ReplyTo, open: [FieldValue<'_>; 3], out: &mut Vec<u8>) {
        match to.serialize {
            Serialize::Json => {
                let reply = &self.stored.json;
                let reply = reply.get_or_init(|| PreparedReply::new(&self.stored_fields()));
                reply.encode(to.opaque, &open, out);
            }
            Serialize::RocketMq => {
                let reply = &self.stored.binary;
                let reply = reply.get_or_init(|| Prepared::new(0, &self.stored_fields()));
                reply.encode(to.opaque, FLAG_RESPONSE, open.map(Some), &[], out);
            }
        }
    }

    /// Fields in the order on the wire; fields without a value differ between replies.
    fn stored_fields(&self) -> [(&str, Option<&str>); 5] {
        let trace_on = if self.trace_on { "true" } else { "false" };
        [
            ("queueId", None),
            ("TRACE_ON", Some(trace_on)),
            ("MSG_REGION", Some(&self.region_id)),
            ("msgId", None),
            ("queueOffset", None),
        ]
    }
}
