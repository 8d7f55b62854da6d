//! What a master refuses, and how fast it sends.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

use super::pair::{Master, Slave, assert_equal, open, wait_until};
use crate::{HaMaster, MasterSettings};
use mq_store::{PutStatus, Role};

#[test]
fn a_limited_slave_gets_everything() {
    let master = Master::with(MasterSettings {
        bytes_per_second_max: 200_000,
        ..MasterSettings::default()
    });
    let slave = Slave::of(&master);
    master.wait_for_slaves(1);
    master.put(200, &[b'a'; 1_000]);
    assert_equal(&master, &slave);
}

#[test]
fn only_slaves_that_are_allowed_and_not_too_many_are_served() {
    let root = tempfile::tempdir().unwrap();
    let store = open(root.path(), Role::Master, false);
    let serve = |settings| {
        let ha = HaMaster::new(Arc::clone(&store), settings);
        let address = format!("127.0.0.1:{}", ha.start().unwrap());
        (ha, address)
    };
    let (ha, address) = serve(MasterSettings {
        allowed: crate::Allowed::parse(["10.0.0.0/8"]).unwrap(),
        ..MasterSettings::default()
    });
    let mut refused = TcpStream::connect(&address).unwrap();
    assert_eq!(refused.read(&mut [0]).unwrap(), 0);
    assert_eq!((ha.refused(), ha.slaves().len()), (1, 0));
    let (ha, address) = serve(MasterSettings {
        slaves_max: 1,
        ..MasterSettings::default()
    });
    let _first = TcpStream::connect(&address).unwrap();
    wait_until(|| ha.slaves().len() == 1, || "it joins".into());
    let mut second = TcpStream::connect(&address).unwrap();
    assert_eq!(second.read(&mut [0]).unwrap(), 0);
    assert_eq!((ha.refused(), ha.slaves().len()), (1, 1));
    assert!(ha.start().is_err(), "it listens already");
}

#[test]
fn an_acknowledgement_of_what_was_not_sent_ends_the_connection() {
    let master = Master::new(false);
    master.put(3, b"x");
    master.sync(1, 50);
    for reports in [
        vec![1_u64 << 40],
        vec![100, 1 << 40],
        vec![100, 99],
        vec![u64::MAX],
    ] {
        let mut peer = TcpStream::connect(&master.address).unwrap();
        for report in reports {
            peer.write_all(&report.to_be_bytes()).unwrap();
        }
        let mut rest = Vec::new();
        // It may be a reset: bytes were left unread.
        let _ = peer.read_to_end(&mut rest);
    }
    master.wait_for_slaves(0);
    assert_eq!(master.put(1, b"x"), [PutStatus::SlaveNotAvailable]);
}
