//! Reads until when a certificate is valid.

use std::path::Path;
use std::time::Duration;

use pkcs8::der::asn1::{AnyRef, GeneralizedTime, UtcTime};
use pkcs8::der::{Decode, Result, SliceReader, Tag, Tagged};

use super::tls_config::{TlsError, bad, certificates};

/// Number of fields before the dates: serial number, signature algorithm and issuer.
const FIELDS_BEFORE: usize = 3;

/// Returns the expiry time of a PEM file's first certificate, which is its owner's, since 1970.
///
/// # Errors
/// `TlsError` if the file holds no certificate.
pub fn ends_at(path: &Path) -> std::result::Result<Duration, TlsError> {
    let chain = certificates(path)?;
    let first = chain.first().map(AsRef::as_ref).unwrap_or_default();
    not_after(first).map_err(|error| bad(path, format!("is not a certificate: {error}")))
}

/// Reads `notAfter` of a certificate (RFC 5280 4.1).
fn not_after(certificate: &[u8]) -> Result<Duration> {
    let mut reader = SliceReader::new(certificate)?;
    let mut signed = inside(&mut reader)?;
    let mut fields = inside(&mut signed)?;
    let first = AnyRef::decode(&mut fields)?;
    // The version field comes first; certificates of version 1 omit it.
    let left = FIELDS_BEFORE - usize::from(first.tag() == Tag::Integer);
    for _ in 0..left {
        AnyRef::decode(&mut fields)?;
    }
    let mut dates = inside(&mut fields)?;
    AnyRef::decode(&mut dates)?;
    let end = AnyRef::decode(&mut dates)?;
    match end.tag() {
        Tag::UtcTime => Ok(end.decode_as::<UtcTime>()?.to_unix_duration()),
        _ => Ok(end.decode_as::<GeneralizedTime>()?.to_unix_duration()),
    }
}

/// Returns a reader for the content of the next value.
fn inside<'a>(reader: &mut SliceReader<'a>) -> Result<SliceReader<'a>> {
    SliceReader::new(AnyRef::decode(reader)?.value())
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, KeyPair, date_time_ymd};
    use tempfile::TempDir;

    use super::*;

    #[test]
    fn both_ways_to_write_a_year_are_read() {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("a.pem");
        // The seconds come from `date -u -d YEAR-MONTH-DAY +%s`.
        for (year, month, day, seconds) in [
            (2026, 12, 24, 1_798_070_400),
            (2049, 12, 31, 2_524_521_600),
            (2050, 1, 1, 2_524_608_000), // written with four digits
        ] {
            let mut params = CertificateParams::new(vec!["a".to_owned()]).unwrap();
            params.not_after = date_time_ymd(year, month, day);
            let key = KeyPair::generate().unwrap();
            let made = params.self_signed(&key).unwrap();
            std::fs::write(&path, made.pem()).unwrap();
            assert_eq!(ends_at(&path).unwrap().as_secs(), seconds, "{year}");
        }
    }

    #[test]
    fn a_file_without_a_certificate_is_reported() {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("a.pem");
        assert!(ends_at(&path).is_err());
        let texts = ["", "MAA=", "MIIBBTCB", "AgEB"];
        for text in texts {
            let text = format!("-----BEGIN CERTIFICATE-----\n{text}\n-----END CERTIFICATE-----\n");
            std::fs::write(&path, text).unwrap();
            let error = ends_at(&path).unwrap_err().to_string();
            assert!(error.contains("a.pem: is no"), "{error}");
        }
    }
}
