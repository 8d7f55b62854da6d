//! A pull that outlives its frame: a long poll, or a pull that waits for the disk.

use std::sync::Arc;

use crate::clients::peers::Peer;
use crate::operations::pull::Pull;
use mq_format::remoting::ReplyTo;

/// A pull, and where its reply goes. Kept small, because a server may have a hundred thousand long
/// polls.
pub struct PullTask {
    pub(crate) peer: Arc<Peer>,
    pub(crate) to: ReplyTo,
    pub(crate) pull: Pull,
}

/// A pull for the cold-read threads.
pub type ColdPull = Box<PullTask>;

impl PullTask {
    /// Whether its client is gone.
    pub(crate) fn is_gone(&self) -> bool {
        self.peer.is_closing()
    }
}
