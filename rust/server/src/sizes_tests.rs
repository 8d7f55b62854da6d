//! Size limits of types with many instances. If an assertion fails, decide whether the new field is
//! worth its memory; the limit may be raised.

use std::sync::Arc;

use crate::clients::peers::Peer;
use crate::conn::admission::Admission;
use crate::conn::connection;
use crate::core::Core;
use crate::waiting::long_polls;
use crate::waiting::pull_task::PullTask;
use mq_net::connection::Connection;
use mq_net::receiver::Receiver;

fn result_size<R>(_: impl FnOnce(Arc<Core>, Arc<Admission>, Arc<Peer>, Receiver) -> R) -> usize {
    size_of::<R>()
}

#[test]
fn a_held_pull_is_small() {
    assert!(size_of::<PullTask>() <= 112, "{}", size_of::<PullTask>());
    assert_eq!(
        long_polls::LONG_POLL_BYTES,
        size_of::<PullTask>(),
        "nothing beside it"
    );
}

#[test]
fn a_connection_is_small() {
    let task = result_size(connection::serve);
    assert!(task <= 768, "the task takes {task}");
    assert!(size_of::<Peer>() <= 328, "{}", size_of::<Peer>());
    assert!(size_of::<Connection>() <= 168);
}
