//! TLS sessions over real sockets: data arrives unchanged, and untrusted peers are reported.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, date_time_ymd};
use tempfile::TempDir;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use super::connection::Connection;
use super::frame::FrameSplitter;
use super::receiver::Receiver;
use super::tls::{Session, connect};
use super::tls_config::{ClientAuth, ClientTls, Identity, ServerTls, Verify};
use mq_format::remoting::HeaderLimits;

const DEADLINE: Duration = Duration::from_secs(60);
const OUTBOUND_LIMIT_BYTES: usize = 64 << 20;
const FRAME_BYTES_MAX: usize = 32 << 20;

/// A certificate authority and the files that it issued.
struct Authority {
    folder: TempDir,
    issuer: CertifiedIssuer<'static, KeyPair>,
}

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let issuer = CertifiedIssuer::self_signed(params, key).unwrap();
        let folder = TempDir::new().unwrap();
        write(&folder.path().join("ca.pem"), &issuer.pem());
        Self { folder, issuer }
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("ca.pem")
    }

    fn issue(&self, name: &str, change: impl FnOnce(&mut CertificateParams)) -> Identity {
        let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        let made = params.signed_by(&key, &self.issuer).unwrap();
        self.keep(name, &made.pem(), &key.serialize_pem())
    }

    fn keep(&self, name: &str, cert_pem: &str, key_pem: &str) -> Identity {
        let path = |end: &str| self.folder.path().join(format!("{name}.{end}"));
        let (cert, key) = (path("crt"), path("key"));
        write(&cert, cert_pem);
        write(&key, key_pem);
        Identity {
            cert,
            key,
            password: None,
        }
    }
}

fn write(path: &Path, text: &str) {
    std::fs::File::create(path)
        .unwrap()
        .write_all(text.as_bytes())
        .unwrap();
}

fn server(identity: Option<Identity>) -> ServerTls {
    ServerTls {
        identity,
        client_auth: ClientAuth::None,
        trust: None,
    }
}

fn client(trust: Option<PathBuf>, verify: Verify) -> ClientTls {
    ClientTls {
        trust,
        identity: None,
        verify,
    }
}

/// Accepts one connection and puts it under TLS, regardless of its first bytes.
async fn accept(listener: TcpListener, tls: ServerTls) -> (Arc<Connection>, Receiver) {
    let (stream, _) = listener.accept().await.unwrap();
    let (connection, mut receiver) = Connection::new(stream, OUTBOUND_LIMIT_BYTES).unwrap();
    let session = Session::server(tls.load().unwrap()).unwrap();
    receiver.upgrade(&connection, session, &[]).unwrap();
    (connection, receiver)
}

/// Returns both sides of a session, or the client's error.
async fn pair(
    server: ServerTls,
    client: ClientTls,
) -> Result<(Arc<Connection>, Receiver, tokio::task::JoinHandle<Vec<u8>>), String> {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let echo = tokio::spawn(echo(listener, server));
    let stream = TcpStream::connect(&address).await.unwrap();
    let config = client.load().unwrap();
    let session = connect(&stream, &address, config, DEADLINE).await;
    let session = session.map_err(|error| error.to_string().replace(&address, "SERVER"))?;
    let (near, receiver) = Connection::with_session(stream, OUTBOUND_LIMIT_BYTES, session).unwrap();
    Ok((near, receiver, echo))
}

/// Sends every frame back until the end. Returns all received bytes, or the text of an error.
async fn echo(listener: TcpListener, tls: ServerTls) -> Vec<u8> {
    let (far, mut receiver) = accept(listener, tls).await;
    let writer = tokio::spawn({
        let far = far.clone();
        async move { far.drive_writes().await }
    });
    let mut splitter = FrameSplitter::new(FRAME_BYTES_MAX, HeaderLimits::NONE);
    let mut seen = Vec::new();
    loop {
        let take = |frame: &[u8]| {
            seen.extend_from_slice(frame);
            far.send_slice(frame).unwrap();
            Ok(())
        };
        match receiver.receive(&mut splitter, take).await {
            Ok(0) => break,
            Ok(_) => {}
            Err(error) => {
                seen = error.to_string().into_bytes();
                break;
            }
        }
    }
    far.close();
    writer.await.unwrap();
    seen
}

