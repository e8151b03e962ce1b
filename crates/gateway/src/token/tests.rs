//! What scopes, claims and issuers grant together.

use serde_json::json;

use super::*;

fn servers(names: &[&str]) -> Grant {
    Grant { servers: Some(names.iter().map(|&name| name.to_owned()).collect()), ..Grant::default() }
}

fn access() -> TokenAccess {
    let mut read = ScopeRule::default();
    read.grant.tools.only = Some(vec!["*__get_*".to_owned()]);
    let write =
        ScopeRule { grant: servers(&["git", "wiki"]), implies: vec!["mcp:read".to_owned()] };
    let claims =
        [("eng".to_owned(), servers(&["git", "files"])), ("ops".to_owned(), servers(&["*"]))];
    let rule = IssuerRule {
        name: "corp".to_owned(),
        grant: Some(Principal {
            grant: servers(&["git", "files"]),
            calls: Some(3),
            ..Principal::default()
        }),
        claims: [("realm.groups".to_owned(), claims.into())].into(),
        ..IssuerRule::default()
    };
    let scopes = [("mcp:read".to_owned(), read), ("mcp:write".to_owned(), write)].into();
    TokenAccess { issuers: vec![rule], scopes, ..TokenAccess::default() }
}

fn facts(scopes: &[&str], groups: &[&str]) -> TokenFacts {
    let claims = json!({"realm": {"groups": groups}});
    TokenFacts {
        issuer: "corp".to_owned(),
        subject: "ada".to_owned(),
        scopes: scopes.iter().map(|&scope| scope.to_owned()).collect(),
        claims: access().issuers[0].pick(claims.as_object().unwrap()),
        ..TokenFacts::default()
    }
}

fn may(grant: &Grant, server: &str, tool: &str) -> bool {
    grant.has_server(server) && grant.has_tool(server, tool)
}

// wire: OR-14, OR-15
#[test]
fn a_token_has_what_its_scopes_its_claims_and_its_issuer_all_grant() {
    for (scopes, groups, expected) in [
        (&["mcp:read"][..], &["eng"][..], "git__get_x files__get_x"),
        (&["mcp:write"], &["eng"], "git__get_x git__put files__get_x"),
        (&["mcp:write"], &["ops"], "git__get_x git__put files__get_x"),
        (&["mcp:write"], &["eng", "ops"], "git__get_x git__put files__get_x"),
        (&["mcp:write"], &["other"], ""),
        (&["other"], &["eng"], ""),
        (&[], &["eng"], ""),
    ] {
        let principal = access().principal(&facts(scopes, groups)).unwrap();
        assert_eq!((&*principal.name, principal.calls), ("corp/ada", Some(3)));
        let all = ["git", "files", "wiki"].into_iter();
        let all = all.flat_map(|server| ["get_x", "put"].map(|tool| (server, tool)));
        let found = all.filter(|(server, tool)| may(&principal.grant, server, tool));
        let found: Vec<_> = found.map(|(server, tool)| format!("{server}__{tool}")).collect();
        assert_eq!(found.join(" "), expected, "{scopes:?} {groups:?}");
    }
    let other = TokenFacts { issuer: "other".to_owned(), ..facts(&["mcp:read"], &["eng"]) };
    assert_eq!(access().principal(&other), None);
}

// wire: OR-6, OR-16
#[test]
fn tools_of_other_scopes_are_listed_and_said_to_need_them() {
    let reads = facts(&["mcp:read", "email"], &["eng"]);
    let grant = access().principal(&reads).unwrap().grant;
    assert!(grant.lists_tool("git", "put") && !may(&grant, "git", "put"));
    assert!(!grant.lists_tool("wiki", "get_x"), "the issuer does not grant it");
    let lacking = |server, tool| access().lacking(&reads, |grant| may(grant, server, tool));
    assert_eq!(lacking("git", "put").as_deref(), Some("mcp:read mcp:write"));
    assert_eq!((lacking("wiki", "put"), lacking("files", "put")), (None, None));
    let hiding = TokenAccess { hides: true, ..access() };
    assert!(!hiding.principal(&reads).unwrap().grant.lists_tool("git", "put"));
    assert_eq!(hiding.lacking(&reads, |grant| may(grant, "git", "put")), None);
    assert_eq!(access().basic_scopes(), ["mcp:read"]);
}

#[test]
fn between_two_plans_a_token_has_what_both_grant() {
    let (old, mut new) = (Arc::new(access()), access());
    new.issuers[0].grant =
        Some(Principal { grant: servers(&["files", "wiki"]), ..Principal::default() });
    let write = facts(&["mcp:write"], &["ops"]);
    let grant = new.within(&old).principal(&write).unwrap().grant;
    assert!(may(&grant, "files", "get_x"));
    assert!(!may(&grant, "git", "get_x") && !may(&grant, "wiki", "put"));
    new.issuers[0].issuer = "https://other.example".to_owned();
    assert_eq!(new.within(&old).principal(&write), None);
}
