//! The keyring of the system, which has room for the key of the store.
//!
//! The Secret Service on Linux, the keychain on macOS, the Credential Manager on Windows.
//! Without the feature `keyring` there is none.

use std::io;

use switchboard_net::auth::store::KeyRing;
use zeroize::Zeroizing;

/// What the entry is called, in the words of keyrings.
#[cfg(feature = "keyring")]
const ENTRY: (&str, &str) = ("switchboard", "store key");

#[cfg(not(feature = "keyring"))]
const MISSING: &str =
    "this program was built without it; install one that has it, with --features keyring";

/// The keyring of the user who runs us.
#[derive(Debug)]
pub(crate) struct SystemKeyRing;

impl KeyRing for SystemKeyRing {
    #[cfg(feature = "keyring")]
    fn read(&self) -> io::Result<Option<Zeroizing<String>>> {
        with_entry(|entry| match entry.get_password() {
            Ok(text) => Ok(Some(Zeroizing::new(text))),
            Err(keyring_core::Error::NoEntry) => Ok(None),
            Err(error) => Err(error),
        })
    }

    #[cfg(feature = "keyring")]
    fn write(&self, text: &str) -> io::Result<()> {
        with_entry(|entry| entry.set_password(text))
    }

    #[cfg(not(feature = "keyring"))]
    fn read(&self) -> io::Result<Option<Zeroizing<String>>> {
        Err(io::Error::new(io::ErrorKind::Unsupported, MISSING))
    }

    #[cfg(not(feature = "keyring"))]
    fn write(&self, _: &str) -> io::Result<()> {
        Err(io::Error::new(io::ErrorKind::Unsupported, MISSING))
    }
}

/// Asks the keyring, on a thread of its own: some keyrings run a runtime meanwhile,
/// which a thread of ours already does.
#[cfg(feature = "keyring")]
fn with_entry<T: Send>(
    ask: impl FnOnce(keyring_core::Entry) -> keyring_core::Result<T> + Send,
) -> io::Result<T> {
    let asked = std::thread::scope(|scope| scope.spawn(|| ask(entry()?)).join());
    let asked = asked.map_err(|_| io::Error::other("the keyring's library has panicked"))?;
    asked.map_err(|error| io::Error::other(error.to_string()))
}

#[cfg(feature = "keyring")]
fn entry() -> keyring_core::Result<keyring_core::Entry> {
    use keyring_core::api::CredentialStoreApi as _;

    #[cfg(not(any(target_os = "macos", target_os = "windows")))]
    let store = zbus_secret_service_keyring_store::Store::new()?;
    #[cfg(target_os = "macos")]
    let store = apple_native_keyring_store::keychain::Store::new()?;
    #[cfg(target_os = "windows")]
    let store = windows_native_keyring_store::Store::new()?;
    store.build(ENTRY.0, ENTRY.1, None)
}
