//! The account that signs a client's requests.

use std::borrow::Cow;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::format::remoting::FieldValue;
use crate::format::signature::{ACCESS_KEY, SECURITY_TOKEN, Signer};

/// An account whose requests are signed. It has no `Debug` text: it is made of secrets.
pub(super) struct Credentials {
    access_key: String,
    security_token: Option<String>,
    signer: Signer,
}

impl Credentials {
    /// The settings they are made of.
    pub const NAMES: [&'static str; 3] = ["access_key", "secret_key", "security_token"];

    /// Reads them from a client's settings; None without an access key.
    pub fn read(settings: &Bound<'_, PyDict>) -> PyResult<Option<Self>> {
        let [access_key, secret_key, security_token] = Self::NAMES.map(|name| {
            let value = settings.get_item(name)?;
            value.map(|value| value.extract::<String>()).transpose()
        });
        let (access_key, secret_key) = match (access_key?, secret_key?) {
            (Some(access_key), Some(secret_key)) => (access_key, secret_key),
            (None, None) => return Ok(None),
            _ => {
                let text = "access_key and secret_key go together";
                return Err(PyValueError::new_err(text));
            }
        };
        let signer = Signer::new(&secret_key);
        Ok(Some(Self {
            access_key,
            security_token: security_token?,
            signer: signer.ok_or_else(|| PyValueError::new_err("no key for a signature"))?,
        }))
    }

    /// Adds the account to a request's fields, and gives their signature.
    pub fn sign<'a>(&'a self, fields: &mut Vec<(&'a str, FieldValue<'a>)>, body: &[u8]) -> String {
        fields.push((ACCESS_KEY, FieldValue::Text(&self.access_key)));
        if let Some(token) = &self.security_token {
            fields.push((SECURITY_TOKEN, FieldValue::Text(token)));
        }
        let texts: Vec<Cow<'_, str>> = fields
            .iter()
            .map(|(_, value)| match value {
                FieldValue::Text(text) => Cow::Borrowed(*text),
                FieldValue::Number(number) => Cow::Owned(number.to_string()),
            })
            .collect();
        let names = fields.iter().map(|(name, _)| *name);
        let plain: Vec<_> = names.zip(texts.iter().map(AsRef::as_ref)).collect();
        self.signer.sign(&plain, body)
    }
}
