//! What the files mean for a gateway.
//!
//! ```text
//!   files ──▶ Reading::read ──▶ Config… ──▶ Plan::build ──▶ Plan ──▶ Plan::diff ──▶ PlanChanges
//! ```
//!
//! A plan is a value: it holds no connection and starts nothing. Two plans of
//! the same files are equal, wherever in the files things stand, so that a
//! reload touches only what has another meaning.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use switchboard_net::bridge::Children;
use switchboard_proto::auth::{GrantType, IdentityProvider};
use switchboard_proto::pattern::fits;

use crate::config::{
    AccountOwner, AccountScope, Anonymous, Config, Entry, GatewaySection, Granted, Placed, Problem,
    ReadError, SourceLocation, Surroundings, Weight, nearest,
};
use crate::policy::{Access, Grant, Principal};
use crate::token::IssuerRule;

pub use crate::config::{
    ConsoleMode, Edit, GatewayBounds, IdentityFiles, Listen, ToolChanges, ToolSearch,
};
pub use crate::credential::{Credentials, may_pass};
pub use crate::glob::NameFilter;
pub use server::{PlanSecret, ServerPlan};

mod server;

/// All that a gateway is told.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// The servers that are wanted, by name.
    pub servers: BTreeMap<String, ServerPlan>,
    /// Servers that are switched off: users keep their accounts there.
    pub disabled: Vec<ServerPlan>,
    /// Whether a file has servers with mistakes. Users may have accounts there, too.
    pub has_broken: bool,
    /// Sets of servers under a name of their own. Every member is a key of
    /// `servers`, and is there once.
    pub groups: BTreeMap<String, Vec<String>>,
    /// Who may come in, and what they may do.
    pub access: Access,
    /// Where clients find us.
    pub listen: Listen,
    /// Bounds, where the files say so.
    pub bounds: GatewayBounds,
    /// Whether clients get two tools for finding and calling in place of all tools.
    pub search: ToolSearch,
    /// Whether the gateway has tools of its own, which tell of it and of calls.
    pub diagnostics: bool,
    /// What becomes of tools that changed since they were approved.
    pub tool_changes: ToolChanges,
    /// What people may do in the console.
    pub console: ConsoleMode,
    /// Where people and clients find us, if the files say so.
    pub public_url: Option<String>,
}

impl Plan {
    /// What these files mean together, and all that is wrong with them.
    ///
    /// Where two files say something about the same thing the first counts: of
    /// two servers, groups or keys with one name, of two ports. A server with
    /// mistakes is left out.
    pub fn build(files: &[Config]) -> (Self, Vec<Problem>) {
        let mut plan = Self::default();
        let mut problems: Vec<_> = files.iter().flat_map(|file| file.problems.clone()).collect();
        let gateways: Vec<_> = files.iter().map(|file| &file.gateway).collect();
        let defaults: Vec<_> = gateways.iter().map(|gateway| &gateway.defaults).collect();
        let entries = files.iter().flat_map(|file| &file.servers);
        let (wanted, disabled): (Vec<_>, Vec<_>) = entries.partition(|entry| entry.enabled);
        plan.disabled = disabled.iter().map(|entry| entry.with_defaults(&defaults)).collect();
        let has_users =
            gateways.iter().any(|gateway| !gateway.keys.is_empty() || gateway.oauth.is_some());
        let is_wrong = |entry: &&Entry| has_users && wrong_account(entry).is_some();
        plan.has_broken = files.iter().any(Config::has_broken) || disabled.iter().any(is_wrong);
        let mut seen = BTreeSet::new();
        for entry in wanted.into_iter().filter(|entry| seen.insert(&entry.plan.name)) {
            if let Some(problem) = wrong_account(entry).filter(|_| has_users) {
                problems.push(problem);
                continue;
            }
            plan.servers.insert(entry.plan.name.clone(), entry.with_defaults(&defaults));
        }
        for gateway in &gateways {
            plan.fill_in(gateway);
        }
        plan.search = gateways.iter().find_map(|gateway| gateway.search).unwrap_or_default();
        let diagnostics = gateways.iter().find_map(|gateway| gateway.diagnostics);
        plan.diagnostics = diagnostics.unwrap_or_default();
        let tool_changes = gateways.iter().find_map(|gateway| gateway.tool_changes);
        plan.tool_changes = tool_changes.unwrap_or_default();
        plan.console = gateways.iter().find_map(|gateway| gateway.console).unwrap_or_default();
        plan.public_url = gateways.iter().find_map(|gateway| gateway.public_url.clone());
        let names: BTreeSet<&str> = files.iter().flat_map(Config::names).collect();
        for group in gateways.iter().flat_map(|gateway| &gateway.groups) {
            let unknown = |server: &Placed<_>| unknown_server(server, &names);
            problems.extend(group.servers.iter().filter_map(unknown));
            // The servers that are wanted, each once.
            let fitting = |pattern| plan.servers.keys().filter(move |name| fits(pattern, name));
            let members = group.servers.iter().flat_map(|pattern| fitting(&pattern.value));
            let mut seen = BTreeSet::new();
            let members = members.filter(|name| seen.insert(*name)).cloned().collect();
            plan.groups.entry(group.name.clone()).or_insert(members);
        }
        for Granted { is_group, name } in gateways.iter().flat_map(|gateway| &gateway.granted) {
            let groups = || plan.groups.keys().map(String::as_str);
            problems.extend(if *is_group {
                unknown(name, "group", "add it to \"groups\"", groups())
            } else {
                unknown_server(name, &names)
            });
        }
        plan.add_principals(&gateways);
        problems.extend(plan.add_tokens(files));
        (plan, problems)
    }

