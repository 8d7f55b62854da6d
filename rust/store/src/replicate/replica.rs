//! The slaves of a master, for the code that talks with them.

use std::sync::Arc;

use crate::store::Store;
use crate::types::StoreError;
use crate::write::ack::Acks;
use crate::write::replicas::{Acked, SlaveWait};

/// A connected slave. Dropping it withdraws its acknowledgement.
pub struct Replica {
    acks: Arc<Acks>,
    number: u64,
}

impl Replica {
    /// The slave has everything below `offset`. Settles the puts that waited for this, on this
    /// thread, which may hold no lock.
    pub fn acknowledge(&self, offset: u64) {
        let replicas = &self.acks.watermarks.replicas;
        replicas.change(|acked| {
            acked.insert(self.number, Acked::new(offset));
        });
        if replicas.are_awaited() {
            self.acks.settle_reached();
        }
    }

    /// The slave may be connected a second time: its acknowledgement settles no put until it sends
    /// the next one.
    pub fn doubt(&self) {
        let replicas = &self.acks.watermarks.replicas;
        replicas.change(|acked| {
            if let Some(own) = acked.get_mut(&self.number) {
                own.is_in_doubt = true;
            }
        });
    }

    /// The slave has left.
    pub fn withdraw(&self) {
        let replicas = &self.acks.watermarks.replicas;
        replicas.change(|acked| {
            acked.remove(&self.number);
        });
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        self.withdraw();
    }
}

impl Store {
    /// A slave has connected. It counts from its first acknowledgement on.
    pub fn add_replica(&self) -> Replica {
        let acks = &self.puts.flusher.acks;
        Replica {
            acks: Arc::clone(acks),
            number: acks.watermarks.replicas.new_number(),
        }
    }

    /// Whether puts wait for slaves.
    pub fn awaits_slaves(&self) -> bool {
        self.puts.flusher.acks.watermarks.replicas.are_awaited()
    }

    /// Changes which slaves later puts wait for. Puts that wait already are settled by the new
    /// number of slaves.
    pub fn set_slave_wait(&self, wait: SlaveWait) -> Result<(), StoreError> {
        if wait.timeout_ms < 1 {
            return Err(StoreError::Setting {
                key: "slaveTimeout",
                value: wait.timeout_ms.to_string(),
                what: "at least 1 millisecond",
            });
        }
        let acks = &self.puts.flusher.acks;
        acks.watermarks.replicas.set(wait);
        acks.settle_reached();
        Ok(())
    }
}
