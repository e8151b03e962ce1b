//! What of a plan must be told to nobody, so that logs can leave it out.
//!
//! A server may say on stderr, or in an error, what it was given. Values that are
//! short or plain words would be found everywhere: they count only where their
//! name says that they are secret.

use switchboard_net::secret::{LONG, SHORT, is_secret_name, words};
use switchboard_net::upstream::Target;

use super::{Plan, ServerPlan};

/// Something not to be told, and what stands in its place.
#[derive(Clone, Eq, Ord, PartialEq, PartialOrd)]
pub struct Secret {
    /// The variable, header or flag that has it.
    pub name: String,
    /// What must not be told.
    pub value: String,
}

/// Secrets that are known of one plan: more than its servers need.
const MOST: usize = 4096;

impl Secret {
    /// Values of variables, headers and arguments of the servers of these plans. The
    /// longest come first: one may be a part of another.
    pub fn of(plans: &[&Plan]) -> Vec<Self> {
        let servers = plans.iter().flat_map(|plan| plan.servers.values());
        let mut secrets: Vec<_> = servers.flat_map(ServerPlan::secrets).collect();
        secrets.sort_by_key(|it| (std::cmp::Reverse(it.value.len()), it.value.clone()));
        secrets.dedup_by(|one, other| one.value == other.value);
        secrets.truncate(MOST);
        secrets
    }
}

impl ServerPlan {
    fn secrets(&self) -> Vec<Secret> {
        let mut found = Found::default();
        match &self.target {
            Target::Command(command) => {
                for (name, value) in &command.env {
                    found.add(name, value, LONG);
                    // A key may have lines, of which only one is told.
                    value.lines().for_each(|line| found.add(name, line, LONG));
                }
                found.add_args(&command.args);
            }
            Target::Url { url, headers, .. } => {
                for (name, value) in headers {
                    let value = String::from_utf8_lossy(value.as_bytes());
                    words(name.as_str(), &value)
                        .for_each(|word| found.add(name.as_str(), word, SHORT));
                }
                for pair in url.query().unwrap_or_default().split('&') {
                    let (name, value) = pair.split_once('=').unwrap_or(("query", pair));
                    found.add(name, value, LONG);
                }
            }
        }
        found.secrets
    }
}

#[derive(Default)]
struct Found {
    secrets: Vec<Secret>,
}

impl Found {
    /// Adds a value that is `long` enough, or whose name tells that it is secret.
    fn add(&mut self, name: &str, value: &str, long: usize) {
        let value = value.trim();
        if value.len() >= long || value.len() >= SHORT && is_secret_name(name) {
            self.secrets.push(Secret { name: name.to_owned(), value: value.to_owned() });
        }
    }

    /// `--token X`, `--token=X`, `TOKEN=X`: of arguments only what names itself.
    fn add_args(&mut self, args: &[String]) {
        let mut before = "";
        for arg in args {
            if let Some((name, value)) =
                arg.split_once('=').filter(|(name, _)| is_secret_name(name))
            {
                self.add(name.trim_start_matches('-'), value, SHORT);
            } else if before.starts_with('-') && !before.contains('=') && is_secret_name(before) {
                self.add(before.trim_start_matches('-'), arg, SHORT);
            }
            before = arg;
        }
    }
}

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Secret").field("name", &self.name).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::{Config, Surroundings};

    #[test]
    fn what_servers_are_given_is_secret_unless_it_is_a_plain_word() {
        let file = r#"{"mcpServers": {
            "local": {
                "command": "run",
                "args": ["--api-key", "s3cret-arg", "-e", "DB_PASSWORD=s3cret-pair", "--root", "/srv/files"],
                "env": {"TOKEN": "s3cr", "MODE": "server", "LONG": "s3cret-long", "PEM": "-----x\nline-s3cret\n"}
            },
            "far": {
                "url": "https://example.com/mcp?t=s3cret-query",
                "headers": {"Authorization": "Bearer s3cret-header"}
            }
        }}"#;
        let config = Config::parse(Path::new("a.json"), file, &Surroundings::default()).unwrap();
        let (plan, problems) = Plan::build(&[config]);
        assert_eq!(problems, []);
        let secrets = Secret::of(&[&plan]);
        let value = |value: &str| secrets.iter().find(|it| it.value == value).map(|it| &*it.name);
        for (secret, name) in [
            ("s3cret-arg", "api-key"),
            ("s3cret-pair", "DB_PASSWORD"),
            ("s3cr", "TOKEN"),
            ("s3cret-long", "LONG"),
            ("line-s3cret", "PEM"),
            ("s3cret-header", "authorization"),
            ("s3cret-query", "t"),
        ] {
            assert_eq!(value(secret), Some(name), "{secret}");
        }
        for plain in ["server", "/srv/files", "-e", "Bearer"] {
            assert_eq!(value(plain), None, "{plain}");
        }
        assert!(secrets.is_sorted_by_key(|it| std::cmp::Reverse(it.value.len())));
        assert!(!format!("{secrets:?}").contains("s3cr"));
    }
}
