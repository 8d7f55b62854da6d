//! Saves how far consumers, delay delivery and the checkpoint have come.

use std::sync::Arc;

use crate::delay::deliver::Delay;
use crate::state::checkpoint::Checkpoint;
use crate::state::offsets::Offsets;
use crate::types::StoreError;
use crate::write::ack::Acks;
use mq_statefile::StateFiles;

/// The positions that a start continues from, and the files that hold them.
pub(crate) struct Positions {
    pub(crate) state: Arc<StateFiles>,
    pub(crate) offsets: Arc<Offsets>,
    pub(crate) delay: Arc<Delay>,
    pub(crate) checkpoint: Arc<Checkpoint>,
    pub(crate) acks: Arc<Acks>,
}

impl Positions {
    /// Saves consumer offsets, delay offsets and the checkpoint.
    pub(crate) fn save(&self) -> Result<(), StoreError> {
        self.save_delay()?;
        self.save_offsets()
    }

    /// Saves consumer offsets and the checkpoint.
    pub(crate) fn save_offsets(&self) -> Result<(), StoreError> {
        self.offsets.save(&self.state)?;
        self.checkpoint.flush()
    }

    /// Saves the delay offsets whose messages are durable.
    pub(crate) fn save_delay(&self) -> Result<(), StoreError> {
        self.delay.save(&self.state, self.acks.flushed())
    }
}
