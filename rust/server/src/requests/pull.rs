//! PULL_MESSAGE (11), answered from the published tables and the store.
//!
//! Native code serves pulls that pass every check. It declines all others, and Python replies with
//! RocketMQ's error texts.

use std::cell::RefCell;
use std::sync::Arc;

use crate::clients::peers::NO_ROOM;
use crate::core::Core;
use crate::operations::pull::{self, Asked, Found, Read, Selection};
use crate::requests::context::Context;
use crate::waiting::pull_task::PullTask;
use mq_format::codes::{
    PULL_NOT_FOUND, PULL_OFFSET_MOVED, PULL_RETRY_IMMEDIATELY, SUCCESS, SYSTEM_BUSY,
};
use mq_format::remoting::{FieldValue, Head, Serialize};
use mq_store::{GetResult, ReadMode, Store};

/// Bits of a pull's system flag.
const COMMIT_OFFSET: i32 = 1;
const SUSPEND: i32 = 2;
const SUBSCRIPTION: i32 = 4;

/// Result of a pull.
pub(crate) enum Pulled {
    /// It is answered, or its client is gone.
    Done,
    /// It found no message and may become a long poll.
    Hold(PullTask),
    /// Only a cold-read thread can answer it.
    Cold(PullTask),
}

thread_local! {
    /// Records are read into this buffer and then copied after their header.
    static RECORDS: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Size of the record buffer that a thread keeps between pulls, bytes.
const RECORDS_KEPT_BYTES: usize = 1 << 20;

/// 11. None if Python must decide.
pub(crate) fn pull(context: &Context<'_>, out: &mut Vec<u8>) -> Option<Pulled> {
    let core = context.core;
    let asked = decode(context)?;
    let task = PullTask {
        pull: pull::begin(&core.state, &asked)?,
        peer: Arc::clone(context.peer),
        to: context.frame.reply_to(),
    };
    let store = core.state.store.as_deref()?;
    Some(answer(core, store, task, ReadMode::NoWait, out))
}

/// Answers a pull at the end of its long poll, without starting another. The reply is JSON,
/// whatever the request's serialization, as in RocketMQ.
pub(crate) fn rerun(core: &Core, mut task: PullTask, out: &mut Vec<u8>) -> Pulled {
    task.pull.end_hold();
    task.to.serialize = Serialize::Json;
    let Some(store) = core.state.store.as_deref() else {
        return Pulled::Done;
    };
    let takes_answers = !core.clients.peers.must_wait(&task.peer);
    if takes_answers && task.pull.is_still_allowed(&core.state) {
        return answer(core, store, task, ReadMode::NoWait, out);
    }
    // The client sends a new pull at once, and that pull gets the usual error reply.
    let result = task.pull.unread(store);
    encode(core, &task, (Found::OnlyOthers, &result), &[], out);
    Pulled::Done
}

/// Reads and answers, unless the pull must wait for a message or for the disk.
pub(crate) fn answer(
    core: &Core,
    store: &Store,
    task: PullTask,
    mode: ReadMode,
    out: &mut Vec<u8>,
) -> Pulled {
    if task.is_gone() {
        return Pulled::Done;
    }
    RECORDS.with_borrow_mut(|records| {
        let outcome = match task.pull.read(&core.state, store, mode, records) {
            Read::Done(found, result) => {
                encode(core, &task, (found, &result), records, out);
                Pulled::Done
            }
            Read::Hold => Pulled::Hold(task),
            Read::Cold => Pulled::Cold(task),
        };
        records.shrink_to(RECORDS_KEPT_BYTES);
        outcome
    })
}

fn decode<'a>(context: &'a Context<'_>) -> Option<Asked<'a>> {
    let frame = context.frame;
    let flag: i32 = context.number("sysFlag")?;
    let has = |bit| flag & bit != 0;
    let version = match frame.ext.get("subVersion") {
        Some(version) => version.parse().ok()?,
        None => 0,
    };
    let (commit_offset, suspend_ms) = (
        context.number("commitOffset")?,
        context.number("suspendTimeoutMillis")?,
    );
    Some(Asked {
        group: frame.ext.get("consumerGroup")?,
        topic: frame.ext.get("topic")?,
        queue_id: context.number("queueId")?,
        offset: context.number("queueOffset")?,
        max_count: context.number("maxMsgNums")?,
        selection: match has(SUBSCRIPTION) {
            true => Selection::Inline {
                expression: frame.ext.get("subscription").unwrap_or("*"),
                expression_type: frame.ext.get("expressionType").unwrap_or_default(),
            },
            false => Selection::Known { version },
        },
        commit_offset: has(COMMIT_OFFSET).then_some(commit_offset),
        suspend_ms: has(SUSPEND).then_some(suspend_ms),
    })
}

fn encode(
    core: &Core,
    task: &PullTask,
    (found, result): (Found, &GetResult),
    records: &[u8],
    out: &mut Vec<u8>,
) {
    if !core.clients.has_room(records.len()) {
        core.stats.counters.overloaded.one();
        Head::reply(task.to, SYSTEM_BUSY, Some(NO_ROOM)).encode(&[], &[], out);
        return;
    }
    let number = FieldValue::Number;
    let fields = [
        (
            "suggestWhichBrokerId",
            number(task.pull.next_broker(&core.state, result)),
        ),
        ("nextBeginOffset", number(result.next_begin_offset)),
        ("maxOffset", number(result.max_offset)),
        ("minOffset", number(result.min_offset)),
    ];
    let head = Head::reply(task.to, code(found), Some(result.status.as_str()));
    head.encode(&fields, records, out);
}

fn code(found: Found) -> i32 {
    match found {
        Found::Messages => SUCCESS,
        Found::OnlyOthers => PULL_RETRY_IMMEDIATELY,
        Found::NothingYet => PULL_NOT_FOUND,
        Found::NoSuchOffset => PULL_OFFSET_MOVED,
    }
}
