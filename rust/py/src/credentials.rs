//! Reading the account that signs a client's requests.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use mq_client::credentials::Credentials;

/// The settings of an account.
pub(super) const NAMES: [&str; 3] = ["access_key", "secret_key", "security_token"];

/// Reads them from a client's settings; None without an access key.
pub(super) fn read(settings: &Bound<'_, PyDict>) -> PyResult<Option<Credentials>> {
    let [access_key, secret_key, security_token] = NAMES.map(|name| {
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
    let made = Credentials::new(access_key, &secret_key, security_token?);
    made.map(Some)
        .ok_or_else(|| PyValueError::new_err("no key for a signature"))
}
