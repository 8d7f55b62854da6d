//! The signature of a request: Base64 of HMAC-SHA1 over its header fields and body.
//!
//! The signed content is the values of all header fields except `Signature`, in ascending order of
//! their names, followed by the body (RocketMQ's `AclClientRPCHook`). Code, opaque and flag are not
//! signed. Clients up to 4.9.3 do not sign `_UNIQUE_KEY_QUERY`, later ones do; both signatures are
//! accepted.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit, Mac};
use sha1::Sha1;
use subtle::ConstantTimeEq;

use super::remoting::Frame;

/// Field with the name of the account.
pub const ACCESS_KEY: &str = "AccessKey";
/// Field with the token of a session; it is signed like any other.
pub const SECURITY_TOKEN: &str = "SecurityToken";
/// Length of a signature, characters.
pub const SIGNATURE_CHARS: usize = 28;
/// Field with the signature.
pub const SIGNATURE: &str = "Signature";
/// More header fields than any client writes; it limits the cost of sorting.
pub const FIELDS_MAX: usize = 256;
/// A field that old clients do not sign.
const PERHAPS_UNSIGNED: &str = "_UNIQUE_KEY_QUERY";

/// An account's secret, ready for signing. Its `Debug` text does not show it.
#[derive(Clone)]
pub struct Signer {
    keyed: Hmac<Sha1>,
}

impl fmt::Debug for Signer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Signer(secret)")
    }
}

impl Signer {
    /// Creates a signer for this secret key; None only for a key that HMAC does not accept.
    pub fn new(secret: &str) -> Option<Self> {
        let keyed = Hmac::new_from_slice(secret.as_bytes()).ok()?;
        Some(Self { keyed })
    }

    /// Returns the signature of a request with these header fields; `Signature` is skipped.
    pub fn sign(&self, fields: &[(&str, &str)], body: &[u8]) -> String {
        let mut sorted: Vec<_> = fields.to_vec();
        sort(&mut sorted);
        self.of_sorted(&sorted, body, true)
    }

    /// Returns the signature of prepared content, see `signed_content`.
    pub fn sign_content(&self, content: &[u8]) -> String {
        let mut mac = self.keyed.clone();
        mac.update(content);
        STANDARD.encode(mac.finalize().into_bytes())
    }

    /// Whether the signature in the frame matches its content.
    ///
    /// False also if a field has two different values, because the signed value and the value that
    /// is used must be the same. (Java's binary headers repeat many fields with equal values.) The
    /// comparison takes constant time.
    pub fn verify(&self, frame: &Frame<'_>) -> bool {
        let Some(given) = frame.ext.get(SIGNATURE) else {
            return false;
        };
        // A null field is "" on the wire and in the signed content.
        let mut sorted: Vec<(&str, &str)> = frame.ext.entries().take(FIELDS_MAX + 1).collect();
        if sorted.len() > FIELDS_MAX {
            return false;
        }
        sort(&mut sorted);
        sorted.dedup();
        if sorted.windows(2).any(|pair| pair[0].0 == pair[1].0) {
            return false;
        }
        let expected = self.of_sorted(&sorted, frame.body, true);
        let mut right = given.as_bytes().ct_eq(expected.as_bytes());
        if sorted.iter().any(|(name, _)| *name == PERHAPS_UNSIGNED) {
            let old = self.of_sorted(&sorted, frame.body, false);
            right |= given.as_bytes().ct_eq(old.as_bytes());
        }
        right.into()
    }

    fn of_sorted(&self, sorted: &[(&str, &str)], body: &[u8], all: bool) -> String {
        let mut mac = self.keyed.clone();
        for (name, value) in sorted {
            if *name != SIGNATURE && (all || *name != PERHAPS_UNSIGNED) {
                mac.update(value.as_bytes());
            }
        }
        mac.update(body);
        STANDARD.encode(mac.finalize().into_bytes())
    }
}

/// Returns the signed content of a request with these header fields, which must not include
/// `Signature`.
pub fn signed_content(fields: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let mut sorted = fields.to_vec();
    sort(&mut sorted);
    let values = sorted.iter().map(|(_, value)| value.as_bytes());
    values.chain([body]).flatten().copied().collect()
}

