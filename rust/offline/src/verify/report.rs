//! What a check of a store found.

/// Something wrong, found by `Scan::verify`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// A stable word: `record`, `crc`, `physical_offset`, `store_time`, `delay_time`, `log_end`,
    /// `log_tail`, `queue_entry`, `queue_missing`, `queue_offset`, `index_entry`, `index_header`,
    /// `index_slot`, `index_layout`, `index_missing`, `checkpoint`, `closed`, `state`, `offset`,
    /// `file`.
    pub kind: &'static str,
    /// File or queue it is in.
    pub place: String,
    /// Physical offset (or queue offset for queue findings), -1 when it has none.
    pub offset: i64,
    /// What was found and what was expected.
    pub what: String,
}

/// What `Scan::verify` counted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Report {
    /// Good records.
    pub records: u64,
    /// Their bytes.
    pub record_bytes: u64,
    /// Queue units looked at.
    pub queue_entries: u64,
    /// Units of the queues' extension looked at.
    pub extension_units: u64,
    /// Index entries looked at.
    pub index_entries: u64,
    /// Committed and delay offsets looked at.
    pub offsets: u64,
    /// Where the last good record ends, bytes.
    pub log_end: u64,
    /// Findings, at most [`FINDINGS_MAX`]: damage.
    pub findings: Vec<Finding>,
    /// All findings, those left out included.
    pub finding_count: u64,
    /// What is no damage: the next open mends it, or it only needs attention. As many at most.
    pub notices: Vec<Finding>,
}

/// Most findings a report keeps.
pub const FINDINGS_MAX: usize = 1_000;
