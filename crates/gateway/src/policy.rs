//! Who may see and call what, and how often.
//!
//! Pure: a request's headers in, a [`Principal`] out; a principal and a name in,
//! yes or no out; an instant in, a turn or a wait out. Tokens are never kept:
//! [`KeyHash`] is what the files have, and [`Access::identify`] compares hashes.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD as URL_SAFE_NO_PAD;
use http::HeaderMap;
use ring::digest::{SHA256, digest};
use ring::rand::{SecureRandom as _, SystemRandom};
use switchboard_net::access::shown_keys;
use switchboard_net::connection::ClientConnection;
use switchboard_proto::pattern::fits;
use switchboard_proto::refusal::Refusal;

use crate::glob::NameFilter;
use crate::token::{IssuerRule, TokenAccess};

/// A user or program with a key, or all clients without one.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Principal {
    /// The name in the file; empty for clients without a key.
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

/// A principal, and the hash of the key that the client sent, if it sent one.
pub type Identified = (Arc<Principal>, Option<KeyHash>);

/// Everybody that may come in.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Access {
    /// Those with keys.
    pub principals: Vec<Arc<Principal>>,
    /// Clients without a key; none if a key is required.
    pub anonymous: Option<Arc<Principal>>,
    /// Those with access tokens, if tokens of some issuer are accepted.
    pub tokens: Option<Arc<TokenAccess>>,
}

impl Default for Access {
    /// Everybody may do everything: for a gateway that only this machine reaches.
    fn default() -> Self {
        Self { principals: Vec::new(), anonymous: Some(Arc::default()), tokens: None }
    }
}

/// Why a client is refused.
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
        let mut is_shown = false;
        for key in shown_keys(headers) {
            let key = KeyHash::compute(key);
            if let Some(principal) = self.by_key(&key) {
                return Ok((principal, Some(key)));
            }
            is_shown = true;
        }
        // Where there is no key to show, what looks like one is for others.
        if is_shown && !self.principals.is_empty() {
            return Err(Denied::UnknownKey);
        }
        Ok((self.anonymous.clone().ok_or(Denied::NoKey)?, None))
    }

    /// Whether this is a key of somebody.
    pub(crate) fn has_key(&self, shown: &[u8]) -> bool {
        self.by_key(&KeyHash::compute(shown)).is_some()
    }

    /// The name of the user whose key this is.
    pub(crate) fn owner_of_key(&self, shown: &[u8]) -> Option<String> {
        Some(self.by_key(&KeyHash::compute(shown))?.name.clone())
    }

    /// Looks at every key, so that the time it takes does not tell whose is near.
    fn by_key(&self, shown: &KeyHash) -> Option<Arc<Principal>> {
        let keys = self.principals.iter().flat_map(|it| it.keys.iter().map(move |key| (it, key)));
        let mut found = None;
        for (principal, key) in keys {
            found = if key.matches(shown) { Some(principal) } else { found };
        }
        found.cloned()
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
        let tokens = self.tokens.as_ref().zip(other.tokens.as_ref());
        Self {
            principals: known.collect(),
            anonymous: anonymous.map(|(one, other)| both(one, other)),
            tokens: tokens.map(|(one, other)| Arc::new(one.within(other))),
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

    /// In words, what is other than in `old`.
    pub(crate) fn told_changes(&self, old: &Self) -> Vec<String> {
        let named = |from: &Self, name: &str| {
            from.principals.iter().find(|it| it.name == name).map(Arc::clone)
        };
        let mut told = Vec::new();
        match (old.is_open(), self.is_open()) {
            (false, true) => told.push("anybody comes in, without a key".to_owned()),
            (true, false) => told.push("nobody comes in without a key".to_owned()),
            _ => {}
        }
        for own in &self.principals {
            let name = &own.name;
            match named(old, name) {
                None => told.push(format!("{name} may come in")),
                Some(other) if other.keys != own.keys => {
                    told.push(format!("{name} has other keys"));
                }
                Some(_) => {}
            }
        }
        let gone = old.principals.iter().filter(|it| named(self, &it.name).is_none());
        told.extend(gone.map(|it| format!("{} may not come in any more", it.name)));
        let regranted = self.regranted(old).into_iter();
        told.extend(regranted.map(|name| format!("{name} may use something else")));
        if self.tokens != old.tokens {
            told.push("other access tokens are taken".to_owned());
        }
        told
    }

    /// Also lets in who shows `key`, with everything granted, and nobody else who
    /// has none.
    #[must_use]
    pub fn with_key(mut self, name: &str, key: &[u8]) -> Self {
        let mut name = name.to_owned();
        while self.principals.iter().any(|other| other.name == name) {
            name.push('+');
        }
        let keys = vec![KeyHash::compute(key)];
        self.principals.push(Arc::new(Principal { name, keys, ..Principal::default() }));
        self.anonymous = None;
        self
    }

    /// Also lets in who shows a token of this issuer, and nobody else who shows nothing.
    /// `public_url` is where clients find us, if that is known.
    #[must_use]
    pub fn with_issuer(mut self, rule: IssuerRule, public_url: Option<String>) -> Self {
        let mut tokens = self.tokens.as_deref().cloned().unwrap_or_default();
        tokens.issuers.retain(|other| other.issuer != rule.issuer && other.name != rule.name);
        tokens.issuers.push(rule);
        tokens.public_url = public_url.or(tokens.public_url);
        (self.tokens, self.anonymous) = (Some(Arc::new(tokens)), None);
        self
    }

    /// Whether anybody may come in without showing who they are.
    pub fn is_open(&self) -> bool {
        self.anonymous.is_some()
    }
}

/// Servers, groups and tools, by name or with `*`. The default is everything.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Grant {
    /// These servers; those of `groups` alone if that is said and this is not.
    pub servers: Option<Vec<String>>,
    /// These groups.
    pub groups: Option<Vec<String>>,
    /// The servers of these groups, which `Plan::build` looks up.
    pub members: Vec<String>,
    /// These tools, as `<server>__<tool>`.
    pub tools: NameFilter,
    /// What one of these grants, in place of all above.
    pub any: Option<Vec<Self>>,
    /// Nothing that this does not grant too.
    pub within: Option<Box<Self>>,
    /// Tools that this grants are listed too; their use takes another scope.
    pub listed: Option<Box<Self>>,
}

