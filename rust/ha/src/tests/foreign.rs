//! A slave that is pointed at another master of the same name, with which its log has no overlap.

use std::sync::Arc;

use super::pair::{FILE, Master, Slave, open, wait_until};
use crate::protocol::simulation::record;
use crate::{HaMaster, MasterSettings, SlaveState};
use mq_store::Role;

#[test]
fn a_later_log_with_older_messages_is_refused() {
    let master = Master::new(false);
    master.put(3, b"x");
    let slave = Slave::of(&master);
    let end = master.store.max_physical_offset();
    slave.wait_for(end);
    let root = tempfile::tempdir().unwrap();
    let other = open(root.path(), Role::Slave, false);
    let start = 3 * FILE;
    let old = record(start, 150, 1_000);
    other.append_raw(start, &old, Some(1_000)).unwrap();
    let ha = HaMaster::new(Arc::clone(&other), MasterSettings::default());
    let address = format!("127.0.0.1:{}", ha.start().unwrap());
    slave.ha.set_master(Some(address), None);
    slave.ha.note_master_range(start, start + 150);
    let reason = || slave.ha.status().reason;
    wait_until(|| reason().contains("of another master"), reason);
    assert!(reason().contains(&format!("begins at {start}")));
    assert!(reason().contains(&format!("ends at {end}")));
    slave.wait_for_state(SlaveState::Refused);
    assert_eq!(slave.store.max_physical_offset(), end);
    // Its own master is followed again.
    slave.ha.set_master(Some(master.address.clone()), None);
    master.put(3, b"y");
    slave.wait_for(master.store.max_physical_offset());
}