    /// Says whose account each server is shown, once it is known who may come in: each user's
    /// own if there are users and the file wants a sign-in (OU-1).
    pub(crate) fn assign_accounts(&mut self) {
        let has_users = !self.access.principals.is_empty() || self.access.tokens.is_some();
        for server in self.servers.values_mut().chain(&mut self.disabled) {
            let oauth = &mut server.oauth;
            let is_shared = oauth.account == Some(AccountScope::Shared);
            let sign_in = PersonSignIn::of(&oauth.settings.grant);
            let takes_person = sign_in != PersonSignIn::None;
            oauth.owner = match oauth.is_wanted {
                _ if matches!(oauth.settings.grant, GrantType::Exchange { .. }) => {
                    AccountOwner::Exchanged
                }
                _ if !has_users || !takes_person || is_shared => AccountOwner::Operator,
                Some(true) if sign_in == PersonSignIn::InBrowser => AccountOwner::EachUser,
                Some(false) => AccountOwner::Operator,
                Some(true) | None => AccountOwner::Unsaid,
            };
            if oauth.inject.is_some() && oauth.owner == AccountOwner::EachUser {
                server.process = Children::PerUser;
            }
        }
    }

    /// The same with these servers switched off.
    pub(crate) fn without(&self, stopped: &BTreeSet<String>) -> Self {
        let mut plan = self.clone();
        let gone = plan.servers.extract_if(.., |name, _| stopped.contains(name));
        plan.disabled.extend(gone.map(|(_, server)| server));
        for members in plan.groups.values_mut() {
            members.retain(|member| !stopped.contains(member));
        }
        plan
    }

    /// Whether some server is shown what the tokens of users are exchanged for.
    pub(crate) fn exchanges_tokens(&self) -> bool {
        self.servers.values().any(|server| server.oauth.owner == AccountOwner::Exchanged)
    }

    /// Takes what was not said before.
    fn fill_in(&mut self, gateway: &GatewaySection) {
        let (listen, bounds) = (&mut self.listen, &mut self.bounds);
        listen.host = listen.host.take().or_else(|| gateway.listen.host.clone());
        listen.port = listen.port.or(gateway.listen.port);
        listen.origins.extend(gateway.listen.origins.iter().cloned());
        listen.hosts.extend(gateway.listen.hosts.iter().cloned());
        listen.unauthenticated |= gateway.listen.unauthenticated;
        listen.tls = listen.tls.take().or_else(|| gateway.listen.tls.clone());
        listen.console_port = listen.console_port.or(gateway.listen.console_port);
        bounds.fill_in(&gateway.bounds);
    }

    fn add_principals(&mut self, gateways: &[&GatewaySection]) {
        let mut principals: Vec<Arc<Principal>> = Vec::new();
        for key in gateways.iter().flat_map(|gateway| &gateway.keys) {
            // The empty name is that of clients without a key.
            if !key.name.is_empty() && principals.iter().all(|other| other.name != key.name) {
                principals.push(Arc::new(self.granted(key)));
            }
        }
        let mut said = gateways.iter().map(|gateway| &gateway.anonymous);
        let anonymous = match said.find(|anonymous| **anonymous != Anonymous::Unsaid) {
            Some(Anonymous::Granted(principal)) => Some(Arc::clone(principal)),
            Some(_) => None,
            // A file with keys means that clients must show one.
            None => {
                let has_tokens = gateways.iter().any(|gateway| gateway.oauth.is_some());
                (principals.is_empty() && !has_tokens).then(Arc::default)
            }
        };
        self.access.anonymous = anonymous.map(|anonymous| Arc::new(self.granted(&anonymous)));
        self.access.principals = principals;
    }