impl Grant {
    /// Nothing at all.
    pub fn nothing() -> Self {
        let none = Some(Vec::new());
        Self { servers: none.clone(), groups: none, ..Self::default() }
    }

    /// What both grant.
    #[must_use]
    pub fn within(&self, other: &Self) -> Self {
        if self == other {
            return self.clone();
        }
        let outer = match &self.within {
            Some(own) => own.within(other),
            None => other.clone(),
        };
        Self { within: Some(Box::new(outer)), ..self.clone() }
    }

    /// What one of these grants.
    #[must_use]
    pub fn any_of(mut grants: Vec<Self>) -> Self {
        match grants.len() {
            0 => Self::nothing(),
            1 => grants.remove(0),
            _ => Self { any: Some(grants), ..Self::default() },
        }
    }

    /// Whether nothing is kept from them.
    pub fn is_open(&self) -> bool {
        let is_open = self.servers.is_none() && self.groups.is_none() && self.has_all_tools();
        is_open && self.any.as_ref().is_none_or(|any| any.iter().any(Self::is_open))
    }

    /// Whether no tool is kept from them that a granted server has.
    pub(crate) fn has_all_tools(&self) -> bool {
        let is_open = self.any.as_ref().is_none_or(|any| any.iter().any(Self::is_open));
        is_open && self.tools.is_open() && self.within.as_ref().is_none_or(|outer| outer.is_open())
    }

    fn is_within(&self, has: impl Fn(&Self) -> bool) -> bool {
        self.within.as_deref().is_none_or(has)
    }

    /// Whether they may use a server at all: its prompts and resources, and the
    /// tools that [`Grant::has_tool`] lets through.
    pub(crate) fn has_server(&self, name: &str) -> bool {
        if !self.is_within(|outer| outer.has_server(name)) {
            return false;
        }
        if let Some(any) = &self.any {
            return any.iter().any(|one| one.has_server(name));
        }
        let named = self.servers.as_deref();
        let named = named.map(|servers| servers.iter().any(|pattern| fits(pattern, name)));
        named.unwrap_or(self.groups.is_none()) || self.members.iter().any(|member| member == name)
    }

