//! From files to a plan.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{Plan, ServerPlan};
use crate::config::{
    Anonymous, Config, Defaults, Entry, Gateway, Granted, Group, Place, Placed, Problem, nearest,
};
use crate::glob::fits;
use crate::policy::Principal;

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
        let wanted = || files.iter().flat_map(|file| &file.servers).filter(|entry| entry.enabled);
        for entry in wanted() {
            let server = || ServerPlan::of(entry, &defaults);
            plan.servers.entry(entry.name.clone()).or_insert_with(server);
        }
        for gateway in &gateways {
            plan.settle(gateway);
        }
        let names: BTreeSet<&str> = files.iter().flat_map(Config::names).collect();
        plan.group(&gateways, &names, &mut problems);
        plan.admit(&gateways, &names, &mut problems);
        (plan, problems)
    }

    /// Takes what was not said before.
    fn settle(&mut self, gateway: &Gateway) {
        let (listen, bounds) = (&mut self.listen, &mut self.bounds);
        listen.host = listen.host.take().or_else(|| gateway.listen.host.clone());
        listen.port = listen.port.or(gateway.listen.port);
        listen.origins.extend(gateway.listen.origins.iter().cloned());
        listen.hosts.extend(gateway.listen.hosts.iter().cloned());
        listen.unauthenticated |= gateway.listen.unauthenticated;
        bounds.message = bounds.message.or(gateway.bounds.message);
        bounds.sessions = bounds.sessions.or(gateway.bounds.sessions);
        bounds.streams = bounds.streams.or(gateway.bounds.streams);
        bounds.parked = bounds.parked.or(gateway.bounds.parked);
        bounds.calls = bounds.calls.or(gateway.bounds.calls);
        bounds.connections = bounds.connections.or(gateway.bounds.connections);
        bounds.connections_each = bounds.connections_each.or(gateway.bounds.connections_each);
        bounds.head = bounds.head.or(gateway.bounds.head);
        bounds.bodies = bounds.bodies.or(gateway.bounds.bodies);
        bounds.bodies_each = bounds.bodies_each.or(gateway.bounds.bodies_each);
        bounds.unread = bounds.unread.or(gateway.bounds.unread);
    }

    fn group(
        &mut self,
        gateways: &[&Gateway],
        names: &BTreeSet<&str>,
        problems: &mut Vec<Problem>,
    ) {
        self.search = gateways.iter().find_map(|gateway| gateway.search).unwrap_or_default();
        let diagnostics = gateways.iter().find_map(|gateway| gateway.diagnostics);
        self.diagnostics = diagnostics.unwrap_or_default();
        let mut groups = BTreeMap::new();
        for Placed { value: group, .. } in gateways.iter().flat_map(|gateway| &gateway.groups) {
            let servers = group.servers.iter();
            problems
                .extend(servers.filter_map(|server| unknown(&server.place, &server.value, names)));
            groups.entry(group.name.clone()).or_insert_with(|| self.members(group));
        }
        self.groups = groups;
    }

    /// The servers of a group that are wanted, each once.
    fn members(&self, group: &Group) -> Vec<String> {
        let mut members: Vec<String> = Vec::new();
        for pattern in &group.servers {
            let fitting = self.servers.keys().filter(|name| fits(&pattern.value, name));
            for name in fitting {
                if !members.contains(name) {
                    members.push(name.clone());
                }
            }
        }
        members
    }

    fn admit(
        &mut self,
        gateways: &[&Gateway],
        names: &BTreeSet<&str>,
        problems: &mut Vec<Problem>,
    ) {
        let mut principals: Vec<Arc<Principal>> = Vec::new();
        for Placed { place, value } in gateways.iter().flat_map(|gateway| &gateway.granted) {
            problems.extend(match value {
                Granted::Group(name) => self.no_group(place, name),
                Granted::Server(name) => unknown(place, name, names),
            });
        }
        for Placed { value, .. } in gateways.iter().flat_map(|gateway| &gateway.keys) {
            // Nobody in particular is somebody else, and has no key.
            if value.name.is_empty() || principals.iter().any(|other| other.name == value.name) {
                continue;
            }
            principals.push(Arc::new(self.granted(value)));
        }
        let mut said = gateways.iter().map(|gateway| &gateway.anonymous);
        let anonymous = match said.find(|anonymous| **anonymous != Anonymous::Unsaid) {
            Some(Anonymous::Granted(principal)) => Some(Arc::clone(principal)),
            Some(_) => None,
            // Who hands out keys means them to be shown.
            None => principals.is_empty().then(Arc::default),
        };
        self.access.anonymous = anonymous.map(|anonymous| Arc::new(self.granted(&anonymous)));
        self.access.principals = principals;
    }

    fn no_group(&self, place: &Place, name: &str) -> Option<Problem> {
        if name.contains('*') || self.groups.contains_key(name) {
            return None;
        }
        let near = nearest(name, self.groups.keys().map(String::as_str));
        let instead =
            near.map_or("add it to \"groups\"".to_owned(), |near| format!("write {near:?}"));
        Some(Problem::error(place, format!("there is no group {name:?}"), instead))
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
            let groups = groups.filter(|(_, all)| all.iter().any(|name| principal.may_use(name)));
            principal.grant.groups = Some(groups.map(|(name, _)| name.clone()).collect());
        }
        principal
    }
}

/// What is wrong with the name of a server that no file has.
fn unknown(place: &Place, name: &str, names: &BTreeSet<&str>) -> Option<Problem> {
    if name.contains('*') || names.contains(name) {
        return None;
    }
    let near = nearest(name, names.iter().copied());
    let instead = near.map_or_else(
        || "write the name of a server, or a part of it with *".to_owned(),
        |near| format!("write {near:?}"),
    );
    Some(Problem::error(place, format!("there is no server {name:?}"), instead))
}

impl ServerPlan {
    /// What an entry means, with `defaults` for what it does not say, the first
    /// ones first.
    pub fn of(entry: &Entry, defaults: &[&Defaults]) -> Self {
        let mut plan = Self::new(&entry.name, entry.target.clone());
        let said = Defaults { settings: entry.settings.clone(), timeouts: entry.timeouts };
        let all = || std::iter::once(&said).chain(defaults.iter().copied());
        plan.description.clone_from(&entry.description);
        plan.process = all().find_map(|said| said.settings.process).unwrap_or_default();
        plan.start = all().find_map(|said| said.timeouts.start).unwrap_or(Self::START);
        plan.call = all().find_map(|said| said.timeouts.call);
        plan.sleep = all().find_map(|said| said.settings.sleep).unwrap_or_default();
        plan.calls = all().find_map(|said| said.settings.calls).unwrap_or(Self::CALLS);
        plan.tools = entry.tools.clone();
        let settings = said.settings;
        plan.prompts = settings.prompts;
        plan.resources = settings.resources;
        plan.tool_edits = settings.tool_edits;
        plan.prompt_edits = settings.prompt_edits;
        plan.prefix = settings.prefix;
        plan.credentials = settings.credentials;
        plan
    }
}