/// Sorts fields in Java's order of strings: by UTF-16 unit. For ASCII names, as all real ones are,
/// that is the order of their bytes.
fn sort(fields: &mut [(&str, &str)]) {
    if fields.iter().all(|(name, _)| name.is_ascii()) {
        fields.sort_unstable_by(|one, other| one.0.cmp(other.0));
    } else {
        fields.sort_unstable_by(|one, other| one.0.encode_utf16().cmp(other.0.encode_utf16()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::remoting::{FieldValue, Head, Serialize};

    const SECRET: &str = "12345678";

    /// A whole frame with these fields, and a signature of `signed` and `signed_body`.
    fn frame(fields: &[(&str, &str)], body: &[u8], signature: &str, kind: Serialize) -> Vec<u8> {
        let mut all = vec![(SIGNATURE, FieldValue::Text(signature))];
        all.extend(
            fields
                .iter()
                .map(|(name, value)| (*name, FieldValue::Text(value))),
        );
        let mut bytes = Vec::new();
        Head::request(310, 1, kind).encode(&all, body, &mut bytes);
        bytes
    }

    fn verified(bytes: &[u8]) -> bool {
        let signer = Signer::new(SECRET).unwrap();
        signer.verify(&Frame::decode(bytes).unwrap())
    }

    /// Two requests recorded from RocketMQ's own client; `tests/golden` has all of them.
    #[test]
    fn signs_as_java_does() {
        let signer = Signer::new(SECRET).unwrap();
        let fields = [("topic", "TBW102"), ("AccessKey", "rocketuser")];
        assert_eq!(signer.sign(&fields, b""), "2Ipn2zgeUXuSJR5o9rlZMx8wdy4=");
        let fields = [
            ("a", "acl_producer"),
            ("b", "AclPub"),
            ("c", "TBW102"),
            ("d", "4"),
            ("e", "2"),
            ("f", "0"),
            ("g", "1795247840109"),
            ("h", "0"),
            (
                "i",
                "KEYS\u{1}ak\u{2}UNIQ_KEY\u{1}C000020A12D04E0E2F2A68B4336C0000\u{2}\
                 WAIT\u{1}true\u{2}TAGS\u{1}TagA",
            ),
            ("j", "0"),
            ("k", "false"),
            ("m", "false"),
            ("n", "broker-a"),
            ("AccessKey", "rocketuser"),
        ];
        let signature = signer.sign(&fields, b"acl body");
        assert_eq!(signature, "MoHN3rFH5M5ogB3+2W7JX8Q/6g0=");
        assert_eq!(signature.len(), SIGNATURE_CHARS);
        let content = signed_content(&fields, b"acl body");
        assert_eq!(signer.sign_content(&content), signature);
        for kind in [Serialize::Json, Serialize::RocketMq] {
            assert!(verified(&frame(&fields, b"acl body", &signature, kind)));
            assert!(!verified(&frame(&fields, b"acl bodY", &signature, kind)));
        }
    }

    #[test]
    fn one_changed_bit_anywhere_is_detected() {
        let fields = [("topic", "T"), ("queueId", "1")];
        let signature = Signer::new(SECRET).unwrap().sign(&fields, b"b");
        let good = |signature: &str| frame(&fields, b"b", signature, Serialize::Json);
        assert!(verified(&good(&signature)));
        for bad in ["", "x", &signature[1..], &format!("{signature}=")] {
            assert!(!verified(&good(bad)), "{bad:?}");
        }
        let other = [("topic", "T"), ("queueId", "2")];
        assert!(!verified(&frame(&other, b"b", &signature, Serialize::Json)));
        let more = [("topic", "T"), ("queueId", "1"), ("z", "z")];
        assert!(!verified(&frame(&more, b"b", &signature, Serialize::Json)));
    }

    #[test]
    fn a_field_that_has_two_values_is_refused() {
        let signer = Signer::new(SECRET).unwrap();
        for kind in [Serialize::Json, Serialize::RocketMq] {
            for twice in [["A", ""], ["", "A"], ["A", "B"]] {
                let fields = twice.map(|value| ("topic", value));
                let signature = signer.sign(&fields[..1], b"");
                assert!(
                    !verified(&frame(&fields, b"", &signature, kind)),
                    "{twice:?}"
                );
                let signature = signer.sign(&fields, b"");
                assert!(
                    !verified(&frame(&fields, b"", &signature, kind)),
                    "{twice:?}"
                );
            }
        }
        let signature = signer.sign(&[("topic", "A")], b"");
        let alike = [("topic", "A"), ("topic", "A")];
        assert!(verified(&frame(
            &alike,
            b"",
            &signature,
            Serialize::RocketMq
        )));
    }

    #[test]
    fn the_unique_key_mark_may_be_signed_or_not() {
        let signer = Signer::new(SECRET).unwrap();
        let fields = [("topic", "T"), (PERHAPS_UNSIGNED, "true")];
        for signature in [signer.sign(&fields, b""), signer.sign(&fields[..1], b"")] {
            assert!(verified(&frame(&fields, b"", &signature, Serialize::Json)));
        }
    }

    #[test]
    fn more_fields_than_any_client_writes_are_refused() {
        let names: Vec<String> = (0..FIELDS_MAX).map(|index| index.to_string()).collect();
        let fields: Vec<_> = names.iter().map(|name| (name.as_str(), "v")).collect();
        let signature = Signer::new(SECRET).unwrap().sign(&fields, b"");
        assert!(!verified(&frame(&fields, b"", &signature, Serialize::Json)));
        let fewer = &fields[1..];
        let signature = Signer::new(SECRET).unwrap().sign(fewer, b"");
        assert!(verified(&frame(fewer, b"", &signature, Serialize::Json)));
    }

    #[test]
    fn names_sort_by_utf16_and_secrets_stay_secret() {
        let mut fields = [
            ("a", ""),
            ("\u{FF5E}", ""),
            ("\u{10000}", ""),
            ("AccessKey", ""),
        ];
        sort(&mut fields);
        let names = fields.map(|(name, _)| name);
        assert_eq!(names, ["AccessKey", "a", "\u{10000}", "\u{FF5E}"]);
        let text = format!("{:?}", Signer::new("open sesame").unwrap());
        assert_eq!(text, "Signer(secret)");
    }
}