    /// Whether they may use the endpoint of a group; it shows them the servers
    /// of it that they may use.
    pub(crate) fn has_group(&self, name: &str) -> bool {
        if let Some(any) = &self.any {
            let is_in = any.iter().any(|one| one.has_group(name));
            return is_in && self.is_within(|outer| outer.has_group(name));
        }
        let named = self.groups.as_deref();
        named.is_none_or(|groups| groups.iter().any(|pattern| fits(pattern, name)))
            && self.is_within(|outer| outer.has_group(name))
    }

    /// Whether a tool of a granted server is in their lists, by the name its server gives it.
    /// No client may call what it may not see.
    pub(crate) fn has_tool(&self, server: &str, tool: &str) -> bool {
        if let Some(any) = &self.any {
            let uses = |one: &Self| one.has_server(server) && one.has_tool(server, tool);
            return any.iter().any(uses) && self.is_within(|outer| outer.has_tool(server, tool));
        }
        (self.tools.is_open() || self.tools.lets(&format!("{server}__{tool}")))
            && self.is_within(|outer| outer.has_tool(server, tool))
    }
}

impl Grant {
    /// Whether tools of a server are listed, be it that their use takes another scope.
    pub(crate) fn lists_server(&self, name: &str) -> bool {
        self.has_server(name) || self.listed.as_ref().is_some_and(|it| it.has_server(name))
    }

    /// Whether a tool is listed, be it that its use takes another scope.
    pub(crate) fn lists_tool(&self, server: &str, tool: &str) -> bool {
        let uses = |grant: &Self| grant.has_server(server) && grant.has_tool(server, tool);
        uses(self) || self.listed.as_deref().is_some_and(uses)
    }
}

/// Tells one principal from another, and from no principal.
pub(crate) type PrincipalMark = [u8; 16];

pub(crate) fn mark(client: &ClientConnection) -> PrincipalMark {
    let digest = digest(&SHA256, client.principal());
    let mut mark = PrincipalMark::default();
    mark.copy_from_slice(&digest.as_ref()[..16]);
    mark
}

/// What to call whoever stands behind a client: the name of their key, or what tells
/// those apart who have none; nothing if they do not say.
pub fn who(client: &ClientConnection) -> Option<String> {
    let name = client.who().name();
    if !name.is_empty() {
        return Some(name.to_owned());
    }
    if client.principal().is_empty() {
        return None;
    }
    let [a, b, c, d, ..] = mark(client);
    Some(format!("{a:02x}{b:02x}{c:02x}{d:02x}"))
}

/// What a hash in a file starts with.
pub const PREFIX: &str = "sha256:";

/// What keys of ours start with, so that people and scanners know one when they see it.
const KEY_PREFIX: &str = "sb_";

/// A new key: 256 bits of the system's randomness, if it has any.
pub fn new_key() -> Option<String> {
    let mut bytes = [0; 32];
    SystemRandom::new().fill(&mut bytes).ok()?;
    Some(format!("{KEY_PREFIX}{}", URL_SAFE_NO_PAD.encode(bytes)))
}

/// Characters of a key that people choose themselves: fewer can be guessed.
pub const MIN_KEY: usize = 16;

/// The SHA-256 of a key.
#[derive(Clone, Copy, Eq, PartialEq)]
pub struct KeyHash([u8; 32]);

/// Not the hash of a key.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("a hash is {PREFIX} and 64 hexadecimal digits")]
pub struct BadHash;

impl KeyHash {
    /// The hash of a key.
    pub fn compute(key: &[u8]) -> Self {
        let mut bytes = [0; 32];
        bytes.copy_from_slice(digest(&SHA256, key).as_ref());
        Self(bytes)
    }

    /// Whether a key that people chose can be guessed; blanks around it are none of it.
    pub fn is_weak(key: &str) -> bool {
        key.trim().chars().count() < MIN_KEY
    }

    /// Whether both are of one key. Takes the same time wherever they differ.
    pub fn matches(&self, other: &Self) -> bool {
        let pairs = self.0.iter().zip(&other.0);
        let difference = pairs.fold(0, |sum, (a, b)| std::hint::black_box(sum | (a ^ b)));
        difference == 0
    }
}

