//! Which server an entry is of.

use std::fmt;

use ring::digest::{Context, SHA256};

use super::format::hex;
use crate::upstream::{Server, Target};

/// A digest of all that leads to a server and decides who we are to it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(in crate::roster) struct Key(String);

impl Key {
    pub(in crate::roster) fn of(server: &Server) -> Self {
        let mut parts = Parts(Context::new(&SHA256));
        match server.target() {
            Target::Command(command) => {
                parts.add("command", [command.program.as_bytes()]);
                parts.add("args", command.args.iter().map(String::as_bytes));
                let cwd = command.cwd.as_ref().map(|cwd| cwd.as_os_str().as_encoded_bytes());
                parts.add("cwd", cwd);
                let mut env: Vec<_> = command.env.iter().collect();
                env.sort();
                let pairs =
                    env.iter().flat_map(|(name, value)| [name.as_bytes(), value.as_bytes()]);
                parts.add("env", pairs);
            }
            Target::Url { url, headers, .. } => {
                parts.add("url", [url.to_string().as_bytes()]);
                let mut pairs: Vec<_> = headers.iter().collect();
                pairs.sort_by_key(|(name, value)| (name.as_str(), value.as_bytes().to_vec()));
                let pairs =
                    pairs.iter().flat_map(|(name, value)| [name.as_ref(), value.as_bytes()]);
                parts.add("headers", pairs);
            }
        }
        Self(hex(parts.0.finish().as_ref()))
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Parts with their lengths, so that no two lists of parts look alike.
struct Parts(Context);

impl Parts {
    fn add<'a>(&mut self, name: &str, parts: impl IntoIterator<Item = &'a [u8]>) {
        self.one(name.as_bytes());
        let parts: Vec<_> = parts.into_iter().collect();
        self.0.update(&parts.len().to_le_bytes());
        for part in parts {
            self.one(part);
        }
    }

    fn one(&mut self, part: &[u8]) {
        self.0.update(&part.len().to_le_bytes());
        self.0.update(part);
    }
}
