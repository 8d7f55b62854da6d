//! Which addresses may connect to the HA port: RocketMQ's has no authentication.

use std::net::{IpAddr, Ipv6Addr};

use thiserror::Error;

/// Addresses that may connect.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Allowed {
    /// Loopback, private and link-local networks.
    #[default]
    Private,
    /// These networks: address, and bits of it that count.
    Networks(Vec<(IpAddr, u8)>),
}

/// A text that is no address and no network.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("haAllowAddresses has {0:?}; it takes addresses and networks, such as 10.0.0.0/8")]
pub struct AllowError(String);

impl Allowed {
    /// Reads addresses ("10.1.2.3") and networks ("10.0.0.0/8", "fd00::/8").
    pub fn parse<'a>(texts: impl IntoIterator<Item = &'a str>) -> Result<Self, AllowError> {
        let network = |text: &'a str| network(text).ok_or_else(|| AllowError(text.to_owned()));
        Ok(Self::Networks(
            texts.into_iter().map(network).collect::<Result<_, _>>()?,
        ))
    }

    /// Whether an address may connect.
    pub fn allows(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        match self {
            Self::Private => is_private(address),
            Self::Networks(networks) => networks.iter().any(|network| is_in(address, *network)),
        }
    }
}

fn network(text: &str) -> Option<(IpAddr, u8)> {
    let (address, bits) = match text.trim().split_once('/') {
        Some((address, bits)) => (address, Some(bits.parse().ok()?)),
        None => (text.trim(), None),
    };
    let address: IpAddr = address.parse().ok()?;
    let all = if address.is_ipv4() { 32 } else { 128 };
    let bits = bits.unwrap_or(all);
    (bits <= all).then_some((address, bits))
}

fn is_in(address: IpAddr, (network, bits): (IpAddr, u8)) -> bool {
    match (address, network) {
        (IpAddr::V4(address), IpAddr::V4(network)) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(bits)).unwrap_or(0);
            (address.to_bits() ^ network.to_bits()) & mask == 0
        }
        (IpAddr::V6(address), IpAddr::V6(network)) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or(0);
            (address.to_bits() ^ network.to_bits()) & mask == 0
        }
        _ => false,
    }
}

fn is_private(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => {
            address.is_loopback() || address.is_private() || address.is_link_local()
        }
        IpAddr::V6(address) => {
            address == Ipv6Addr::LOCALHOST
                || address.is_unique_local()
                || address.is_unicast_link_local()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allows(allowed: &Allowed, address: &str) -> bool {
        allowed.allows(address.parse().unwrap())
    }

    #[test]
    fn by_default_only_private_networks_may_connect() {
        let private = Allowed::default();
        for address in [
            "127.0.0.1",
            "10.1.2.3",
            "::ffff:192.168.0.9",
            "::1",
            "fd00::1",
        ] {
            assert!(allows(&private, address), "{address}");
        }
        for address in ["8.8.8.8", "::ffff:8.8.8.8", "2001:db8::1"] {
            assert!(!allows(&private, address), "{address}");
        }
    }

    #[test]
    fn given_networks_replace_the_default() {
        let given = Allowed::parse(["8.8.0.0/16", "10.0.0.7", "2001:db8::/32", "0.0.0.0/0"]);
        let Ok(Allowed::Networks(mut networks)) = given else {
            panic!("they are networks");
        };
        assert_eq!(networks.pop().unwrap().1, 0);
        let given = Allowed::Networks(networks);
        for address in ["8.8.4.4", "10.0.0.7", "2001:db8::1"] {
            assert!(allows(&given, address), "{address}");
        }
        for address in ["8.9.0.1", "10.0.0.8", "127.0.0.1", "2001:db9::1"] {
            assert!(!allows(&given, address), "{address}");
        }
        assert!(allows(&Allowed::parse(["0.0.0.0/0"]).unwrap(), "9.9.9.9"));
        for text in ["", "host", "1.2.3.4/33", "1.2.3.4/x"] {
            let error = Allowed::parse([text]).unwrap_err();
            assert!(error.to_string().contains("10.0.0.0/8"), "{error}");
        }
    }
}
