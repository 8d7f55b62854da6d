//! Decides which code answers a request, in one table.
//!
//! Native handlers answer as far as the published tables allow. A request that they decline goes to
//! the family of its code, whose Python processors can answer every request.

use std::collections::HashMap;

use thiserror::Error;

use crate::limits::LARGE_REQUEST_BYTES;
use crate::settings::{DataPlane, Kind, Settings};
use mq_format::codes::{
    CONSUMER_SEND_MSG_BACK, END_TRANSACTION, GET_CONSUMER_LIST_BY_GROUP, GET_MAX_OFFSET,
    GET_MIN_OFFSET, GET_ROUTEINFO_BY_TOPIC, HEART_BEAT, LOCK_BATCH_MQ, PULL_MESSAGE,
    QUERY_CONSUMER_OFFSET, SEND_BATCH_MESSAGE, SEND_MESSAGE, SEND_MESSAGE_V2, UNLOCK_BATCH_MQ,
    UPDATE_CONSUMER_OFFSET,
};

/// Name of the family of long requests. Clients that send long requests to Python wait for each
/// other, and no other client waits for them.
pub const LARGE: &str = "large";

/// Families whose requests may take long or have large replies. Their clients take turns, so that a
/// client that sends many requests does not keep an operator's request waiting.
pub const FAIR: [&str; 4] = ["query", "admin", "names", LARGE];

/// Requests that native code can answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Native {
    /// 10, 310, 320.
    Send,
    /// 11.
    Pull,
    /// 14.
    QueryOffset,
    /// 15.
    CommitOffset,
    /// 30.
    MaxOffset,
    /// 31.
    MinOffset,
    /// 34: a heartbeat that Python acknowledged before.
    Heartbeat,
    /// 37.
    EndTransaction,
    /// 38: the published list.
    ConsumerList,
    /// 41.
    Lock,
    /// 42.
    Unlock,
    /// 105: the published route.
    TopicRoute,
}

impl Native {
    /// Returns the handler of `code` on a server of this kind.
    fn of(kind: Kind, code: i32) -> Option<Self> {
        Some(match (kind, code) {
            (Kind::Broker, SEND_MESSAGE | SEND_MESSAGE_V2 | SEND_BATCH_MESSAGE) => Self::Send,
            (Kind::Broker, PULL_MESSAGE) => Self::Pull,
            (Kind::Broker, QUERY_CONSUMER_OFFSET) => Self::QueryOffset,
            (Kind::Broker, UPDATE_CONSUMER_OFFSET) => Self::CommitOffset,
            (Kind::Broker, GET_MAX_OFFSET) => Self::MaxOffset,
            (Kind::Broker, GET_MIN_OFFSET) => Self::MinOffset,
            (Kind::Broker, HEART_BEAT) => Self::Heartbeat,
            (Kind::Broker, END_TRANSACTION) => Self::EndTransaction,
            (Kind::Broker, GET_CONSUMER_LIST_BY_GROUP) => Self::ConsumerList,
            (Kind::Broker, LOCK_BATCH_MQ) => Self::Lock,
            (Kind::Broker, UNLOCK_BATCH_MQ) => Self::Unlock,
            (Kind::NameServer, GET_ROUTEINFO_BY_TOPIC) => Self::TopicRoute,
            _ => return None,
        })
    }
}

/// Index of a family of Python processors.
pub type Family = usize;

/// A route names a family that does not exist.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("request code {code} is routed to family {family:?}, which is not among the families")]
pub struct UnknownFamily {
    /// The code, or -1 for the default family.
    pub code: i32,
    /// The missing family.
    pub family: String,
}

/// Maps request codes to routes.
#[derive(Debug)]
pub struct Routes {
    kind: Kind,
    plane: DataPlane,
    families: HashMap<i32, Family>,
    default: Option<Family>,
    large: Option<Family>,
}

impl Routes {
    /// Maps codes to families as the settings say; an error if a family does not exist.
    pub(crate) fn of(settings: &Settings) -> Result<Self, UnknownFamily> {
        let families = &settings.families;
        let index = |name: &str| families.iter().position(|(known, _)| known == name);
        let family = |code: i32, family: &String| {
            let unknown = || UnknownFamily {
                code,
                family: family.clone(),
            };
            index(family).ok_or_else(unknown)
        };
        let by_code = settings.routes.iter();
        let by_code = by_code
            .map(|(code, name)| Ok((*code, family(*code, name)?)))
            .collect::<Result<_, UnknownFamily>>()?;
        let default = settings.default_family.as_ref();
        let default = default.map(|name| family(-1, name)).transpose()?;
        let (kind, plane) = (settings.kind, settings.data_plane);
        Ok(Self::new(kind, plane, by_code, default, index(LARGE)))
    }

