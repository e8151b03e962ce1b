//! Whose access tokens let clients in, and to what. Pure: facts of a token in, a
//! [`Principal`] out.
//!
//! ```text
//!   the scopes of a token: what one of them grants ─┐
//!   its claims, such as groups: what one grants   ──┼─▶ what all of these grant
//!   the grant of its issuer                       ──┘
//! ```
//!
//! A part that the file leaves out restricts nothing. [`crate::issuer`] checks the tokens.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::{Map, Value};
use switchboard_net::http::fetch::AddressRange;
use switchboard_proto::auth::Secret;

use crate::policy::{Grant, Principal};

/// Whose access tokens are accepted, and what they grant.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct TokenAccess {
    /// The issuers, each with a name of its own.
    pub issuers: Vec<IssuerRule>,
    /// What each scope grants; if there are none, scopes do not count.
    pub scopes: BTreeMap<String, ScopeRule>,
    /// Whether a tool that another scope would grant is not listed.
    pub hides: bool,
    /// Where clients find us, without a slash at its end; none if the `Host` header tells.
    pub public_url: Option<String>,
    /// The proxies in front of us, which say where clients find us if nobody else does.
    pub trusted_proxies: Vec<AddressRange>,
    /// Nothing that this does not grant too.
    pub within: Option<Arc<Self>>,
    /// An authorization server of our own, in front of one of the issuers.
    pub facade: Option<FacadeRule>,
}

/// An authorization server of the gateway's own, for issuers that clients cannot register with.
#[derive(Clone, Eq, PartialEq)]
pub struct FacadeRule {
    /// The name of the issuer where people sign in.
    pub issuer: String,
    /// Our id there.
    pub client_id: String,
    /// Our secret, if there is one.
    pub client_secret: Option<String>,
    /// Whether the issuer is told what the tokens are for (RFC 8707).
    pub send_resource: bool,
    /// The scopes that people are asked for there, beside `openid`.
    pub scopes: Vec<String>,
    /// More parameters of the request to the issuer.
    pub authorize_params: Vec<(String, String)>,
    /// Whether clients may register.
    pub registration: bool,
    /// Where clients may have people sent back to, with `*`; anywhere if there is none.
    pub allowed_redirects: Vec<String>,
    /// The hosts of client metadata documents, with `*`; any if there is none.
    pub metadata_hosts: Vec<String>,
}

impl Default for FacadeRule {
    fn default() -> Self {
        Self {
            issuer: String::new(),
            client_id: String::new(),
            client_secret: None,
            send_resource: false,
            scopes: Vec::new(),
            authorize_params: Vec::new(),
            registration: true,
            allowed_redirects: Vec::new(),
            metadata_hosts: Vec::new(),
        }
    }
}

impl std::fmt::Debug for FacadeRule {
    /// The secret stays where it is.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { issuer, client_id, .. } = self;
        let mut text = f.debug_struct("FacadeRule");
        text.field("issuer", issuer).field("client_id", client_id).finish_non_exhaustive()
    }
}

/// An issuer of access tokens.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct IssuerRule {
    /// Its name in the file, which the names of its users begin with.
    pub name: String,
    /// Its identifier: `iss` of its tokens, byte for byte.
    pub issuer: String,
    /// Audiences that are accepted besides our own URLs.
    pub audiences: Vec<String>,
    /// What its users may use at most, and how often; everything if it is not said.
    pub grant: Option<Principal>,
    /// What the values of claims grant, by the name of the claim.
    pub claims: BTreeMap<String, BTreeMap<String, Grant>>,
    /// Where its keys are, if its metadata do not tell.
    pub jwks_uri: Option<String>,
    /// As whom it is asked about tokens that are no JWT; none if it is not.
    pub introspect: Option<Introspection>,
    /// Whether a JWT must be of the type `at+jwt`.
    pub is_typed: bool,
    /// Our id there, by which visitors of our pages show who they are.
    pub client_id: Option<String>,
    /// Our secret there.
    pub client_secret: Option<Secret>,
}

/// Our credentials at an introspection endpoint.
#[derive(Clone, Default, Eq, PartialEq)]
pub struct Introspection {
    /// Our id there.
    pub client_id: String,
    /// Our secret.
    pub client_secret: String,
}

impl std::fmt::Debug for Introspection {
    /// The secret stays where it is.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Introspection").field("client_id", &self.client_id).finish_non_exhaustive()
    }
}

/// What a scope grants.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct ScopeRule {
    /// What it grants itself.
    pub grant: Grant,
    /// Scopes that it contains.
    pub implies: Vec<String>,
}

/// What a token was found to say.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct TokenFacts {
    /// The name of its issuer.
    pub issuer: String,
    /// Whom it stands for, as the issuer calls them.
    pub subject: String,
    /// When it expires, in seconds of Unix time.
    pub expires: u64,
    /// For which resources it was issued.
    pub audiences: Vec<String>,
    /// Its scopes.
    pub scopes: Vec<String>,
    /// Names and values of those claims that grant something.
    pub claims: Vec<(String, String)>,
}

impl IssuerRule {
    /// Whether tokens are checked as by another rule, whatever they grant.
    pub fn checks_as(&self, other: &Self) -> bool {
        let part = |it: &Self| {
            let names: Vec<_> = it.claims.keys().cloned().collect();
            let Self { name, issuer, jwks_uri, introspect, is_typed, .. } = it.clone();
            (name, issuer, jwks_uri, introspect, is_typed, names)
        };
        part(self) == part(other)
    }

