//! Converts Python's "tls" settings, for servers and clients.

use std::path::PathBuf;
use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyMapping};
use rustls::{ClientConfig, ServerConfig};

use super::mappings::{bad, optional, required, seconds};
use mq_net::tls_config::{ClientAuth, ClientTls, Identity, Password, ServerTls, TlsError, Verify};
use mq_net::tls_dates::ends_at;
use mq_server::{Tls, TlsMode, TlsSettings};

fn unusable(error: TlsError) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// When the first certificate of a PEM file expires, seconds since 1970.
#[pyfunction]
pub fn certificate_end(path: PathBuf) -> PyResult<u64> {
    let end = ends_at(&path).map_err(unusable)?;
    Ok(end.as_secs())
}

/// A server's "tls" setting; disabled if there is none.
pub(super) fn server_settings(all: &Bound<'_, PyMapping>) -> PyResult<TlsSettings> {
    let mut settings = TlsSettings::default();
    if !all.contains("tls")? {
        return Ok(settings);
    }
    let map = all.get_item("tls")?.cast_into::<PyMapping>()?;
    let mode: String = required(&map, "mode")?;
    settings.mode = match mode.as_str() {
        "disabled" => TlsMode::Disabled,
        "permissive" => TlsMode::Permissive,
        "enforcing" => TlsMode::Enforcing,
        _ => return Err(bad("mode", mode, "disabled, permissive or enforcing")),
    };
    if settings.mode != TlsMode::Disabled {
        settings.shown = Some(shown(&map)?);
    }
    if let Some(timeout) = optional(&map, "handshake_timeout")? {
        settings.handshake_timeout = seconds(timeout);
    }
    if let Some(count) = optional(&map, "max_handshakes")? {
        settings.handshakes_max = count;
    }
    if let Some(count) = optional(&map, "max_source_handshakes")? {
        settings.source_handshakes_max = count;
    }
    Ok(settings)
}

/// Applies the one row of table "tls" to a running server.
pub(super) fn show(tls: &Tls, rows: &Bound<'_, PyMapping>) -> PyResult<()> {
    let row = rows.get_item("")?.cast_into()?;
    tls.show(shown(&row)?);
    Ok(())
}

/// A server's certificate and its demands on clients: the row of table "tls", and part of its
/// setting.
pub(super) fn shown(map: &Bound<'_, PyMapping>) -> PyResult<Arc<ServerConfig>> {
    let client_auth: Option<String> = optional(map, "client_auth")?;
    let client_auth = match client_auth.as_deref() {
        None | Some("none") => ClientAuth::None,
        Some("optional") => ClientAuth::Optional,
        Some("require") => ClientAuth::Require,
        Some(other) => return Err(bad("client_auth", other, "none, optional or require")),
    };
    let server = ServerTls {
        identity: identity(map)?,
        client_auth,
        trust: path(map, "trust")?,
    };
    server.load().map_err(unusable)
}

/// A client's "tls" setting; plain if there is none.
pub(super) fn client(settings: &Bound<'_, PyDict>) -> PyResult<Option<Arc<ClientConfig>>> {
    let Some(map) = settings.get_item("tls")?.filter(|map| !map.is_none()) else {
        return Ok(None);
    };
    renewed(&map.cast_into::<PyMapping>()?).map(Some)
}

/// Reads a client's "tls" setting and the files that it names.
pub(super) fn renewed(map: &Bound<'_, PyMapping>) -> PyResult<Arc<ClientConfig>> {
    let verify: Option<String> = optional(map, "verify")?;
    let verify = match verify.as_deref() {
        None | Some("full") => Verify::Full,
        Some("ca") => Verify::Chain,
        Some("none") => Verify::Nothing,
        Some(other) => return Err(bad("verify", other, "full, ca or none")),
    };
    let client = ClientTls {
        trust: path(map, "trust")?,
        identity: identity(map)?,
        verify,
    };
    client.load().map_err(unusable)
}

fn path(map: &Bound<'_, PyMapping>, key: &str) -> PyResult<Option<PathBuf>> {
    let path: Option<String> = optional(map, key)?;
    Ok(path.filter(|path| !path.is_empty()).map(PathBuf::from))
}

fn identity(map: &Bound<'_, PyMapping>) -> PyResult<Option<Identity>> {
    match (path(map, "cert")?, path(map, "key")?) {
        (Some(cert), Some(key)) => Ok(Some(Identity {
            cert,
            key,
            password: optional(map, "key_password")?.map(Password),
        })),
        (None, None) => Ok(None),
        _ => {
            let text = "a certificate and its key go together: give both or neither";
            Err(PyValueError::new_err(text))
        }
    }
}
