//! The native handlers: what each may assume and decline is said in its own file.

use crate::requests::dispatch::{Context, Handled};
use crate::requests::heartbeat;
use crate::requests::offsets;
use crate::requests::pull;
use crate::requests::ready;
use crate::requests::send;
use crate::requests::transaction;
use crate::route::Native;

/// Asks the handler; replies that are ready are appended to `out`.
pub(crate) fn answer(native: Native, context: &Context<'_>, out: &mut Vec<u8>) -> Handled {
    match native {
        Native::Send => send::send(context, out),
        Native::Pull => pull::pull(context, out),
        Native::QueryOffset => offsets::query(context, out),
        Native::CommitOffset => offsets::commit(context, out),
        Native::MaxOffset => offsets::max(context, out),
        Native::MinOffset => offsets::min(context, out),
        Native::EndTransaction => transaction::end(context, out),
        Native::ConsumerList => ready::consumer_list(context, out),
        Native::TopicRoute => ready::topic_route(context, out),
        Native::Heartbeat => heartbeat::beat(context, out),
        Native::Lock => ready::lock(context, out),
        Native::Unlock => ready::unlock(context, out),
    }
}