    /// Whose tokens are accepted, by the first file that says so; what is wrong with it.
    fn add_tokens(&mut self, files: &[Config]) -> Option<Problem> {
        let gateways = || files.iter().map(|file| &file.gateway);
        let mut tokens = gateways().find_map(|gateway| gateway.oauth.clone())?;
        tokens.public_url.clone_from(&self.public_url);
        tokens.trusted_proxies =
            gateways().find_map(|gateway| gateway.trusted_proxies.clone()).unwrap_or_default();
        let granted = |grant: &mut Grant| {
            let principal = Principal { grant: std::mem::take(grant), ..Principal::default() };
            *grant = self.granted(&principal).grant;
        };
        for rule in &mut tokens.issuers {
            rule.grant.iter_mut().for_each(|it| granted(&mut it.grant));
            rule.claims.values_mut().flat_map(BTreeMap::values_mut).for_each(granted);
        }
        tokens.scopes.values_mut().for_each(|scope| granted(&mut scope.grant));
        // The names of users begin like this.
        let is_taken = |name: &str| {
            let rest =
                |rule: &IssuerRule| name.strip_prefix(&*rule.name).map(|it| it.starts_with('/'));
            tokens.issuers.iter().any(|rule| rest(rule) == Some(true))
        };
        let taken = self.access.principals.iter().find(|it| is_taken(&it.name));
        let problem = taken.map(|taken| {
            let file = files.first().map(|file| file.file.as_path().into());
            let file = file.unwrap_or_else(|| Path::new("").into());
            let place = SourceLocation { file, line: 1, column: 1 };
            let what = format!("key {:?} is named like a user of an issuer", taken.name);
            Problem::error(&place, what, "give the key or the issuer another name")
        });
        self.access.tokens = (!tokens.issuers.is_empty()).then(|| Arc::new(tokens));
        problem
    }

    /// The same principal, with the servers of its groups looked up.
    fn granted(&self, principal: &Principal) -> Principal {
        let mut principal = principal.clone();
        let granted = principal.grant.groups.iter().flatten();
        let granted = granted.flat_map(|pattern| {
            self.groups.iter().filter(|(name, _)| fits(pattern, name)).flat_map(|(_, all)| all)
        });
        let members: BTreeSet<_> = granted.cloned().collect();
        principal.grant.members = members.into_iter().collect();
        if principal.grant.servers.is_some() && principal.grant.groups.is_none() {
            // A group that would show them nothing is not for them to know.
            let groups = self.groups.iter();
            let groups =
                groups.filter(|(_, all)| all.iter().any(|name| principal.grant.has_server(name)));
            principal.grant.groups = Some(groups.map(|(name, _)| name.clone()).collect());
        }
        principal
    }
}

/// How a grant asks a person.
#[derive(Clone, Copy, Eq, PartialEq)]
enum PersonSignIn {
    /// Not at all.
    None,
    /// In the browser of a user, which comes back to us.
    InBrowser,
    /// In a way of which we cannot tell which user it was.
    Elsewhere,
}

impl PersonSignIn {
    fn of(grant: &GrantType) -> Self {
        match grant {
            GrantType::Code => Self::InBrowser,
            // Its page does not come back to us: a link could be sent to somebody else (OU-3).
            GrantType::Device | GrantType::Enterprise(IdentityProvider::SignIn { .. }) => {
                Self::Elsewhere
            }
            _ => Self::None,
        }
    }
}

/// What is wrong with the account of a server, in a gateway with users.
fn wrong_account(entry: &Entry) -> Option<Problem> {
    let oauth = &entry.plan.oauth;
    let is_wanted = oauth.is_wanted == Some(true);
    let (why, instead) = match (PersonSignIn::of(&oauth.settings.grant), oauth.account) {
        _ if !is_wanted => return None,
        (PersonSignIn::Elsewhere, None | Some(AccountScope::User)) => (
            "is of a grant that cannot be connected for each user yet",
            "write \"account\": \"shared\", or \"grant\": \"authorization-code\"",
        ),
        (PersonSignIn::None, Some(AccountScope::User)) => (
            "cannot be each user's own: its grant asks nobody",
            "write \"account\": \"shared\", or \"grant\": \"authorization-code\"",
        ),
        _ => return None,
    };
    let what = format!("the account of server {:?} {why}", entry.plan.name);
    Some(Problem::error(&entry.place, what, instead))
}

