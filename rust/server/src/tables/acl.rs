//! Access control: the account of a request, and its rights on topics and groups.
//!
//! Every request is checked before it is routed, so the check covers native handlers, deferred
//! sends and Python's processors alike. Python owns the accounts and publishes them. The rules are
//! those in RocketMQ's `PlainPermissionManager`, with three differences. A white-listed address
//! replaces the signature only with `aclWhiteListSkipsSignature`. It never replaces the admin
//! account that administration needs. Code 50 needs an admin account; in RocketMQ every account can
//! make itself an admin with it.

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;

use parking_lot::Mutex;

use crate::tables::acl_needs::{PUB, Resource, needs};
use crate::tables::table::Single;
use mq_format::remoting::Frame;
use mq_format::signature::{ACCESS_KEY, Signer};

/// Permission bit: always refused, even if other bits are set.
pub const DENY: u8 = 1;

/// Topic of message traces; every account may send to it.
const TRACE_TOPIC: &str = "RMQ_SYS_TRACE_TOPIC";
/// Longest part of a client's text that a refusal repeats, characters.
const ECHO_CHARS: usize = 255;

/// A pattern of addresses: one range for each part of an address, 4 for IPv4 or 8 for IPv6. A
/// pattern without parts matches any address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddressPattern(pub Vec<(u16, u16)>);

impl AddressPattern {
    /// Whether each part of an address is in its range.
    pub(crate) fn matches(&self, address: IpAddr) -> bool {
        let within = |parts: &[u16]| {
            let mut pairs = self.0.iter().zip(parts);
            self.0.len() == parts.len() && pairs.all(|((low, high), n)| (low..=high).contains(&n))
        };
        self.0.is_empty()
            || match address {
                IpAddr::V4(address) => within(&address.octets().map(u16::from)),
                IpAddr::V6(address) => within(&address.segments()),
            }
    }
}

/// One account.
#[derive(Debug)]
pub struct Account {
    /// Key for the signatures of requests.
    pub signer: Signer,
    /// Whether the account may send administration requests.
    pub admin: bool,
    /// `whiteRemoteAddress`.
    pub white: Vec<AddressPattern>,
    /// Permission bits for topics that are not listed.
    pub default_topic: u8,
    /// Permission bits for groups that are not listed.
    pub default_group: u8,
    /// Topic to bits.
    pub topics: HashMap<String, u8>,
    /// Group to bits.
    pub groups: HashMap<String, u8>,
}

/// The content of one version of the access files.
#[derive(Debug, Default)]
pub struct AclRules {
    /// `globalWhiteRemoteAddresses` of all files.
    pub white: Vec<AddressPattern>,
    /// Access key to account.
    pub accounts: HashMap<String, Account>,
    /// Whether a white-listed address needs no account and no signature, as in RocketMQ.
    pub white_skips_signature: bool,
    /// Requests that need an admin account, also from white-listed addresses.
    pub admin_codes: HashSet<i32>,
}

impl AclRules {
    /// Whether a request is allowed; the error is RocketMQ's text.
    fn check(&self, frame: &Frame<'_>, remote: IpAddr) -> Result<(), String> {
        let remote = remote.to_canonical();
        let is_administration = self.admin_codes.contains(&frame.code);
        let skips_signature = self.white_skips_signature && !is_administration;
        let is_white = self.white.iter().any(|pattern| pattern.matches(remote));
        if is_white && skips_signature {
            return Ok(());
        }
        let key = frame.ext.get(ACCESS_KEY);
        let key = key.ok_or_else(|| "No accessKey is configured".to_owned())?;
        let account = self.accounts.get(key);
        let account = account.ok_or_else(|| format!("No acl config for {}", echo(key)))?;
        let is_white = is_white || account.white.iter().any(|pattern| pattern.matches(remote));
        if is_white && skips_signature {
            return Ok(());
        }
        if !account.signer.verify(frame) {
            return Err(format!("Check signature failed for accessKey={key}"));
        }
        if is_administration && !account.admin {
            return Err(format!(
                "Need admin permission for request code={}, but accessKey={key} is not",
                frame.code
            ));
        }
        if is_white {
            return Ok(());
        }
        account.permits(frame)
    }
}

impl Account {
    fn permits(&self, frame: &Frame<'_>) -> Result<(), String> {
        let mut is_trace = false;
        let mut refused = None;
        let unlisted_admin = self.admin && self.topics.is_empty() && self.groups.is_empty();
        needs(frame, &mut |resource, bits| {
            is_trace |= resource == Resource::Topic(TRACE_TOPIC) && bits == PUB;
            if refused.is_none() && !unlisted_admin && !self.allows(resource, bits) {
                refused = Some(resource.named(echo));
            }
        })?;
        if is_trace {
            return Ok(());
        }
        match refused {
            None => Ok(()),
            Some(name) => Err(format!("No default permission for {name}")),
        }
    }

    fn allows(&self, resource: Resource<'_>, bits: u8) -> bool {
        let owned = match resource {
            Resource::Topic(name) => self.topics.get(name).unwrap_or(&self.default_topic),
            Resource::Group(name) => self.groups.get(name).unwrap_or(&self.default_group),
        };
        owned & DENY == 0 && owned & bits != 0
    }
}

/// Returns the beginning of a client's text, so that a refusal is not as long as the request.
fn echo(text: &str) -> &str {
    let end = text.char_indices().nth(ECHO_CHARS);
    end.map_or(text, |(end, _)| &text[..end])
}

/// Refusals since the last `take_denials`.
#[derive(Debug, Default)]
pub struct Denials {
    /// Number of refusals.
    pub count: u64,
    /// The latest one: "ip:port" and the reason.
    pub last: Option<(String, String)>,
}

/// The published rules; without rules, access control is off.
#[derive(Debug, Default)]
pub struct AclTable {
    /// The rules in force.
    pub rules: Single<AclRules>,
    denials: Mutex<Denials>,
}

impl AclTable {
    /// Returns why a request is refused; None if it is allowed.
    pub(crate) fn refusal(
        &self,
        frame: &Frame<'_>,
        remote: std::net::SocketAddr,
    ) -> Option<String> {
        if !self.rules.is_published() {
            return None; // the usual case: no access control
        }
        let why = self.rules.get()?.check(frame, remote.ip()).err()?;
        let mut denials = self.denials.lock();
        denials.count += 1;
        denials.last = Some((remote.to_string(), why.clone()));
        Some(why)
    }

    /// Returns and clears the refusals since the last call.
    pub fn take_denials(&self) -> Denials {
        std::mem::take(&mut *self.denials.lock())
    }
}

#[cfg(test)]
mod tests;
