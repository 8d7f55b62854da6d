//! Bits of the system flag.

/// The body is compressed.
pub const COMPRESSED: i32 = 0x1;
/// Mask of the transaction type.
pub const TRANSACTION_MASK: i32 = 0xC;
/// A half message.
pub const PREPARED: i32 = 0x4;
/// A committed message.
pub const COMMIT: i32 = 0x8;
/// A rolled-back message: never queued or indexed.
pub const ROLLBACK: i32 = 0xC;
/// The born host is an IPv6 address.
pub const BORN_HOST_V6: i32 = 0x10;
/// The store host is an IPv6 address.
pub const STORE_HOST_V6: i32 = 0x20;

/// Whether a transaction was rolled back. Records that replace damaged ones count as rolled back
/// too.
pub fn is_rollback(sys_flag: i32) -> bool {
    sys_flag & TRANSACTION_MASK == ROLLBACK
}

/// Whether messages of this type enter their queue and get a queue offset.
#[inline]
pub fn is_queued(sys_flag: i32) -> bool {
    matches!(sys_flag & TRANSACTION_MASK, 0 | COMMIT)
}
