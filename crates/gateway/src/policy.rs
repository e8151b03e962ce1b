//! Who may see and call what, and how often.
//!
//! Pure: a request's headers in, a [`Principal`] out; a principal and a name in,
//! yes or no out; an instant in, a turn or a wait out. Tokens are never kept:
//! [`KeyHash`] is what the files have, and [`Access::identify`] compares hashes.

use std::sync::Arc;

use http::header::AUTHORIZATION;
use http::{HeaderMap, HeaderName, HeaderValue};

pub use grant::Grant;
pub use key::{BadHash, KeyHash, MIN_KEY, PREFIX};
pub use meter::{BadRate, Busy, Meter, Rate};
pub use who::who;
pub(crate) use who::{Mark, mark};

mod grant;
mod key;
mod meter;
#[cfg(test)]
mod tests;
mod who;

const API_KEY: HeaderName = HeaderName::from_static("x-api-key");

/// Somebody that we know by a key, or everybody else.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Principal {
    /// What the file calls them; empty for whoever shows no key.
    pub name: String,
    /// The keys that show who they are. Two while one replaces the other.
    pub keys: Vec<KeyHash>,
    /// What they may use.
    pub grant: Grant,
    /// How often they may call.
    pub rate: Option<Rate>,
    /// Calls they may have open at once.
    pub calls: Option<usize>,
    /// Sessions and listens they may have open at once.
    pub sessions: Option<usize>,
}

impl Principal {
    /// Somebody whose key is gone: they may use nothing.
    pub fn nobody() -> Self {
        Self { grant: Grant::nothing(), ..Self::default() }
    }

    /// Whether they may use a server at all: its prompts and resources, and the
    /// tools that [`Principal::may_see`] lets through.
    pub fn may_use(&self, server: &str) -> bool {
        self.grant.has_server(server)
    }

    /// Whether a tool is in their lists, by the name its server gives it.
    pub fn may_see(&self, server: &str, tool: &str) -> bool {
        self.may_use(server) && self.grant.has_tool(server, tool)
    }

    /// Whether they may call a tool. Nobody may call what they may not see.
    pub fn may_call(&self, server: &str, tool: &str) -> bool {
        self.may_see(server, tool)
    }

    /// Whether they may use the endpoint of a group; it shows them the servers
    /// of it that they may use.
    pub fn may_enter(&self, group: &str) -> bool {
        self.grant.has_group(group)
    }
}

/// Somebody, and the key that they showed, if they showed one.
pub type Identified = (Arc<Principal>, Option<KeyHash>);

/// Everybody that may come in.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Access {
    /// Those with keys.
    pub principals: Vec<Arc<Principal>>,
    /// Whoever shows no key; none if a key is needed.
    pub anonymous: Option<Arc<Principal>>,
}

impl Default for Access {
    /// Everybody may do everything: for a gateway that only this machine reaches.
    fn default() -> Self {
        Self { principals: Vec::new(), anonymous: Some(Arc::default()) }
    }
}

/// Why somebody does not come in.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Denied {
    /// They show no key.
    #[error("a key is needed")]
    NoKey,
    /// They show one that is not known.
    #[error("the key is not known")]
    UnknownKey,
}

impl Access {
    /// Who sent a request with these headers, and the key that shows it: it comes as
    /// `X-API-Key` or as a bearer token. A wrong key is never taken for none.
    pub fn identify(&self, headers: &HeaderMap) -> Result<Identified, Denied> {
        let bearer = headers.get_all(AUTHORIZATION).iter().filter_map(bearer_token);
        let shown = headers.get_all(API_KEY).iter().map(HeaderValue::as_bytes).chain(bearer);
        let mut found = Err(Denied::NoKey);
        for key in shown {
            let key = KeyHash::of(key);
            let known = self.by_key(&key).map(|principal| (principal, Some(key)));
            found = known.ok_or(Denied::UnknownKey);
            if found.is_ok() {
                return found;
            }
        }
        match found {
            Err(Denied::UnknownKey) if self.needs_no_keys() => self.stranger(),
            Err(Denied::NoKey) => self.stranger(),
            other => other,
        }
    }

    /// Whether there is no key to show, so that what looks like one is for others.
    fn needs_no_keys(&self) -> bool {
        self.principals.is_empty()
    }

    fn stranger(&self) -> Result<Identified, Denied> {
        self.anonymous.clone().map(|principal| (principal, None)).ok_or(Denied::NoKey)
    }

    /// Looks at every key, so that the time it takes does not tell whose is near.
    fn by_key(&self, shown: &KeyHash) -> Option<Arc<Principal>> {
        let mut found = None;
        for principal in &self.principals {
            for key in &principal.keys {
                if key.matches(shown) {
                    found = Some(Arc::clone(principal));
                }
            }
        }
        found
    }

    /// Lets in whom `other` lets in too, by keys that both have, to what both grant.
    #[must_use]
    pub fn within(&self, other: &Self) -> Self {
        let both = |one: &Arc<Principal>, other: &Arc<Principal>| {
            if one == other {
                return Arc::clone(one);
            }
            let keys = one.keys.iter().filter(|key| other.keys.contains(key)).copied().collect();
            let grant = one.grant.within(&other.grant);
            Arc::new(Principal { keys, grant, ..Principal::clone(one) })
        };
        let known = self.principals.iter().filter_map(|principal| {
            let same = other.principals.iter().find(|other| other.name == principal.name)?;
            Some(both(principal, same))
        });
        let anonymous = self.anonymous.as_ref().zip(other.anonymous.as_ref());
        Self {
            principals: known.collect(),
            anonymous: anonymous.map(|(one, other)| both(one, other)),
        }
    }

    /// The names of those who are let in by both, and have another grant here.
    pub fn regranted(&self, other: &Self) -> Vec<String> {
        let theirs: Vec<_> = other.principals.iter().chain(&other.anonymous).collect();
        let is_other = |own: &&Arc<Principal>| {
            theirs.iter().any(|other| other.name == own.name && other.grant != own.grant)
        };
        let own = self.principals.iter().chain(&self.anonymous).filter(is_other);
        own.map(|principal| principal.name.clone()).collect()
    }

    /// Also lets in who shows `key`, with everything granted, and nobody else who
    /// has none.
    #[must_use]
    pub fn with_key(mut self, name: &str, key: &[u8]) -> Self {
        let mut name = name.to_owned();
        while self.principals.iter().any(|other| other.name == name) {
            name.push('+');
        }
        let keys = vec![KeyHash::of(key)];
        self.principals.push(Arc::new(Principal { name, keys, ..Principal::default() }));
        self.anonymous = None;
        self
    }

    /// Whether anybody may come in without showing who they are.
    pub fn is_open(&self) -> bool {
        self.anonymous.is_some()
    }
}

fn bearer_token(value: &HeaderValue) -> Option<&[u8]> {
    let (scheme, token) = value.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim().as_bytes())
}
