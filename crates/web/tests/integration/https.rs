//! Webhooks and pages over TLS: only a server that proves its identity is notified. Needs the program `openssl`, which makes
//! certificates.

use jitlat_archive::Archive;
use jitlat_web::{Identity, PostError, ReadAccess, Settings, Token, Web, post};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

const TIMEOUT: Duration = Duration::from_secs(60);

fn openssl(folder: &Path, line: &str) {
    let run = Command::new("openssl").args(line.split_whitespace()).current_dir(folder).output();
    let run = run.expect("openssl makes the certificates of this test");
    assert!(run.status.success(), "openssl {line}: {}", String::from_utf8_lossy(&run.stderr));
}

/// Creates a certificate authority in a folder.
fn authority(folder: &Path) -> PathBuf {
    std::fs::create_dir_all(folder).unwrap();
    let name = folder.file_name().unwrap().to_string_lossy();
    let subject = format!("-subj /CN={name} -addext basicConstraints=critical,CA:TRUE");
    openssl(
        folder,
        &format!(
            "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout ca.key -out ca.pem -days 2 {subject}"
        ),
    );
    folder.join("ca.pem")
}

/// Creates a certificate for `name` by the authority in `folder`, and its key.
fn certificate(folder: &Path, name: &str, expired: bool) -> [PathBuf; 2] {
    openssl(
        folder,
        "req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout server.key -out server.csr -subj /CN=server",
    );
    let config = "[ca]\ndefault_ca=own\n[own]\ndatabase=index\nserial=serial\nnew_certs_dir=.\ndefault_md=sha256\npolicy=any\nunique_subject=no\n\
                  certificate=ca.pem\nprivate_key=ca.key\nx509_extensions=names\n[any]\ncommonName=supplied\n[names]\nsubjectAltName=";
    for (file, text) in [("index", ""), ("serial", "01\n"), ("ca.cnf", &format!("{config}{name}\n"))] {
        std::fs::write(folder.join(file), text).unwrap();
    }
    let end = if expired { "20200102000000Z" } else { "20490101000000Z" };
    openssl(
        folder,
        &format!(
            "ca -batch -config ca.cnf -in server.csr -out server.pem -notext -startdate 20200101000000Z -enddate {end}"
        ),
    );
    ["server.pem", "server.key"].map(|file| folder.join(file))
}

/// Returns the result of a request to a server with this certificate, and what the server received.
fn posted(certificate: &[PathBuf; 2], host: &str, ca_file: Option<&Path>) -> (Result<(), PostError>, String) {
    use rustls::pki_types::pem::PemObject;
    use rustls::pki_types::{CertificateDer, PrivateKeyDer};
    let chain = CertificateDer::pem_file_iter(&certificate[0]).unwrap().map(Result::unwrap).collect();
    let key = PrivateKeyDer::from_pem_file(&certificate[1]).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config =
        rustls::ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = Arc::new(config.with_no_client_auth().with_single_cert(chain, key).unwrap());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("https://{host}:{}/api/v2/alerts", listener.local_addr().unwrap().port());
    let server = std::thread::spawn(move || {
        let connection = rustls::ServerConnection::new(config).unwrap();
        let mut stream = rustls::StreamOwned::new(connection, listener.accept().unwrap().0);
        let (mut got, mut part) = (Vec::new(), [0; 4096]);
        while !got.ends_with(b"[1,2]") {
            match stream.read(&mut part) {
                Ok(n) if n > 0 => got.extend_from_slice(&part[..n]),
                _ => return String::from_utf8(got).unwrap(),
            }
        }
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").unwrap();
        String::from_utf8(got).unwrap()
    });
    let went = post(&address, "[1,2]".to_owned(), ca_file, TIMEOUT);
    (went, server.join().unwrap())
}

