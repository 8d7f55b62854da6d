//! TLS handshakes in progress, and which of them is dropped for a newer one.
//!
//! A new handshake always gets a slot. If no slot is free, the connection whose client has been
//! silent for longest is closed. Clients whose first message is incomplete are closed first, so
//! that an active client displaces a stalled one.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::clients::peers::{GaveWay, Peer};

/// The handshakes of one server.
#[derive(Debug)]
pub(crate) struct Handshakes {
    going: Mutex<Vec<Going>>,
    max: usize,
    of_source_max: usize,
}

#[derive(Debug)]
struct Going {
    source: IpAddr,
    peer: Arc<Peer>,
    /// Whether the client's first message was complete.
    has_greeted: bool,
}

/// A handshake in progress; it occupies a slot until it is dropped.
pub(crate) struct Handshake {
    /// Time at which the connection is closed.
    pub deadline: Instant,
    /// Whether another handshake was dropped for this one.
    pub made_room: bool,
    has_greeted: bool,
    all: Arc<Handshakes>,
    connection: u64,
}

impl Handshakes {
    pub(crate) fn new(max: usize, of_source_max: usize) -> Arc<Self> {
        Arc::new(Self {
            going: Mutex::default(),
            max: max.max(1),
            of_source_max: of_source_max.max(1),
        })
    }

    /// Takes a slot for the connection, if necessary from another one.
    pub(crate) fn begin(self: &Arc<Self>, peer: &Arc<Peer>, deadline: Instant) -> Handshake {
        let source = source_of(peer.remote.ip());
        let mut going = self.going.lock();
        let of_source = going.iter().filter(|one| one.source == source).count();
        let silent = if of_source >= self.of_source_max {
            silent_longest(&going, |one| one.source == source)
        } else if going.len() >= self.max {
            silent_longest(&going, |_| true)
        } else {
            None
        };
        let closed = silent.map(|index| going.swap_remove(index).peer);
        going.push(Going {
            source,
            peer: Arc::clone(peer),
            has_greeted: false,
        });
        drop(going);
        if let Some(peer) = &closed {
            peer.give_way(GaveWay::Handshake);
        }
        Handshake {
            deadline,
            made_room: closed.is_some(),
            has_greeted: false,
            all: Arc::clone(self),
            connection: peer.id,
        }
    }
}

impl Handshake {
    /// Records that the client's first message is complete. Handshakes without one are dropped
    /// first.
    pub(crate) fn greeted(&mut self) {
        if std::mem::replace(&mut self.has_greeted, true) {
            return;
        }
        let mut going = self.all.going.lock();
        let found = going.iter_mut().find(|one| one.peer.id == self.connection);
        if let Some(one) = found {
            one.has_greeted = true;
        }
    }
}

impl Drop for Handshake {
    fn drop(&mut self) {
        let mut going = self.all.going.lock();
        // The handshake may have lost its slot already.
        let found = going.iter().position(|one| one.peer.id == self.connection);
        let ended = found.map(|index| going.swap_remove(index));
        drop(going);
        drop(ended);
    }
}

/// Index of the handshake whose client has been silent for longest. Handshakes without a complete
/// first message come first.
fn silent_longest(going: &[Going], may: impl Fn(&Going) -> bool) -> Option<usize> {
    let candidates = going.iter().enumerate().filter(|(_, one)| may(one));
    let longest = candidates
        .min_by_key(|(_, one)| (one.has_greeted, one.peer.last_read_ms(), one.peer.id))?;
    Some(longest.0)
}

/// The source that a handshake counts for. One host may own all addresses of an IPv6 /64 network.
fn source_of(address: IpAddr) -> IpAddr {
    const HOST_BITS: u128 = u64::MAX as u128;
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & !HOST_BITS).into(),
    }
}
