//! Who answers a request code: the whole decision, one table.
//!
//! Native handlers answer what the published tables allow; what they decline goes to the family
//! of the code, whose Python processors can serve every request.

use std::collections::HashMap;

use crate::limits::LARGE_REQUEST_BYTES;
use crate::settings::{DataPlane, Kind};

/// Name of the family of long requests: who asks Python for much waits for others who do, and
/// nobody else waits for it.
pub const LARGE: &str = "large";

/// SEND_MESSAGE.
pub const SEND: i32 = 10;
/// PULL_MESSAGE.
pub const PULL: i32 = 11;
/// CONSUMER_SEND_MSG_BACK.
pub const SEND_BACK: i32 = 36;
/// HEART_BEAT.
pub const HEART_BEAT: i32 = 34;
/// UNREGISTER_CLIENT.
pub const UNREGISTER_CLIENT: i32 = 35;
/// SEND_MESSAGE_V2.
pub const SEND_V2: i32 = 310;
/// SEND_BATCH_MESSAGE.
pub const SEND_BATCH: i32 = 320;

/// What native code knows how to answer.
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
    /// 34: one that Python acknowledged.
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
    /// The handler of `code` on a server of this kind.
    fn of(kind: Kind, code: i32) -> Option<Self> {
        Some(match (kind, code) {
            (Kind::Broker, SEND | SEND_V2 | SEND_BATCH) => Self::Send,
            (Kind::Broker, PULL) => Self::Pull,
            (Kind::Broker, 14) => Self::QueryOffset,
            (Kind::Broker, 15) => Self::CommitOffset,
            (Kind::Broker, 30) => Self::MaxOffset,
            (Kind::Broker, 31) => Self::MinOffset,
            (Kind::Broker, HEART_BEAT) => Self::Heartbeat,
            (Kind::Broker, 37) => Self::EndTransaction,
            (Kind::Broker, 38) => Self::ConsumerList,
            (Kind::Broker, 41) => Self::Lock,
            (Kind::Broker, 42) => Self::Unlock,
            (Kind::NameServer, 105) => Self::TopicRoute,
            _ => return None,
        })
    }
}

/// Index of a family of Python processors.
pub type Family = usize;

/// Codes to routes.
#[derive(Debug)]
pub struct Routes {
    kind: Kind,
    plane: DataPlane,
    families: HashMap<i32, Family>,
    default: Option<Family>,
    large: Option<Family>,
}

impl Routes {
    /// `families` names the family of each code; a code that is not named goes to `default`.
    /// `large` is the family of long requests, whatever their code; None leaves them with others.
    pub fn new(
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

    /// The native handler that is asked first, if there is one.
    pub fn native(&self, code: i32) -> Option<Native> {
        match self.plane {
            DataPlane::Native => Native::of(self.kind, code),
            DataPlane::Python => None,
        }
    }

    /// The family that is asked next for a frame of so many bytes; None means silence. What stores
    /// a message stays in its own, which answers when the store cannot keep up.
    pub fn family(&self, code: i32, bytes: usize) -> Option<Family> {
        let usual = self.families.get(&code).copied().or(self.default)?;
        let is_large = bytes > LARGE_REQUEST_BYTES && !stores_a_message(code);
        Some(self.large.filter(|_| is_large).unwrap_or(usual))
    }

    /// The fast (VIP) port serves everything but pulls, which are answered 3.
    pub fn refused_on_fast_port(&self, code: i32) -> bool {
        self.kind == Kind::Broker && code == PULL
    }
}

/// Whether the request is RocketMQ's send processor's, which refuses while the store is busy.
pub fn stores_a_message(code: i32) -> bool {
    is_send(code) || code == SEND_BACK
}

/// Whether the code is a send, whose order within a connection and topic is kept.
pub fn is_send(code: i32) -> bool {
    matches!(code, SEND | SEND_V2 | SEND_BATCH)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn native_first_then_the_family_of_the_code() {
        let families = HashMap::from([(SEND, 1), (34, 2)]);
        let routes = Routes::new(
            Kind::Broker,
            DataPlane::Native,
            families.clone(),
            Some(0),
            None,
        );
        assert_eq!(routes.native(SEND), Some(Native::Send));
        assert_eq!(routes.native(34), Some(Native::Heartbeat));
        assert_eq!(routes.native(UNREGISTER_CLIENT), None);
        assert_eq!(
            [SEND, 34, 999].map(|code| routes.family(code, 1 << 20)),
            [Some(1), Some(2), Some(0)]
        );
        let python = Routes::new(Kind::Broker, DataPlane::Python, families, None, None);
        assert_eq!(python.native(SEND), None);
        assert_eq!(
            [SEND, 999].map(|code| python.family(code, 0)),
            [Some(1), None]
        );
    }

    #[test]
    fn long_requests_have_a_family_unless_they_store_a_message() {
        let families = HashMap::from([(SEND, 1), (HEART_BEAT, 2)]);
        let routes = Routes::new(Kind::Broker, DataPlane::Native, families, None, Some(3));
        let long = LARGE_REQUEST_BYTES + 1;
        assert_eq!(routes.family(HEART_BEAT, LARGE_REQUEST_BYTES), Some(2));
        assert_eq!(routes.family(HEART_BEAT, long), Some(3));
        assert_eq!(routes.family(SEND, long), Some(1));
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
        assert_eq!(routes.native(SEND), None);
        assert_eq!(routes.native(105), Some(Native::TopicRoute));
        assert!(!routes.refused_on_fast_port(PULL));
    }
}