    /// Whether all claims that the file names are there.
    pub(crate) fn has_all_claims(&self, claims: &Map<String, Value>) -> bool {
        self.claims.keys().all(|name| find(claims, name).is_some())
    }

    /// The values of those claims that the file names.
    pub(crate) fn pick(&self, claims: &Map<String, Value>) -> Vec<(String, String)> {
        let mut picked = Vec::new();
        for name in self.claims.keys() {
            let values = match find(claims, name) {
                Some(Value::Array(values)) => values.iter().collect(),
                value => Vec::from_iter(value),
            };
            let texts = values.into_iter().filter_map(Value::as_str);
            // Those that grant nothing need not be kept.
            let counts = |text: &&str| self.claims[name].contains_key(*text);
            picked.extend(texts.filter(counts).map(|text| (name.clone(), text.to_owned())));
        }
        picked
    }

    /// What the claims of a token let it have at most.
    fn outer(&self, facts: &TokenFacts) -> Grant {
        let own = self.grant.as_ref().map_or_else(Grant::default, |it| it.grant.clone());
        if self.claims.is_empty() {
            return own;
        }
        let granted = self.claims.iter().flat_map(|(claim, values)| {
            let has = |value: &str| facts.claims.iter().any(|it| it.0 == *claim && it.1 == value);
            values.iter().filter(move |(value, _)| has(value)).map(|(_, grant)| grant.clone())
        });
        Grant::any_of(granted.collect()).within(&own)
    }
}

/// A claim by its name, or by a path with dots: `realm_access.roles`.
fn find<'c>(claims: &'c Map<String, Value>, name: &str) -> Option<&'c Value> {
    let nested = || {
        let (first, rest) = name.split_once('.')?;
        find(claims.get(first)?.as_object()?, rest)
    };
    claims.get(name).or_else(nested)
}

impl TokenAccess {
    /// Lets in whom `other` lets in too, to what both grant.
    pub(crate) fn within(&self, other: &Arc<Self>) -> Self {
        if *self == **other {
            return self.clone();
        }
        Self { within: Some(Arc::clone(other)), ..self.clone() }
    }

    /// The issuer of this name.
    pub(crate) fn issuer(&self, name: &str) -> Option<&IssuerRule> {
        self.issuers.iter().find(|issuer| issuer.name == name)
    }

    /// Who stands behind a token, and what it grants.
    pub(crate) fn principal(&self, facts: &TokenFacts) -> Option<Principal> {
        let rule = self.issuer(&facts.issuer)?;
        let outer = rule.outer(facts);
        let mut grant = outer.clone();
        if !self.scopes.is_empty() {
            let granted = |names: BTreeSet<&str>| {
                let rules = names.into_iter().filter_map(|name| self.scopes.get(name));
                let grants: Vec<_> = rules.map(|rule| rule.grant.clone()).collect();
                Grant::any_of(grants).within(&outer)
            };
            grant = granted(self.implied(facts.scopes.iter().map(String::as_str)));
            let all = granted(self.scopes.keys().map(String::as_str).collect());
            grant.listed = (!self.hides && all != grant).then(|| Box::new(all));
        }
        if let Some(other) = &self.within {
            let old = other.principal(facts).filter(|_| {
                let same = |old: &IssuerRule| old.checks_as(rule);
                other.issuer(&facts.issuer).is_some_and(same)
            })?;
            grant = grant.within(&old.grant);
        }
        let limits = rule.grant.clone().unwrap_or_default();
        let name = format!("{}/{}", facts.issuer, facts.subject);
        Some(Principal { name, keys: Vec::new(), grant, ..limits })
    }

    /// These scopes, and those that they contain (OR-14).
    fn implied<'s>(&'s self, scopes: impl Iterator<Item = &'s str>) -> BTreeSet<&'s str> {
        let mut all = BTreeSet::new();
        let mut left: Vec<_> = scopes.collect();
        while let Some(scope) = left.pop() {
            let Some((name, rule)) = self.scopes.get_key_value(scope) else { continue };
            if all.insert(name.as_str()) {
                left.extend(rule.implies.iter().map(String::as_str));
            }
        }
        all
    }

    /// All scopes that a token needs for something, if more scopes would do (OR-6): those
    /// that it has, and the least that grants what `has` asks for.
    pub(crate) fn lacking(
        &self,
        facts: &TokenFacts,
        has: impl Fn(&Grant) -> bool,
    ) -> Option<String> {
        if self.hides {
            return None;
        }
        let outer = self.issuer(&facts.issuer)?.outer(facts);
        let grants = |scope: &&str| {
            let names = self.implied(std::iter::once(*scope)).into_iter();
            let grants = names.map(|name| self.scopes[name].grant.clone()).collect();
            has(&Grant::any_of(grants).within(&outer))
        };
        let fitting = self.scopes.keys().map(String::as_str).filter(grants);
        let least = fitting.min_by_key(|scope| self.implied(std::iter::once(*scope)).len())?;
        let held = facts.scopes.iter().map(String::as_str);
        let held = held.filter(|scope| self.scopes.contains_key(*scope));
        let all: BTreeSet<_> = held.chain([least]).collect();
        Some(Vec::from_iter(all).join(" "))
    }

    /// The scopes to begin with: those that contain no other.
    pub fn basic_scopes(&self) -> Vec<&str> {
        let basic = self.scopes.iter().filter(|(_, rule)| rule.implies.is_empty());
        basic.map(|(name, _)| name.as_str()).collect()
    }
}

#[cfg(test)]
mod tests;
