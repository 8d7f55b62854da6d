//! When connections are accepted. Clients may connect earlier; they wait in the kernel's queue.

use tokio::sync::watch;

/// Open, unless `close` was called.
#[derive(Debug)]
pub struct Gate(watch::Sender<bool>);

impl Default for Gate {
    /// An open gate.
    fn default() -> Self {
        Self(watch::Sender::new(true))
    }
}

impl Gate {
    /// Blocks every task in `passed` from now on.
    pub fn close(&self) {
        self.0.send_replace(false);
    }

    /// Lets all tasks continue.
    pub fn open(&self) {
        self.0.send_replace(true);
    }

    /// Returns when the gate is open.
    pub async fn passed(&self) {
        // `wait_for` fails only without a sender, and `self.0` is the sender.
        let _ = self.0.subscribe().wait_for(|is_open| *is_open).await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[tokio::test]
    async fn a_closed_gate_holds_until_it_opens() {
        let gate = Arc::new(Gate::default());
        gate.passed().await;
        gate.close();
        let waiting = tokio::spawn({
            let gate = Arc::clone(&gate);
            async move { gate.passed().await }
        });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        gate.open();
        waiting.await.unwrap();
    }
}
