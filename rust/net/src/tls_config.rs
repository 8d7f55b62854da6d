//! TLS settings of servers and clients, loaded from certificate and key files.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pkcs8::der::pem::PemLabel;
use pkcs8::{EncryptedPrivateKeyInfoRef, SecretDocument};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use serde::Deserialize;
use thiserror::Error;

use super::tls_verify::{AnyClient, AnyServer, Trusted};

/// Largest file of certificates or keys, bytes; a larger file must be something else.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Why TLS settings cannot be used.
#[derive(Debug, Error)]
pub enum TlsError {
    /// A file cannot be read, or has the wrong content.
    #[error("{path}: {what}")]
    File {
        /// The file.
        path: PathBuf,
        /// The reason.
        what: String,
    },
    /// The settings do not fit together.
    #[error("{0}")]
    Unfit(String),
}

/// A certificate chain and its key, in PEM files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The chain, with the own certificate first.
    pub cert: PathBuf,
    /// The private key: PKCS#8, PKCS#1 or SEC1.
    pub key: PathBuf,
    /// Password of an encrypted PKCS#8 key.
    pub password: Option<Password>,
}

/// A secret that `Debug` does not print.
#[derive(Clone, PartialEq, Eq)]
pub struct Password(pub String);

impl std::fmt::Debug for Password {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("Password(***)")
    }
}

/// Which certificates a server requests from its clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ClientAuth {
    /// No certificate.
    None,
    /// A certificate that a client sends must be valid.
    Optional,
    /// Every client must send a valid certificate.
    Require,
}

/// TLS settings of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerTls {
    /// The server's certificate; None creates a self-signed one, as RocketMQ's test mode does.
    pub identity: Option<Identity>,
    /// Whether the server requests client certificates.
    pub client_auth: ClientAuth,
    /// Trusted issuers of client certificates; None accepts any, as RocketMQ's `authClient=false`.
    pub trust: Option<PathBuf>,
}

/// Which parts of a server's certificate a client verifies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub enum Verify {
    /// The chain, the dates, and that the certificate is issued for the host.
    #[serde(rename = "full")]
    Full,
    /// The chain and the dates.
    #[serde(rename = "ca")]
    Chain,
    /// Nothing: an attacker on the network can read and change the traffic.
    #[serde(rename = "none")]
    Nothing,
}

/// TLS settings of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientTls {
    /// Trusted issuers of server certificates; None uses the system's trust store.
    pub trust: Option<PathBuf>,
    /// The client's certificate, for servers that request one.
    pub identity: Option<Identity>,
    /// The verification of server certificates.
    pub verify: Verify,
}

impl ServerTls {
    /// Reads the files and builds the configuration that all sessions share.
    ///
    /// # Errors
    /// `TlsError`, naming the file.
    pub fn load(&self) -> Result<Arc<ServerConfig>, TlsError> {
        let provider = provider();
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(unfit)?;
        let builder = match (self.client_auth, &self.trust) {
            (ClientAuth::None, _) => builder.with_no_client_auth(),
            (auth, None) => builder.with_client_cert_verifier(Arc::new(AnyClient {
                provider,
                required: auth == ClientAuth::Require,
            })),
            (auth, Some(path)) => {
                let roots = Arc::new(roots(&certificates(path)?, path)?);
                let mut verifier = WebPkiClientVerifier::builder_with_provider(roots, provider);
                if auth == ClientAuth::Optional {
                    verifier = verifier.allow_unauthenticated();
                }
                builder.with_client_cert_verifier(verifier.build().map_err(unfit)?)
            }
        };
        let (chain, key) = match &self.identity {
            Some(identity) => identity.load()?,
            None => self_signed()?,
        };
        let config = builder.with_single_cert(chain, key);
        config.map(Arc::new).map_err(|error| match &self.identity {
            Some(identity) => identity.refused(&error),
            None => unfit(error),
        })
    }
}

