//! Keeps what a listener shows over TLS the same as its files.

use std::error::Error as _;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use switchboard_net::OwnedTask;
use switchboard_net::http::tls::{IdentityError, ListenTls, TlsIdentity};

use super::{FolderWatch, Reload, WatchError};
use crate::config::{IdentityFiles, read_pem};

/// Why the files of a certificate and its key cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IdentityFileError {
    /// One of them is not there, or not for us to read.
    #[error("cannot read {}", file.display())]
    Unread {
        /// Which one.
        file: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// They are no certificate and its key.
    #[error("{} and {} cannot be used", files.certificate.display(), files.key.display())]
    Unusable {
        /// Both.
        files: IdentityFiles,
        /// Why.
        source: IdentityError,
    },
}

impl IdentityFiles {
    /// Reads both.
    pub fn read(&self) -> Result<TlsIdentity, IdentityFileError> {
        let read = |file: &PathBuf| {
            read_pem(file)
                .map_err(|source| IdentityFileError::Unread { file: file.clone(), source })
        };
        let (certificate, key) = (read(&self.certificate)?, read(&self.key)?);
        TlsIdentity::from_pem(&certificate, &key)
            .map_err(|source| IdentityFileError::Unusable { files: self.clone(), source })
    }

    fn each(&self) -> impl Iterator<Item = &PathBuf> + Clone {
        [&self.certificate, &self.key].into_iter()
    }
}

/// The files that a listener shows a certificate of, while it serves.
pub struct IdentityWatch {
    files: IdentityFiles,
    tls: ListenTls,
    /// What came of the files when they were last read.
    last: Result<TlsIdentity, String>,
    folders: FolderWatch,
}

impl IdentityWatch {
    /// Reads the files for the first time.
    pub fn new(files: IdentityFiles) -> Result<Self, IdentityFileError> {
        let identity = files.read()?;
        let tls = ListenTls::new(identity.clone());
        Ok(Self { files, tls, last: Ok(identity), folders: FolderWatch::default() })
    }

    /// What the listener speaks TLS by.
    pub fn tls(&self) -> ListenTls {
        self.tls.clone()
    }

    /// Starts to listen. Without it, or where it fails, the files are read again when somebody
    /// asks for it.
    pub fn listen(&mut self) -> Result<(), WatchError> {
        self.folders.listen(self.files.each())
    }

    /// Asks for the files to be read again, from anywhere.
    pub fn reload(&self) -> Arc<Reload> {
        Arc::clone(&self.folders.reload)
    }

    /// Follows the files until what it returns is dropped. A certificate and a key that do not
    /// work leave the ones before in use.
    pub fn follow(mut self) -> OwnedTask {
        OwnedTask::spawn(async move {
            loop {
                self.follow_change().await;
            }
        })
    }

    async fn follow_change(&mut self) {
        self.folders.happened().await;
        let files = self.files.clone();
        let read = tokio::task::spawn_blocking(move || files.read()).await;
        let asked = self.folders.done();
        // None while the program ends.
        let Ok(read) = read else { return };
        if let Err(error) = self.folders.extend(self.files.each()) {
            tracing::debug!("{error}");
        }
        let read = read.map_err(|error| {
            let why = error.source().map(ToString::to_string).unwrap_or_default();
            format!("{error}: {why}")
        });
        if read == self.last && !asked {
            return;
        }
        match &read {
            Ok(identity) => {
                self.tls.replace(identity.clone());
                tracing::info!("the TLS certificate is replaced; open connections stay");
            }
            Err(why) => tracing::error!("{why}; the TLS certificate of before stays in use"),
        }
        self.last = read;
    }
}
