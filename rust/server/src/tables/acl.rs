//! Access control: whose request this is, and what that account may do with topics and groups.
//!
//! Every request passes here before it is routed, so that natively answered codes, deferred sends
//! and Python's processors are covered alike. Python owns the accounts and publishes them; the
//! rules are RocketMQ's `PlainPermissionManager`, except that an address of a white list does not
//! replace the signature unless `aclWhiteListSkipsSignature` says so, and never replaces the admin
//! account that administration needs. In RocketMQ every account can make itself an admin (50).

use std::collections::{HashMap, HashSet};
use std::net::IpAddr;

use parking_lot::Mutex;

use crate::tables::acl_needs::{PUB, Resource, needs};
use crate::tables::table::Single;
use mq_format::remoting::Frame;
use mq_format::signature::{ACCESS_KEY, Signer};

/// Permission bit: always refused, whatever else is set.
pub const DENY: u8 = 1;

/// Message traces go here; whoever has an account may write them.
const TRACE_TOPIC: &str = "RMQ_SYS_TRACE_TOPIC";
/// Characters of a client's own text that a refusal repeats.
const ECHO_CHARS: usize = 255;

/// A pattern of addresses: a range for each part of one, 4 of IPv4 or 8 of IPv6. No parts match
/// any address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AddressPattern(pub Vec<(u16, u16)>);

impl AddressPattern {
    /// Whether an address is in every range.
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
    /// Its secret.
    pub signer: Signer,
    /// May make the requests of administrators.
    pub admin: bool,
    /// `whiteRemoteAddress`.
    pub white: Vec<AddressPattern>,
    /// Bits for topics that are not named.
    pub default_topic: u8,
    /// Bits for groups that are not named.
    pub default_group: u8,
    /// Topic to bits.
    pub topics: HashMap<String, u8>,
    /// Group to bits.
    pub groups: HashMap<String, u8>,
}

/// Everything one version of the access files says.
#[derive(Debug, Default)]
pub struct AclRules {
    /// `globalWhiteRemoteAddresses` of all files.
    pub white: Vec<AddressPattern>,
    /// Access key to account.
    pub accounts: HashMap<String, Account>,
    /// A white address needs no account and no signature, as in RocketMQ.
    pub white_skips_signature: bool,
    /// Requests that only an admin account may make, from white addresses too.
    pub admin_codes: HashSet<i32>,
}

impl AclRules {
    /// Whether a request may be served; the error is RocketMQ's text.
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

/// The beginning of a client's text: a refusal must not be as long as the attack.
fn echo(text: &str) -> &str {
    let end = text.char_indices().nth(ECHO_CHARS);
    end.map_or(text, |(end, _)| &text[..end])
}

/// Refusals since somebody asked.
#[derive(Debug, Default)]
pub struct Denials {
    /// How many.
    pub count: u64,
    /// The newest: "ip:port" and why.
    pub last: Option<(String, String)>,
}

/// The published rules; without any, access control is off.
#[derive(Debug, Default)]
pub struct AclTable {
    /// The rules in force.
    pub rules: Single<AclRules>,
    denials: Mutex<Denials>,
}

impl AclTable {
    /// Why a request is refused; None if it may be served.
    pub(crate) fn refusal(
        &self,
        frame: &Frame<'_>,
        remote: std::net::SocketAddr,
    ) -> Option<String> {
        if !self.rules.is_published() {
            return None; // as with most brokers
        }
        let why = self.rules.get()?.check(frame, remote.ip()).err()?;
        let mut denials = self.denials.lock();
        denials.count += 1;
        denials.last = Some((remote.to_string(), why.clone()));
        Some(why)
    }

    /// Takes what was refused since the last call.
    pub fn take_denials(&self) -> Denials {
        std::mem::take(&mut *self.denials.lock())
    }
}

#[cfg(test)]
mod tests;