fn frame(size: usize, fill: u8) -> Vec<u8> {
    let mut bytes = u32::try_from(size).unwrap().to_be_bytes().to_vec();
    bytes.resize(4 + size, fill);
    bytes
}

async fn receive_all(receiver: &mut Receiver, count: usize) -> Vec<Vec<u8>> {
    let mut splitter = FrameSplitter::new(FRAME_BYTES_MAX, HeaderLimits::NONE);
    let mut frames = Vec::new();
    while frames.len() < count {
        let take = |frame: &[u8]| {
            frames.push(frame.to_vec());
            Ok(())
        };
        let got = timeout(DEADLINE, receiver.receive(&mut splitter, take)).await;
        assert_ne!(got.unwrap().unwrap(), 0, "the other side closed");
    }
    frames
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn frames_of_any_size_come_back_in_order() {
    let authority = Authority::new();
    let identity = authority.issue("127.0.0.1", |_| {});
    let trusting = client(Some(authority.file()), Verify::Full);
    let (near, mut receiver, echo) = pair(server(Some(identity)), trusting).await.unwrap();
    let writer = tokio::spawn({
        let near = near.clone();
        async move { near.drive_writes().await }
    });
    let sizes = [4, 100, 16_000, 17_000, 70_000, 5, 9 << 20, 4];
    let frames: Vec<_> = (1..).zip(sizes).map(|(n, size)| frame(size, n)).collect();
    for (index, frame) in frames.iter().enumerate() {
        match index % 3 {
            0 => near.send(frame.clone()).unwrap(),
            1 => near.send_slice(frame).unwrap(),
            _ => near.send_soon(frame).unwrap(),
        }
    }
    assert!(receive_all(&mut receiver, frames.len()).await == frames);
    near.close();
    timeout(DEADLINE, writer).await.unwrap().unwrap();
    let seen = timeout(DEADLINE, echo).await.unwrap().unwrap();
    assert!(seen == frames.concat(), "{} bytes", seen.len());
}

#[tokio::test]
async fn untrusted_servers_are_refused_with_the_reason() {
    let authority = Authority::new();
    let other = Authority::new();
    let elsewhere = authority.issue("elsewhere.example", |_| {});
    let expired = authority.issue("127.0.0.1", |params| {
        params.not_before = date_time_ymd(2000, 1, 1);
        params.not_after = date_time_ymd(2001, 1, 1);
    });
    let own = Some(authority.file());
    let cases = [
        (
            Some(expired.clone()),
            client(own.clone(), Verify::Full),
            "the certificate has expired",
        ),
        (
            Some(expired),
            client(own.clone(), Verify::Chain),
            "the certificate has expired",
        ),
        (
            None,
            client(own.clone(), Verify::Full),
            "the certificate's issuer is not trusted",
        ),
        (
            Some(elsewhere.clone()),
            client(Some(other.file()), Verify::Chain),
            "the certificate's issuer is not trusted",
        ),
        (
            Some(elsewhere.clone()),
            client(own.clone(), Verify::Full),
            "invalid peer certificate: certificate not valid for name \"127.0.0.1\"",
        ),
    ];
    for (identity, client, wanted) in cases {
        let error = pair(server(identity), client)
            .await
            .map(|_| ())
            .unwrap_err();
        let wanted = format!("no TLS with SERVER: {wanted}");
        assert!(error.starts_with(&wanted), "{error}");
    }
    let lax = [
        (Some(elsewhere.clone()), client(own, Verify::Chain)),
        // A certificate that the user named needs no issuer, but its host name is still verified.
        (
            Some(elsewhere.clone()),
            client(Some(elsewhere.cert), Verify::Chain),
        ),
        (None, client(None, Verify::Nothing)),
    ];
    for (identity, client) in lax {
        let (near, mut receiver, _) = pair(server(identity), client).await.unwrap();
        near.send(frame(10, 1)).unwrap();
        assert_eq!(receive_all(&mut receiver, 1).await, [frame(10, 1)]);
    }
}

#[tokio::test]
async fn clients_are_asked_for_certificates() {
    let authority = Authority::new();
    let elsewhere = Authority::new();
    let stranger = elsewhere.issue("client", |_| {});
    let known = authority.issue("client", |_| {});
    let identity = authority.issue("127.0.0.1", |_| {});
    let own = Some(authority.file());
    let shown = [None, Some(known), Some(stranger)];
    // For each kind of client certificate: none, one of our issuer, one of another issuer.
    let cases = [
        (ClientAuth::None, own.clone(), [true, true, true]),
        (ClientAuth::Optional, own.clone(), [true, true, false]),
        (ClientAuth::Require, own.clone(), [false, true, false]),
        (ClientAuth::Require, None, [false, true, true]),
    ];
    for (client_auth, trust, taken) in cases {
        for (shown, taken) in shown.iter().zip(taken) {
            let server = ServerTls {
                identity: Some(identity.clone()),
                client_auth,
                trust: trust.clone(),
            };
            let client = ClientTls {
                identity: shown.clone(),
                ..client(own.clone(), Verify::Full)
            };
            let (near, mut receiver, echo) = pair(server, client).await.unwrap();
            near.send(frame(10, 1)).unwrap();
            let mut splitter = FrameSplitter::new(FRAME_BYTES_MAX, HeaderLimits::NONE);
            let got = timeout(DEADLINE, receiver.receive(&mut splitter, |_| Ok(())))
                .await
                .unwrap();
            assert_eq!(
                matches!(got, Ok(14)),
                taken,
                "{client_auth:?} {trust:?} {got:?}"
            );
            if !taken {
                let seen = String::from_utf8(echo.await.unwrap()).unwrap();
                let words = ["the client has no certificate", "the certificate's issuer"];
                assert!(words.iter().any(|words| seen.starts_with(words)), "{seen}");
            }
        }
    }
}

#[tokio::test]
async fn a_server_without_tls_is_refused_with_a_text() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let config = client(None, Verify::Nothing).load().unwrap();
    let plain = tokio::spawn(async move {
        for _ in 0..2 {
            let (mut stream, _) = listener.accept().await.unwrap();
            stream.write_all(b"\0\0\0\x05hello").await.unwrap();
            drop(stream); // the client sees a reset or an end
        }
    });
    let stream = TcpStream::connect(&address).await.unwrap();
    let error = connect(&stream, &address, config, DEADLINE)
        .await
        .unwrap_err();
    let text = error.to_string();
    assert!(
        text.starts_with(&format!("no TLS with {address}: ")),
        "{text}"
    );
    plain.abort();
}

