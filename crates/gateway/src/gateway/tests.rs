//! A plan that follows another, and what holds in between.

use std::sync::OnceLock;

use switchboard_net::stdio::child::Command;
use switchboard_net::upstream::Target;

use super::*;
use crate::policy::{Access, KeyHash, Principal};

fn plan(servers: &[&str], keys: &[(&str, &[&str])]) -> Plan {
    let command = Command::new("cat");
    let server = |name: &&str| {
        ((*name).to_owned(), ServerPlan::new(*name, Target::Command(command.clone())))
    };
    let principal = |(name, servers): &(&str, &[&str])| {
        let keys = vec![KeyHash::compute(name.as_bytes())];
        let mut principal = Principal { name: (*name).to_owned(), keys, ..Principal::default() };
        principal.grant.servers = Some(servers.iter().map(|name| (*name).to_owned()).collect());
        Arc::new(principal)
    };
    let principals = keys.iter().map(principal).collect();
    let access = Access { principals, anonymous: None, tokens: None };
    Plan { servers: servers.iter().map(server).collect(), access, ..Plan::default() }
}

/// Looks at the moment when a new server is reached for.
#[tokio::test]
async fn no_key_gets_at_a_new_server_by_its_old_grant_nor_at_an_old_one_by_its_new() {
    let authenticator: Arc<OnceLock<Arc<Authenticator>>> = Arc::default();
    let seen: Arc<Mutex<Vec<String>>> = Arc::default();
    let (asked, told) = (Arc::clone(&authenticator), Arc::clone(&seen));
    let reach = move |server: &ServerPlan| {
        if let Some(authenticator) = asked.get() {
            for name in ["ada", "bob", "cy"] {
                let who = authenticator.principal(name);
                let may = |server| who.as_ref().is_some_and(|who| who.grant.has_server(server));
                let may = ["old", "new"].map(|server| if may(server) { server } else { "-" });
                told.lock().unwrap().push(format!("{name} {}", may.join(" ")));
            }
        }
        let Target::Command(command) = &server.target else { panic!("it is a command") };
        ServerTarget::command(command.clone(), Vec::new())
    };
    let first = plan(&["old"], &[("ada", &["*"]), ("bob", &["old"])]);
    let gateway = Gateway::start(first, FleetOptions::default(), reach).unwrap();
    _ = authenticator.set(Arc::clone(gateway.authenticator()));
    let next = plan(&["old", "new"], &[("ada", &["old"]), ("cy", &["old", "new"])]);
    gateway.apply(next).unwrap();
    assert_eq!(*seen.lock().unwrap(), ["ada old -", "bob - -", "cy - -"]);
    let may = |name: &str, server| {
        gateway.authenticator().principal(name).is_some_and(|who| who.grant.has_server(server))
    };
    assert!(may("ada", "old") && !may("ada", "new") && may("cy", "new") && !may("bob", "old"));
    gateway.close().await;
}
