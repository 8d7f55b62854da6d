//! The broker's own settings, for native requests.

use std::net::SocketAddr;
use std::sync::OnceLock;

use crate::format::remoting::PreparedReply;

/// The broker's own settings, as far as native requests need them.
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
    /// Pulls may be sent to slaves.
    pub slave_read: bool,
    /// `enablePropertyFilter`: SQL92 expressions are allowed.
    pub property_filter: bool,
    /// `filterSupportRetry`: messages that come again are filtered by expressions too.
    pub filter_retry: bool,
    /// The address clients are told, stored with every message.
    pub store_host: SocketAddr,
    /// False while the broker stops: sends are refused with 14.
    pub accepting: bool,
    /// The reply to a send that is stored, made with the first one.
    pub stored: OnceLock<PreparedReply>,
}

#[cfg(test)]
impl BrokerRow {
    /// A row with RocketMQ's defaults.
    pub(super) fn usual() -> Self {
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
            property_filter: false,
            filter_retry: false,
            store_host: "127.0.0.1:10911".parse().unwrap(),
            accepting: true,
            stored: OnceLock::default(),
        }
    }
}