impl fmt::Display for KeyHash {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(PREFIX)?;
        self.0.iter().try_for_each(|byte| write!(out, "{byte:02x}"))
    }
}

impl fmt::Debug for KeyHash {
    /// Enough to tell two apart.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{PREFIX}{:02x}{:02x}…", self.0[0], self.0[1])
    }
}

impl FromStr for KeyHash {
    type Err = BadHash;

    fn from_str(text: &str) -> Result<Self, BadHash> {
        let digits = text.trim().strip_prefix(PREFIX).ok_or(BadHash)?.as_bytes();
        let mut bytes = [0; 32];
        if digits.len() != 2 * bytes.len() {
            return Err(BadHash);
        }
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            let digit = |at: usize| char::from(pair[at]).to_digit(16).ok_or(BadHash);
            *byte = u8::try_from(digit(0)? << 4 | digit(1)?).map_err(|_| BadHash)?;
        }
        Ok(Self(bytes))
    }
}

/// So many calls in so long: `60/m`. All of them may come at once.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Rate {
    /// Calls.
    pub calls: u32,
    /// In so long.
    pub per: Duration,
}

/// Not a rate.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("a rate is a number of calls and a time: 10/s, 60/m or 1000/h")]
pub struct BadRate;

impl FromStr for Rate {
    type Err = BadRate;

    fn from_str(text: &str) -> Result<Self, BadRate> {
        let (calls, per) = text.split_once('/').ok_or(BadRate)?;
        let per = match per.trim() {
            "s" | "sec" | "second" => 1,
            "m" | "min" | "minute" => 60,
            "h" | "hour" => 3600,
            "d" | "day" => 86400,
            _ => return Err(BadRate),
        };
        let calls = calls.trim().parse().ok().filter(|calls| *calls > 0).ok_or(BadRate)?;
        Ok(Self { calls, per: Duration::from_secs(per) })
    }
}

/// Counts the calls of one principal.
#[derive(Clone, Debug)]
pub struct Meter {
    rate: Option<Rate>,
    max_open: Option<usize>,
    open: usize,
    /// How much of `per` is saved up: a call costs its share of it.
    saved: Duration,
    last: Option<Instant>,
}

impl Meter {
    /// A meter that nothing has gone through.
    pub fn new(rate: Option<Rate>, max_open: Option<usize>) -> Self {
        let saved = rate.map_or(Duration::ZERO, |rate| rate.per);
        Self { rate, max_open, open: 0, saved, last: None }
    }

    /// Counts a call that begins. If it is let through, [`Meter::leave`] must follow.
    pub fn enter(&mut self, now: Instant) -> Result<(), Refusal> {
        if self.max_open.is_some_and(|max| self.open >= max) {
            return Err(Refusal::TooManyCalls);
        }
        self.pay(now)?;
        self.open += 1;
        Ok(())
    }

    /// Something that counts for the rate, and is never open.
    pub fn pay(&mut self, now: Instant) -> Result<(), Refusal> {
        let Some(rate) = self.rate else { return Ok(()) };
        let passed = self.last.map_or(Duration::ZERO, |last| now.saturating_duration_since(last));
        self.saved = rate.per.min(self.saved.saturating_add(passed));
        self.last = Some(now.max(self.last.unwrap_or(now)));
        let cost = rate.per / rate.calls;
        let Some(left) = self.saved.checked_sub(cost) else {
            return Err(Refusal::TooOften { wait: cost.saturating_sub(self.saved) });
        };
        self.saved = left;
        Ok(())
    }

    /// A call is over.
    pub fn leave(&mut self) {
        self.open = self.open.saturating_sub(1);
    }

    /// Whether no call is open.
    pub(crate) fn is_idle(&self) -> bool {
        self.open == 0
    }

    /// Calls that are open.
    #[cfg(test)]
    pub(crate) fn open(&self) -> usize {
        self.open
    }

    /// Other limits from here on, for the calls that are open too.
    pub fn adjust(&mut self, rate: Option<Rate>, max_open: Option<usize>) {
        if self.rate != rate {
            self.saved = rate.map_or(Duration::ZERO, |rate| rate.per);
        }
        (self.rate, self.max_open) = (rate, max_open);
    }
}

#[cfg(test)]
mod tests;
