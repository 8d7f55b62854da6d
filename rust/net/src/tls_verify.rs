//! Which peers are trusted: the rules of `rustls`, and weaker ones that an operator can choose.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, RootCertStore,
    SignatureScheme,
};

/// The signatures of a handshake prove that the peer has the key of its certificate, so they are
/// always verified.
macro_rules! check_signatures {
    () => {
        fn verify_tls12_signature(
            &self,
            message: &[u8],
            cert: &CertificateDer<'_>,
            dss: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            let known = &self.provider.signature_verification_algorithms;
            verify_tls12_signature(message, cert, dss, known)
        }

        fn verify_tls13_signature(
            &self,
            message: &[u8],
            cert: &CertificateDer<'_>,
            dss: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            let known = &self.provider.signature_verification_algorithms;
            verify_tls13_signature(message, cert, dss, known)
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            let known = &self.provider.signature_verification_algorithms;
            known.supported_schemes()
        }
    };
}

/// Trusts servers whose certificate has a trusted issuer, or is itself a trusted certificate.
#[derive(Debug)]
pub(super) struct Trusted {
    /// Certificates that the user named: a server with one of them needs no issuer. As for a root,
    /// their dates are ignored, because self-signed server certificates work that way in Java.
    own: Vec<CertificateDer<'static>>,
    chain: Arc<WebPkiServerVerifier>,
    /// Whether the certificate must be issued for the host.
    by_name: bool,
    provider: Arc<CryptoProvider>,
}

impl Trusted {
    pub fn new(
        own: Vec<CertificateDer<'static>>,
        roots: RootCertStore,
        by_name: bool,
        provider: Arc<CryptoProvider>,
    ) -> Result<Self, rustls::server::VerifierBuilderError> {
        let roots = Arc::new(roots);
        let chain = WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(&provider));
        Ok(Self {
            own,
            chain: chain.build()?,
            by_name,
            provider,
        })
    }
}

impl ServerCertVerifier for Trusted {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if self.own.iter().any(|own| own == end_entity) {
            if self.by_name {
                verify_server_name(&ParsedCertificate::try_from(end_entity)?, server_name)?;
            }
            return Ok(ServerCertVerified::assertion());
        }
        let chain = &self.chain;
        // `rustls` checks the name last, so a name error means that the chain is valid.
        match chain.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now) {
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) if !self.by_name => Ok(ServerCertVerified::assertion()),
            result => result,
        }
    }

    check_signatures!();
}

/// Trusts any server, as RocketMQ's clients do by default.
#[derive(Debug)]
pub(super) struct AnyServer {
    pub provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for AnyServer {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    check_signatures!();
}

/// Accepts any client certificate, as RocketMQ's servers do by default.
#[derive(Debug)]
pub(super) struct AnyClient {
    pub provider: Arc<CryptoProvider>,
    pub required: bool,
}

impl ClientCertVerifier for AnyClient {
    fn client_auth_mandatory(&self) -> bool {
        self.required
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        Ok(ClientCertVerified::assertion())
    }

    check_signatures!();
}