impl ClientTls {
    /// Reads the files and builds the configuration that all sessions share.
    ///
    /// # Errors
    /// `TlsError`, naming the file.
    pub fn load(&self) -> Result<Arc<ClientConfig>, TlsError> {
        let provider = provider();
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(unfit)?
            .dangerous();
        let builder = if self.verify == Verify::Nothing {
            builder.with_custom_certificate_verifier(Arc::new(AnyServer { provider }))
        } else {
            let (own, roots) = self.trusted()?;
            let by_name = self.verify == Verify::Full;
            let verifier = Trusted::new(own, roots, by_name, provider).map_err(unfit)?;
            builder.with_custom_certificate_verifier(Arc::new(verifier))
        };
        let config = match &self.identity {
            None => builder.with_no_client_auth(),
            Some(identity) => {
                let (chain, key) = identity.load()?;
                let config = builder.with_client_auth_cert(chain, key);
                config.map_err(|error| identity.refused(&error))?
            }
        };
        Ok(Arc::new(config))
    }

    /// Returns the certificates that the user named, and all trusted roots.
    fn trusted(&self) -> Result<(Vec<CertificateDer<'static>>, RootCertStore), TlsError> {
        if let Some(path) = &self.trust {
            let own = certificates(path)?;
            let roots = roots(&own, path)?;
            return Ok((own, roots));
        }
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        if roots.is_empty() {
            let text = "this system trusts no certificate authority: name the file of the one \
                        that signed the servers' certificates";
            return Err(TlsError::Unfit(text.to_owned()));
        }
        Ok((Vec::new(), roots))
    }
}

type Shown = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

impl Identity {
    fn load(&self) -> Result<Shown, TlsError> {
        let chain = certificates(&self.cert)?;
        let text = read(&self.key)?;
        let key = match PrivateKeyDer::from_pem_slice(&text) {
            Ok(key) => key,
            Err(_) => self.decrypted(&text)?,
        };
        Ok((chain, key))
    }

    fn decrypted(&self, text: &[u8]) -> Result<PrivateKeyDer<'static>, TlsError> {
        let text = std::str::from_utf8(text).unwrap_or_default().trim();
        let encrypted = match SecretDocument::from_pem(text) {
            Ok((EncryptedPrivateKeyInfoRef::PEM_LABEL, document)) => document,
            _ => return Err(bad(&self.key, "holds no private key in PEM")),
        };
        let Some(Password(password)) = &self.password else {
            return Err(bad(&self.key, "the key is encrypted: set its password"));
        };
        let refused = |error: pkcs8::Error| {
            let what = format!("the key cannot be decrypted with the password given: {error}");
            bad(&self.key, what)
        };
        let info = EncryptedPrivateKeyInfoRef::try_from(encrypted.as_bytes());
        let info = info.map_err(refused)?;
        let key = info.decrypt(password).map_err(refused)?;
        Ok(PrivatePkcs8KeyDer::from(key.as_bytes().to_vec()).into())
    }

    fn refused(&self, error: &rustls::Error) -> TlsError {
        let what = match error {
            rustls::Error::InconsistentKeys(_) => {
                format!("is not the certificate of the key {}", self.key.display())
            }
            _ => error.to_string(),
        };
        bad(&self.cert, what)
    }
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

fn unfit(error: impl std::fmt::Display) -> TlsError {
    TlsError::Unfit(format!("TLS cannot be set up: {error}"))
}

pub(super) fn bad(path: &Path, what: impl Into<String>) -> TlsError {
    TlsError::File {
        path: path.to_owned(),
        what: what.into(),
    }
}

fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    let failed = |error: std::io::Error| bad(path, error.to_string());
    let mut text = Vec::new();
    let file = File::open(path).map_err(failed)?;
    file.take(FILE_BYTES_MAX + 1)
        .read_to_end(&mut text)
        .map_err(failed)?;
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err(bad(
            path,
            "is larger than 1 MiB, so it cannot be a certificate or key",
        ));
    }
    Ok(text)
}

pub(super) fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let text = read(path)?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&text).collect();
    match found {
        Ok(found) if !found.is_empty() => Ok(found),
        Ok(_) => Err(bad(path, "holds no certificate in PEM")),
        Err(error) => Err(bad(path, format!("is not a PEM file: {error}"))),
    }
}

fn roots(certificates: &[CertificateDer<'static>], path: &Path) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates {
        let added = roots.add(certificate.clone());
        added.map_err(|error| bad(path, error.to_string()))?;
    }
    Ok(roots)
}

/// A self-signed certificate: it protects against eavesdropping, not against an active attacker.
fn self_signed() -> Result<Shown, TlsError> {
    let names = ["localhost".to_owned(), "127.0.0.1".to_owned()];
    let made = rcgen::generate_simple_self_signed(names).map_err(unfit)?;
    let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
    Ok((vec![made.cert.der().clone()], key.into()))
}
