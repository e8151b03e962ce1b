//! The user's store of credentials: where it is, and what it is sealed with.

use std::env::consts::OS;
use std::path::PathBuf;

use switchboard_net::auth::store::{FileStore, KeySource, StoreError, StoreKey, StoreOptions};

use crate::keyring::SystemKeyRing;

/// The variable with the key of the store. No server that we start gets to see it.
pub(crate) const KEY_VARIABLE: &str = "SWITCHBOARD_STORE_KEY";

/// Opens the store in `dir`, or where the environment says; sealed with the key in
/// `key_file`, or in the environment, or in the keyring, or in the folder. Blocks.
pub(crate) fn open(
    dir: Option<PathBuf>,
    key_file: Option<PathBuf>,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<FileStore, StoreError> {
    let dir = place(dir, variable).ok_or(StoreError::NoFolder)?;
    let key = match (key_file, variable(KEY_VARIABLE).filter(|text| !text.is_empty())) {
        (Some(path), _) => KeySource::File(path),
        (None, Some(text)) => KeySource::Given(StoreKey::parse(&text, KEY_VARIABLE)?),
        (None, None) => KeySource::KeyRing(Box::new(SystemKeyRing)),
    };
    FileStore::open(StoreOptions::new(dir, key))
}

/// The folder of the store: `dir`, or where the environment says.
pub(crate) fn place(
    dir: Option<PathBuf>,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Option<PathBuf> {
    dir.or_else(|| folder(OS, variable))
}

/// Where the credentials of the user are, on this kind of system.
fn folder(os: &str, variable: &dyn Fn(&str) -> Option<String>) -> Option<PathBuf> {
    Some(state_of(os, variable)?.join("auth"))
}

/// Where our programs keep what they remember for the user.
pub(crate) fn state(variable: &dyn Fn(&str) -> Option<String>) -> Option<PathBuf> {
    state_of(OS, variable)
}

fn state_of(os: &str, variable: &dyn Fn(&str) -> Option<String>) -> Option<PathBuf> {
    let named = |name| variable(name).filter(|path| !path.is_empty()).map(PathBuf::from);
    named("SWITCHBOARD_STATE_DIR").or_else(|| {
        let states = match os {
            "macos" => named("HOME")?.join("Library/Application Support"),
            "windows" => named("LOCALAPPDATA")?,
            _ => named("XDG_STATE_HOME").or_else(|| Some(named("HOME")?.join(".local/state")))?,
        };
        Some(states.join("switchboard"))
    })
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn credentials_are_in_the_state_folder_of_the_user() {
        // wire: OT-4
        let of = |os, variables: &[(&str, &str)]| {
            let variable = |name: &str| {
                let found = variables.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| (*value).to_owned())
            };
            folder(os, &variable).map(|it| it.display().to_string()).unwrap_or_default()
        };
        let home = ("HOME", "/u");
        assert_eq!(of("linux", &[home]), "/u/.local/state/switchboard/auth");
        assert_eq!(of("linux", &[home, ("XDG_STATE_HOME", "/x")]), "/x/switchboard/auth");
        assert_eq!(of("macos", &[home]), "/u/Library/Application Support/switchboard/auth");
        assert_eq!(of("windows", &[("LOCALAPPDATA", "/l")]), "/l/switchboard/auth");
        assert_eq!(of("linux", &[home, ("SWITCHBOARD_STATE_DIR", "/s")]), "/s/auth");
        assert_eq!(of("linux", &[("HOME", "")]), "", "not in the folder that we happen to be in");
    }

    /// Names the folder of the store to the same test in a session with a keyring.
    #[cfg(feature = "keyring")]
    const STORE: &str = "SWITCHBOARD_TEST_STORE";

    // wire: OT-3
    #[cfg(feature = "keyring")]
    #[test]
    fn the_key_is_in_the_keyring_of_a_session_that_has_one() {
        if let Some(dir) = std::env::var_os(STORE) {
            let opened = || open(Some(PathBuf::from(&dir)), None, &|_| None).unwrap();
            let first = opened().key_id().to_owned();
            // As the commands do: with a runtime on the thread.
            let runtime = tokio::runtime::Runtime::new().unwrap();
            assert_eq!(runtime.block_on(async { opened().key_id().to_owned() }), first);
            return;
        }
        for tool in ["dbus-run-session", "gnome-keyring-daemon", "secret-tool"] {
            let found = Command::new("sh").args(["-c", &format!("command -v {tool}")]).output();
            let is_there = found.is_ok_and(|found| found.status.success());
            assert!(is_there, "{tool} is missing: ./test.sh setup installs it");
        }
        let home = std::env::temp_dir().join(format!("switchboard-keyring-{}", std::process::id()));
        std::fs::create_dir(&home).unwrap();
        let line = "printf secret | gnome-keyring-daemon --unlock --components=secrets && \"$@\" && \
            secret-tool lookup service switchboard username 'store key'";
        let output = Command::new("dbus-run-session")
            .args(["--", "sh", "-c", line, "sh"])
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", "store::tests::the_key_is_in_the_keyring_of_a_session_that_has_one"])
            .env(STORE, home.join("store"))
            .envs([("HOME", &home), ("XDG_DATA_HOME", &home), ("XDG_RUNTIME_DIR", &home)])
            .output()
            .unwrap();
        let files = std::fs::read_dir(home.join("store")).unwrap().flatten();
        let mut files: Vec<_> =
            files.map(|file| file.file_name().to_string_lossy().into_owned()).collect();
        files.sort_unstable();
        std::fs::remove_dir_all(&home).unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{said} {}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(files, ["store.keyring", "store.lock"], "no key is in a file");
        let key = said.lines().last().unwrap_or_default();
        assert!(StoreKey::parse(key, "the keyring").is_ok(), "another program finds it there");
    }
}