#[test]
fn who_proves_to_be_the_one_that_was_asked_is_told_and_nobody_else() {
    let folder = tempfile::tempdir().unwrap();
    let own = authority(&folder.path().join("own"));
    let other = authority(&folder.path().join("other"));
    // Another authority with the same name.
    let false_one = authority(&folder.path().join("false/own"));
    let own_folder = own.parent().unwrap();
    let good = certificate(own_folder, "DNS:localhost,IP:127.0.0.1", false);
    for host in ["localhost", "127.0.0.1"] {
        let (went, got) = posted(&good, host, Some(&own));
        assert!(
            went.is_ok() && got.starts_with("POST /api/v2/alerts HTTP/1.1\r\n"),
            "{host}: {went:?} {got}"
        );
    }
    let refused = |certificate: &[PathBuf; 2], ca_file: Option<&Path>, why: &str| {
        let (went, got) = posted(certificate, "localhost", ca_file);
        let said = went.unwrap_err().to_string();
        assert!(said.contains(why) && got.is_empty(), "{said}, not {why}; {got}");
    };
    refused(&good, Some(&false_one), "an unknown authority");
    refused(
        &good,
        Some(&other),
        "an unknown authority: set ca-file, or --fetch-ca-file, to the authority's certificate",
    );
    // This system does not trust it either, if it has any authorities.
    let (went, got) = posted_or_no_authorities(&good);
    assert!(
        matches!(went, Err(PostError::Untrusted(_) | PostError::Authorities(_))) && got.is_empty(),
        "{went:?}"
    );
    refused(&certificate(own_folder, "DNS:elsewhere.example", false), Some(&own), "is for another name");
    refused(&certificate(own_folder, "DNS:localhost", true), Some(&own), "has expired");
}

/// Like [`posted`], but with the authorities of this system. Without any, the server receives no request at all.
fn posted_or_no_authorities(certificate: &[PathBuf; 2]) -> (Result<(), PostError>, String) {
    match post("https://127.0.0.1:9/", String::new(), None, TIMEOUT) {
        Err(PostError::Authorities(why)) => (Err(PostError::Authorities(why)), String::new()),
        _ => posted(certificate, "localhost", None),
    }
}

#[test]
fn a_file_without_certificates_and_a_server_without_tls_are_said_to_be_so() {
    let folder = tempfile::tempdir().unwrap();
    let empty = folder.path().join("ca.pem");
    for (content, why) in [(None, "No such file"), (Some("nothing\n"), "it contains no certificate")] {
        content.iter().for_each(|text| std::fs::write(&empty, text).unwrap());
        let said =
            post("https://localhost:9/", String::new(), Some(&empty), TIMEOUT).unwrap_err().to_string();
        assert!(said.contains(why) && said.contains("ca.pem"), "{said}");
    }
    let own = authority(folder.path());
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("https://{}/", listener.local_addr().unwrap());
    let server = std::thread::spawn(move || {
        let mut stream = listener.accept().unwrap().0;
        let _ = stream.read(&mut [0; 1000]);
        stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").unwrap();
    });
    let said = post(&address, String::new(), Some(&own), TIMEOUT).unwrap_err().to_string();
    assert!(said.contains("the TLS handshake failed"), "{said}");
    server.join().unwrap();
}

/// The page speaks HTTPS with the certificate that it made, and says so to everybody who speaks HTTP.
#[test]
fn a_page_with_a_certificate_is_read_over_https_only() {
    let folder = tempfile::tempdir().unwrap();
    Archive::make(folder.path()).unwrap();
    let file = folder.path().join("certificate.pem");
    let mut settings = Settings::new(folder.path());
    settings.listen.set_port(0);
    settings.access = ReadAccess::Token(Token::new("correct-horse-battery"));
    settings.identity = Some(Identity::made(&file, &["127.0.0.1".to_owned()]).unwrap().0);
    let web = Web::bind(&settings).unwrap();
    let at = web.address();
    assert_eq!(web.scheme(), "https");
    let (stop, stopped) = std::os::unix::net::UnixStream::pair().unwrap();
    let server = std::thread::spawn(move || web.run(stopped).unwrap());
    let went = post(&format!("https://{at}/"), String::new(), Some(&file), TIMEOUT);
    assert!(matches!(went, Err(PostError::Refused(405))), "{went:?}");
    let mut plain = TcpStream::connect(at).unwrap();
    plain.set_read_timeout(Some(TIMEOUT)).unwrap();
    plain
        .write_all(b"GET / HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer correct-horse-battery\r\n\r\n")
        .unwrap();
    let mut said = String::new();
    plain.read_to_string(&mut said).unwrap();
    assert!(said.starts_with("HTTP/1.1 400") && said.contains("HTTPS only"), "{said}");
    drop(stop);
    server.join().unwrap();
}
