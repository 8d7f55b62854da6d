//! Tasks that must keep running while the server runs.

use std::any::Any;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;

use crate::stats::Stats;
use mq_base::services;

/// Pause before a task that panicked is started again.
const PAUSE: Duration = Duration::from_millis(200);

/// Runs a task that does not end by itself. A panic is recorded in the services, and the task is
/// started again. The service counts as healthy when the task has run for one pause.
pub(crate) async fn supervise<F>(stats: Arc<Stats>, name: &'static str, task: impl Fn() -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    loop {
        // A `JoinSet` aborts its task when it is dropped, so the inner task ends with this one.
        let mut running = JoinSet::new();
        running.spawn(task());
        let mut ended = tokio::time::timeout(PAUSE, running.join_next()).await;
        if ended.is_err() {
            stats.services.succeeded(name);
            ended = Ok(running.join_next().await);
        }
        let Ok(Some(Err(error))) = ended else {
            return;
        };
        let Ok(panic) = error.try_into_panic() else {
            return; // the runtime stops
        };
        stats.services.failed(name, &reason(&*panic));
        tokio::time::sleep(PAUSE).await;
    }
}

fn reason(panic: &(dyn Any + Send)) -> String {
    format!("panicked: {}", services::words(panic))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use tokio::sync::mpsc;

    use super::*;

    #[tokio::test]
    async fn a_task_that_panics_is_counted_and_restarted() {
        let stats = Arc::<Stats>::default();
        let (begun, mut seen) = mpsc::unbounded_channel();
        let count = AtomicU32::new(0);
        let running = Arc::clone(&stats);
        let task = move || {
            let (begun, attempt) = (begun.clone(), count.fetch_add(1, Ordering::Relaxed));
            let stats = Arc::clone(&running);
            async move {
                begun.send(stats.services.all()).unwrap();
                assert_ne!(attempt, 0, "the first one fails");
                std::future::pending::<()>().await;
            }
        };
        let supervised = tokio::spawn(supervise(stats, "task", task));
        assert!(seen.recv().await.unwrap().is_empty());
        let failures = &seen.recv().await.unwrap()["task"];
        assert_eq!(failures.count, 1);
        assert!(failures.now.as_ref().unwrap().contains("panicked"));
        supervised.abort();
    }
}