#[test]
fn files_that_cannot_be_used_are_named() {
    let authority = Authority::new();
    let good = authority.issue("one", |_| {});
    let other = authority.issue("two", |_| {});
    let with = |cert: &Path, key: &Path| {
        let identity = Identity {
            cert: cert.to_owned(),
            key: key.to_owned(),
            password: None,
        };
        server(Some(identity)).load().unwrap_err().to_string()
    };
    let missing = authority.folder.path().join("missing");
    assert!(with(&missing, &good.key).starts_with(&format!("{}: No such file", missing.display())));
    assert!(with(&good.key, &good.key).ends_with("one.key: holds no certificate in PEM"));
    assert!(with(&good.cert, &good.cert).ends_with("one.crt: holds no private key in PEM"));
    let mixed = with(&good.cert, &other.key);
    assert!(
        mixed.contains("one.crt: is not the certificate of the key "),
        "{mixed}"
    );
    write(
        &missing,
        "-----BEGIN ENCRYPTED PRIVATE KEY-----\nMAA=\n-----END ENCRYPTED PRIVATE KEY-----\n",
    );
    assert!(with(&good.cert, &missing).contains("the key is encrypted"));
    let untrusting = client(Some(missing.clone()), Verify::Full)
        .load()
        .unwrap_err();
    assert!(
        untrusting
            .to_string()
            .ends_with("missing: holds no certificate in PEM")
    );
}
