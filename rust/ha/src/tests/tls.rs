//! Pairs under TLS, and pairs of which one side only has it.

use std::io::Write;
use std::net::TcpStream;
use std::sync::Arc;

use rustls::{ClientConfig, ServerConfig};

use super::pair::{Master, Slave, assert_equal, settings, wait_until};
use crate::{MasterSettings, SlaveSettings};
use mq_net::tls_config::{ClientAuth, ClientTls, ServerTls, Verify};
use mq_store::PutStatus;

fn of_master() -> Arc<ServerConfig> {
    let shown = ServerTls {
        identity: None,
        client_auth: ClientAuth::None,
        trust: None,
    };
    shown.load().unwrap()
}

fn of_slave() -> Arc<ClientConfig> {
    let trusted = ClientTls {
        trust: None,
        identity: None,
        verify: Verify::Nothing,
    };
    trusted.load().unwrap()
}

fn master(tls: Option<Arc<ServerConfig>>) -> Master {
    Master::with(MasterSettings {
        tls,
        ..MasterSettings::default()
    })
}

fn slave_of(master: &Master, tls: Option<Arc<ClientConfig>>) -> Slave {
    let settings = SlaveSettings { tls, ..settings() };
    let slave = Slave::with(tempfile::tempdir().unwrap(), false, settings);
    slave.ha.set_master(Some(master.address.clone()), Some(0));
    slave
}

#[test]
fn a_pair_under_tls_copies_and_acknowledges() {
    let master = master(Some(of_master()));
    master.put(200, &[b'a'; 1_000]);
    let slave = slave_of(&master, Some(of_slave()));
    slave.wait_for(master.store.max_physical_offset());
    master.sync(1, 60_000);
    assert_eq!(master.put(50, &[b'b'; 1_000]), [PutStatus::Ok; 50]);
    assert_equal(&master, &slave);
    // Another certificate is for the next connection.
    master.ha.renew_tls(of_master());
    slave.ha.renew_tls(of_slave());
    slave.ha.set_master(None, None);
    slave.ha.set_master(Some(master.address.clone()), Some(0));
    wait_until(|| slave.ha.status().connects == 2, || "it connects".into());
    master.wait_for_slaves(1);
    assert_eq!(master.put(1, b"c"), [PutStatus::Ok]);
}

#[test]
fn a_side_without_tls_says_what_to_set() {
    let plain_and_secured = [(None, Some(of_slave())), (Some(of_master()), None)];
    for (of_master, of_slave) in plain_and_secured {
        let master = master(of_master);
        master.put(3, b"x");
        let slave = slave_of(&master, of_slave);
        let reason = || slave.ha.status().reason;
        wait_until(|| reason().contains("haTlsEnable"), reason);
        assert_eq!(slave.store.raw_range().1, 0);
    }
}

#[test]
fn the_lag_in_time_is_the_age_of_what_is_missing() {
    let master = master(None);
    master.put(3, b"x");
    let slave = slave_of(&master, None);
    slave.wait_for(master.store.max_physical_offset());
    let is_level = || master.ha.slaves()[0].lag_ms == Some(0);
    wait_until(is_level, || format!("{:?}", master.ha.slaves()));
    wait_until(
        || slave.ha.status().lag_ms == Some(0),
        || format!("{:?}", slave.ha.status()),
    );
    slave.ha.set_master(None, None);
    wait_until(|| master.ha.slaves().is_empty(), || "it leaves".into());
    master.put(3, b"y");
    let grows = || slave.ha.status().lag_ms > Some(0);
    wait_until(grows, || format!("{:?}", slave.ha.status()));
    let stuck = TcpStream::connect(&master.address).unwrap();
    let end = slave.store.raw_range().1;
    (&stuck).write_all(&end.to_be_bytes()).unwrap();
    master.wait_for_slaves(1);
    wait_until(
        || master.ha.slaves()[0].lag_ms > Some(0),
        || format!("{:?}", master.ha.slaves()),
    );
}
