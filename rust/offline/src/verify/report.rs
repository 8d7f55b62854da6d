//! The result of a check.

/// A fault or a notice of `Scan::verify`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// A stable word: `record`, `crc`, `physical_offset`, `store_time`, `delay_time`, `log_end`,
    /// `log_tail`, `queue_entry`, `queue_missing`, `queue_offset`, `index_entry`, `index_header`,
    /// `index_slot`, `index_layout`, `index_missing`, `checkpoint`, `closed`, `state`, `offset`,
    /// `file`.
    pub kind: &'static str,
    /// The file or the queue.
    pub place: String,
    /// Physical offset, or queue offset for a queue; -1 if the finding has none.
    pub offset: i64,
    /// The actual and the expected state.
    pub what: String,
}

/// Counts and findings of `Scan::verify`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Report {
    /// Valid records.
    pub records: u64,
    /// Bytes of valid records.
    pub record_bytes: u64,
    /// Checked queue entries.
    pub queue_entries: u64,
    /// Checked units of the queues' extension.
    pub extension_units: u64,
    /// Checked index entries.
    pub index_entries: u64,
    /// Checked committed offsets and delay offsets.
    pub offsets: u64,
    /// End of the last valid record, bytes.
    pub log_end: u64,
    /// Damage; at most [`FINDINGS_MAX`] findings are kept.
    pub findings: Vec<Finding>,
    /// Number of all findings, including those that were not kept.
    pub finding_count: u64,
    /// Facts that are no damage, at most [`FINDINGS_MAX`]: the next open handles them, or an
    /// operator should know them.
    pub notices: Vec<Finding>,
}

/// Most findings a report keeps.
pub const FINDINGS_MAX: usize = 1_000;