    /// `families` names the family of each code; other codes go to `default`. `large` is the family
    /// of long requests of any code; None leaves them in their own families.
    fn new(
        kind: Kind,
        plane: DataPlane,
        families: HashMap<i32, Family>,
        default: Option<Family>,
        large: Option<Family>,
    ) -> Self {
        Self {
            kind,
            plane,
            families,
            default,
            large,
        }
    }

    /// Returns the native handler that is tried first, if there is one.
    pub fn native(&self, code: i32) -> Option<Native> {
        match self.plane {
            DataPlane::Native => Native::of(self.kind, code),
            DataPlane::Python => None,
        }
    }

    /// Returns the family for a frame of this many bytes; None means no reply. Requests that store
    /// a message stay in their own family, which replies when the store is overloaded.
    pub fn family(&self, code: i32, bytes: usize) -> Option<Family> {
        let usual = self.families.get(&code).copied().or(self.default)?;
        let is_large = bytes > LARGE_REQUEST_BYTES && !stores_a_message(code);
        Some(self.large.filter(|_| is_large).unwrap_or(usual))
    }

    /// Whether the fast (VIP) port refuses the code with 3; it serves everything except pulls.
    pub fn refused_on_fast_port(&self, code: i32) -> bool {
        self.kind == Kind::Broker && code == PULL_MESSAGE
    }
}

/// Whether RocketMQ's send processor handles the code; it refuses requests while the store is busy.
pub fn stores_a_message(code: i32) -> bool {
    is_send(code) || code == CONSUMER_SEND_MSG_BACK
}

/// Whether the code is a send; sends of a connection and topic are kept in order.
pub fn is_send(code: i32) -> bool {
    matches!(code, SEND_MESSAGE | SEND_MESSAGE_V2 | SEND_BATCH_MESSAGE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use mq_format::codes;

    #[test]
    fn native_first_then_the_family_of_the_code() {
        let families = HashMap::from([(SEND_MESSAGE, 1), (HEART_BEAT, 2)]);
        let routes = Routes::new(
            Kind::Broker,
            DataPlane::Native,
            families.clone(),
            Some(0),
            None,
        );
        assert_eq!(routes.native(SEND_MESSAGE), Some(Native::Send));
        assert_eq!(routes.native(HEART_BEAT), Some(Native::Heartbeat));
        assert_eq!(routes.native(codes::UNREGISTER_CLIENT), None);
        assert_eq!(
            [SEND_MESSAGE, HEART_BEAT, 999].map(|code| routes.family(code, 1 << 20)),
            [Some(1), Some(2), Some(0)]
        );
        let python = Routes::new(Kind::Broker, DataPlane::Python, families, None, None);
        assert_eq!(python.native(SEND_MESSAGE), None);
        assert_eq!(
            [SEND_MESSAGE, 999].map(|code| python.family(code, 0)),
            [Some(1), None]
        );
    }

    #[test]
    fn long_requests_have_a_family_unless_they_store_a_message() {
        let families = HashMap::from([(SEND_MESSAGE, 1), (HEART_BEAT, 2)]);
        let routes = Routes::new(Kind::Broker, DataPlane::Native, families, None, Some(3));
        let long = LARGE_REQUEST_BYTES + 1;
        assert_eq!(routes.family(HEART_BEAT, LARGE_REQUEST_BYTES), Some(2));
        assert_eq!(routes.family(HEART_BEAT, long), Some(3));
        assert_eq!(routes.family(SEND_MESSAGE, long), Some(1));
        assert_eq!(
            routes.family(999, long),
            None,
            "silence whatever its length"
        );
    }

    #[test]
    fn a_name_server_sends_no_messages() {
        let routes = Routes::new(
            Kind::NameServer,
            DataPlane::Native,
            HashMap::new(),
            None,
            None,
        );
        assert_eq!(routes.native(SEND_MESSAGE), None);
        assert_eq!(
            routes.native(GET_ROUTEINFO_BY_TOPIC),
            Some(Native::TopicRoute)
        );
        assert!(!routes.refused_on_fast_port(PULL_MESSAGE));
    }
}