fn unknown_server(name: &Placed<String>, names: &BTreeSet<&str>) -> Option<Problem> {
    let otherwise = "write the name of a server, or a part of it with *";
    unknown(name, "server", otherwise, names.iter().copied())
}

/// What is wrong with the name of something that no file has.
fn unknown<'n>(
    Placed { place, value: name }: &Placed<String>,
    what: &str,
    otherwise: &str,
    names: impl Iterator<Item = &'n str> + Clone,
) -> Option<Problem> {
    if name.contains('*') || names.clone().any(|known| known == name) {
        return None;
    }
    let near = nearest(name, names).map(|near| format!("write {near:?}"));
    let instead = near.unwrap_or_else(|| otherwise.to_owned());
    Some(Problem::error(place, format!("there is no {what} {name:?}"), instead))
}

/// What a reload has to do. Names are in alphabetical order.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct PlanChanges {
    /// Servers to start.
    pub added: Vec<String>,
    /// Servers to stop, once their calls are over.
    pub removed: Vec<String>,
    /// Servers that must be started anew: another place, process, credentials or
    /// time for a call.
    pub changed: Vec<String>,
    /// Servers that go on as they are, and of which clients see something else,
    /// or which have other limits.
    pub adjusted: Vec<String>,
    /// Principals of the same name that may use something else now.
    pub regranted: Vec<String>,
    /// In words, what changes of who may come in, and with what.
    pub access: Vec<String>,
    /// Whether the listener itself must be another, which a running gateway cannot
    /// do: its address, its connections, the heads that it reads.
    pub listen: bool,
}

impl Plan {
    /// What a listener is made of, once.
    fn socket(&self) -> impl PartialEq {
        let Listen { host, port, unauthenticated, tls, console_port, .. } = self.listen.clone();
        let GatewayBounds { connections, connections_each, head, .. } = self.bounds;
        let ports = (port, console_port);
        (host, ports, unauthenticated, tls, connections, connections_each, head)
    }

    /// What leads from `old` to this plan.
    pub fn diff(&self, old: &Self) -> PlanChanges {
        let mut changes = PlanChanges {
            listen: self.socket() != old.socket(),
            regranted: self.access.regranted(&old.access),
            access: self.access.told_changes(&old.access),
            ..PlanChanges::default()
        };
        for (name, server) in &self.servers {
            match old.servers.get(name) {
                None => changes.added.push(name.clone()),
                Some(before) if server == before => {}
                Some(before) if server.runs_as(before) => changes.adjusted.push(name.clone()),
                Some(_) => changes.changed.push(name.clone()),
            }
        }
        let gone = old.servers.keys().filter(|name| !self.servers.contains_key(*name));
        changes.removed.extend(gone.cloned());
        changes
    }
}

/// A plan, and what is wrong with its files.
#[derive(Debug, Default)]
pub struct Reading {
    /// What the readable part of the files means.
    pub plan: Plan,
    /// Mistakes and notes, in the order of the files.
    pub problems: Vec<Problem>,
    /// Files that cannot be used at all.
    pub unread: Vec<ReadError>,
    /// Other files that have a part in the meaning of these.
    pub besides: Vec<PathBuf>,
}

impl Reading {
    /// Reads files, the first of which counts most. Every file is read, whatever
    /// is wrong with those before it: people want to know all of it.
    pub fn read<P: AsRef<Path>>(files: &[P], around: &Surroundings) -> Self {
        let (mut read, mut unread) = (Vec::new(), Vec::new());
        for file in files {
            match Config::read(file.as_ref(), around) {
                Ok(config) => read.push(config),
                Err(error) => unread.push(error),
            }
        }
        let (plan, problems) = Plan::build(&read);
        let besides = read.into_iter().flat_map(|config| config.besides).collect();
        Self { plan, problems, unread, besides }
    }

    /// What must be changed before the files are taken as they are.
    pub fn errors(&self) -> impl Iterator<Item = &Problem> {
        self.problems.iter().filter(|problem| problem.weight == Weight::Error)
    }

    /// Whether there is nothing to change: what `serve --check` asks. Notes are no mistakes.
    pub fn is_sound(&self) -> bool {
        self.unread.is_empty() && self.errors().next().is_none()
    }

    /// All that is wrong or worth a note, a line each: the place, the fact, and
    /// what to write instead.
    pub fn lines(&self) -> Vec<String> {
        let unread = self.unread.iter().map(ReadError::line);
        let told = self.problems.iter().map(|problem| match problem.weight {
            Weight::Error => format!("{problem}; {}", problem.instead),
            Weight::Note => format!("{problem} (a note); {}", problem.instead),
        });
        unread.chain(told).collect()
    }
}

#[cfg(test)]
mod tests;
