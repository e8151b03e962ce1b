//! What a file says about TLS: with a server at a URL, and of the gateway's own listener.

use std::io;
use std::path::PathBuf;

use switchboard_net::http::fetch::ServerTls;
use switchboard_net::http::tls::TlsIdentity;

use super::reader::Reader;
use super::tree::Placed;

/// Bytes of a file with certificates or a key. The authorities of a whole system take a quarter.
const MAX_PEM_FILE: u64 = 1 << 20;

/// What is said about TLS with a server; its files are not read yet.
#[derive(Default)]
pub(super) struct TlsDraft {
    pub(super) ca_file: Option<Placed<String>>,
    pub(super) client_cert: Option<Placed<String>>,
    pub(super) client_key: Option<Placed<String>>,
    pub(super) insecure: Option<Placed<bool>>,
}

impl TlsDraft {
    /// Reads the files. What is in them is part of the plan, so that another certificate is a
    /// change.
    pub(super) fn read(self, server: &str, reader: &mut Reader<'_>) -> ServerTls {
        let mut tls = ServerTls::default();
        if let Some(Placed { place, value: true }) = self.insecure {
            let what = format!(
                "the certificate of server {server:?} is not verified: whoever is on the way can \
                 read and change all that is sent"
            );
            let instead = "leave out \"insecure\", and trust the server by \"caFile\"";
            reader.note(&place, what, instead);
            tls.is_insecure = true;
        }
        if let Some(file) = self.ca_file {
            let place = file.place.clone();
            match pem(reader, file, "caFile").map(|pem| tls.clone().trust_pem(&pem)) {
                Some(Ok(trusting)) => tls = trusting,
                Some(Err(error)) => {
                    let what = format!("\"caFile\": {error}");
                    reader.error(&place, what, "name a file with certificates in PEM form");
                }
                None => {}
            }
        }
        let Some(file) = self.client_cert else {
            if let Some(Placed { place, .. }) = self.client_key {
                let what = "\"clientKey\" has no effect without \"clientCert\"".to_owned();
                reader.error(&place, what, "add \"clientCert\": the certificate of the key");
            }
            return tls;
        };
        let place = file.place.clone();
        let certificate = pem(reader, file, "clientCert");
        let key = match self.client_key {
            Some(file) => pem(reader, file, "clientKey"),
            // One file may have both.
            None => certificate.clone(),
        };
        let Some((certificate, key)) = certificate.zip(key) else { return tls };
        match TlsIdentity::from_pem(&certificate, &key) {
            Ok(identity) => tls.identity = Some(identity),
            Err(error) => {
                let what = format!("\"clientCert\": {error}");
                let instead = "name the files of a certificate and its key in PEM form: \
                               \"clientCert\" and \"clientKey\"";
                reader.error(&place, what, instead);
            }
        }
        tls
    }
}

/// A file that others put in the place of another now and then.
fn pem(reader: &mut Reader<'_>, file: Placed<String>, key: &str) -> Option<Vec<u8>> {
    if reader.variables.around.is_literal {
        // Nobody connects by what is read.
        return None;
    }
    let place = file.place.clone();
    let path = reader.path_beside(file);
    reader.besides.push(path.clone());
    match read_pem(&path) {
        Ok(bytes) => Some(bytes),
        Err(error) => {
            let what = format!("cannot read {}: {error}", path.display());
            reader.error(&place, what, format!("check {key:?}; it is relative to this file"));
            None
        }
    }
}

/// Reads a file with certificates or a key.
pub(crate) fn read_pem(path: &std::path::Path) -> io::Result<Vec<u8>> {
    let bytes = super::read_file(path, MAX_PEM_FILE + 1)?;
    if bytes.len() as u64 > MAX_PEM_FILE {
        return Err(io::Error::other(format!("longer than {MAX_PEM_FILE} bytes")));
    }
    Ok(bytes)
}

/// The files of what a listener shows of itself over TLS.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct IdentityFiles {
    /// The certificate, and those that vouch for it.
    pub certificate: PathBuf,
    /// Its private key; perhaps the same file.
    pub key: PathBuf,
}
