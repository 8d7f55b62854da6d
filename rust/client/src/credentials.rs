//! The account that signs a client's requests.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;

use mq_format::remoting::{FieldValue, Head};
use mq_format::signature::{ACCESS_KEY, SECURITY_TOKEN, SIGNATURE, Signer, signed_content};

/// An account that signs requests. It can be deserialized but never serialized, because it is
/// secret.
#[derive(Clone, Deserialize)]
#[serde(try_from = "Keys")]
pub struct Credentials {
    access_key: String,
    security_token: Option<String>,
    signer: Signer,
}

/// Serialized form of the credentials.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Keys {
    access_key: String,
    secret_key: String,
    security_token: Option<String>,
}

impl TryFrom<Keys> for Credentials {
    type Error = &'static str;

    fn try_from(keys: Keys) -> Result<Self, Self::Error> {
        let made = Self::new(keys.access_key, &keys.secret_key, keys.security_token);
        made.ok_or("no key for a signature")
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Credentials(secret)")
    }
}

impl Credentials {
    /// An account; None for a secret that HMAC does not accept.
    pub fn new(access_key: String, secret_key: &str, token: Option<String>) -> Option<Self> {
        Some(Self {
            access_key,
            security_token: token,
            signer: Signer::new(secret_key)?,
        })
    }

    /// Returns the signer with the account's secret key.
    pub fn signer(&self) -> &Signer {
        &self.signer
    }

    /// Adds the account to a request's fields.
    pub fn name<'a>(&'a self, fields: &mut Vec<(&'a str, FieldValue<'a>)>) {
        fields.push((ACCESS_KEY, FieldValue::Text(&self.access_key)));
        if let Some(token) = &self.security_token {
            fields.push((SECURITY_TOKEN, FieldValue::Text(token)));
        }
    }

    /// Adds the account to a request's fields, and returns their signature.
    pub fn sign<'a>(&'a self, fields: &mut Vec<(&'a str, FieldValue<'a>)>, body: &[u8]) -> String {
        self.name(fields);
        let texts = texts(fields);
        self.signer.sign(&plain(fields, &texts), body)
    }

    /// Returns the signed content of a request; `fields` include the account's.
    pub fn content(&self, fields: &[(&str, FieldValue<'_>)], body: &[u8]) -> Vec<u8> {
        signed_content(&plain(fields, &texts(fields)), body)
    }

    /// Appends the whole frame of a request, signed.
    pub fn encode(
        &self,
        head: &Head<'_>,
        fields: &[(&str, FieldValue<'_>)],
        body: &[u8],
        out: &mut Vec<u8>,
    ) {
        let mut all = fields.to_vec();
        let signature = self.sign(&mut all, body);
        all.push((SIGNATURE, FieldValue::Text(&signature)));
        head.encode(&all, body, out);
    }
}

/// Returns the values as text, as they are signed.
fn texts<'a>(fields: &[(&str, FieldValue<'a>)]) -> Vec<Cow<'a, str>> {
    let values = fields.iter().map(|(_, value)| match value {
        FieldValue::Text(text) => Cow::Borrowed(*text),
        FieldValue::Number(number) => Cow::Owned(number.to_string()),
    });
    values.collect()
}

fn plain<'a>(
    fields: &[(&'a str, FieldValue<'_>)],
    texts: &'a [Cow<'_, str>],
) -> Vec<(&'a str, &'a str)> {
    let names = fields.iter().map(|(name, _)| *name);
    names.zip(texts.iter().map(AsRef::as_ref)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use mq_format::remoting::{Frame, Serialize};

    /// A request recorded from RocketMQ's own client, which also put AccessKey last.
    #[test]
    fn a_request_is_signed_as_java_does() {
        let keys = r#"{"access_key": "rocketuser", "secret_key": "12345678"}"#;
        let credentials: Credentials = serde_json::from_str(keys).unwrap();
        let mut frame = Vec::new();
        let head = Head::request(105, 1, Serialize::Json);
        credentials.encode(&head, &[("topic", "TBW102".into())], b"", &mut frame);
        let frame = Frame::decode(&frame).unwrap();
        let signature = frame.ext.get(SIGNATURE);
        assert_eq!(signature, Some("2Ipn2zgeUXuSJR5o9rlZMx8wdy4="));
        assert_eq!(frame.ext.get(ACCESS_KEY), Some("rocketuser"));
        assert_eq!(frame.ext.get(SECURITY_TOKEN), None);
    }

    #[test]
    fn a_token_is_signed_and_nothing_is_shown() {
        let credentials = Credentials::new("a".into(), "s3cret", Some("t0ken".into())).unwrap();
        let mut frame = Vec::new();
        let head = Head::request(11, 1, Serialize::RocketMq);
        credentials.encode(&head, &[("queueId", 7.into())], b"body", &mut frame);
        let frame = Frame::decode(&frame).unwrap();
        assert_eq!(frame.ext.get(SECURITY_TOKEN), Some("t0ken"));
        assert!(Signer::new("s3cret").unwrap().verify(&frame));
        assert_eq!(format!("{credentials:?}"), "Credentials(secret)");
    }
}
