//! TLS handshakes that go on, and which of them gives way to a newer one.
//!
//! A client that begins a handshake always gets a place. When there is none, the connection is
//! closed whose client has been silent for longest, first among those whose first message is not
//! whole yet: whoever stalls gives way to whoever talks.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::conn::peers::{GaveWay, Peer};

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
    /// Its client's first message was whole.
    has_greeted: bool,
}

/// A handshake that goes on; it has one of the places until it is dropped.
pub(crate) struct Handshake {
    /// Then the connection is closed.
    pub deadline: Instant,
    /// Another handshake was given up for this one.
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

    /// Takes a place for the connection, if need be that of another one.
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
    /// The client's first message is whole: those of which it is not give way before it.
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
        // It may have given way.
        let found = going.iter().position(|one| one.peer.id == self.connection);
        let ended = found.map(|index| going.swap_remove(index));
        drop(going);
        drop(ended);
    }
}

/// The place of the handshake whose client sent its last byte longest ago, of one that has not even
/// sent a whole first message if there is any.
fn silent_longest(going: &[Going], may: impl Fn(&Going) -> bool) -> Option<usize> {
    let candidates = going.iter().enumerate().filter(|(_, one)| may(one));
    let longest = candidates
        .min_by_key(|(_, one)| (one.has_greeted, one.peer.last_read_ms(), one.peer.id))?;
    Some(longest.0)
}

/// Whom a handshake counts for. One host may have all addresses of an IPv6 network of 64 bits.
fn source_of(address: IpAddr) -> IpAddr {
    const HOST_BITS: u128 = u64::MAX as u128;
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & !HOST_BITS).into(),
    }
}
