//! Files, what they mean, and what differs between two of them.

use std::path::Path;
use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};
use switchboard_net::upstream::Target;

use switchboard_net::bridge::Children;

use super::*;
use crate::config::{Config, Surroundings};
use crate::policy::{Denied, KeyHash};

fn config(file: &str, text: &str) -> Config {
    let variables = [("TOKEN", "s3cret"), ("KEY", "a key of some length")];
    let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let around = Surroundings::new(variables, "/p");
    Config::parse(Path::new(file), text, &around).unwrap()
}

fn plan(text: &str) -> Plan {
    let (plan, problems) = Plan::build(&[config("m.json", text)]);
    assert_eq!(problems, []);
    plan
}

/// What is wrong with a file, a line each: place, fact, remedy.
#[track_caller]
fn check(text: &str, expected: &[&str]) {
    let (_, problems) = Plan::build(&[config("m.json", text)]);
    let told = problems.iter().map(|problem| format!("{problem} -> {}", problem.instead));
    assert_eq!(told.collect::<Vec<_>>(), expected);
}

#[test]
fn a_file_without_a_word_of_ours_has_a_plan() {
    let plan = plan(
        r#"{"mcpServers": {"a": {"command": "c", "timeout": 5, "includeTools": ["get_*"]},
            "b": {"url": "http://h/mcp"}, "c": {"command": "c", "disabled": true}}}"#,
    );
    assert_eq!(plan.servers.keys().collect::<Vec<_>>(), ["a", "b"]);
    let a = &plan.servers["a"];
    assert_eq!((a.process, a.idle, a.start), (Children::PerSession, None, ServerPlan::START));
    assert_eq!(a.call, Some(Duration::from_secs(5)));
    assert!(a.tools.lets("get_x") && !a.tools.lets("put_x"));
    assert!(plan.access.is_open() && plan.groups.is_empty());
    assert_eq!(plan.listen, Listen::default());
}

#[test]
fn a_server_says_how_it_is_treated_and_defaults_fill_in() {
    let plan = plan(
        r#"{"servers": {
            "a": {"command": "c", "process": "per-user", "startTimeout": "90s", "idleTimeout": false,
                  "maxConcurrency": 2, "excludePrompts": ["x*"], "includeResources": ["file:*"],
                  "tools": {"t": {"name": "u", "description": "d",
                                  "annotations": {"readOnlyHint": true, "title": null}}},
                  "prompts": {"p": {"title": "P"}}},
            "b": {"url": "https://h/mcp", "process": {"pool": 3}, "passHeaders": ["X-Tenant"],
                  "headersHelper": ["get", "token"], "tools": ["only"]}},
        "switchboard": {"defaults": {"idleTimeout": "10m", "timeout": "1.5s", "process": "per-session",
                                     "maxConcurrency": 9, "startTimeout": 7}}}"#,
    );
    let (a, b) = (&plan.servers["a"], &plan.servers["b"]);
    assert_eq!((a.process, a.idle, a.calls.get()), (Children::PerUser, None, 2));
    assert_eq!((a.start, a.call), (Duration::from_secs(90), Some(Duration::from_millis(1500))));
    assert!(!a.prompts.lets("xy") && a.resources.lets("file:///a") && !a.resources.lets("db:x"));
    let edit = &a.tool_edits["t"];
    assert_eq!((edit.name.as_deref(), edit.description.as_deref()), (Some("u"), Some("d")));
    let annotations = serde_json::to_string(&edit.annotations).unwrap();
    assert_eq!(annotations, r#"{"readOnlyHint":true,"title":null}"#);
    assert_eq!(a.prompt_edits["p"].title.as_deref(), Some("P"));
    assert_eq!(b.process, Children::Pool(3));
    assert_eq!(b.idle, Some(Duration::from_mins(10)));
    assert_eq!((b.start, b.calls.get()), (Duration::from_secs(7), 9));
    assert!(b.tools.lets("only") && !b.tools.lets("other"), "a list is the wanted ones");
    assert_eq!(b.credentials.command.as_deref(), Some(&["get".to_owned(), "token".to_owned()][..]));
    assert_eq!(b.credentials.pass, ["x-tenant"]);
}

#[test]
fn a_command_is_passed_no_headers_and_tells_nobody_apart_by_them() {
    let plan = plan(
        r#"{"servers": {
            "shared": {"command": "c", "process": "shared"},
            "users": {"command": "c", "process": "per-user"},
            "far": {"url": "https://h/mcp", "process": "shared", "passHeaders": ["X-Tenant"]}}}"#,
    );
    let mut servers = plan.servers;
    let pass = servers["far"].credentials.pass.clone();
    for name in ["shared", "users"] {
        servers.get_mut(name).unwrap().credentials.pass.clone_from(&pass);
        assert!(servers[name].passes().is_empty(), "{name}");
    }
    let knows = ["shared", "users", "far"].map(|name| servers[name].knows_people());
    assert_eq!(knows, [false, true, true]);
    assert!(!servers["shared"].is_personal());
    assert_eq!(servers["far"].passes(), pass);
}

#[test]
fn the_same_in_toml_with_the_names_of_toml() {
    let text = r#"
[mcp_servers.a]
command = "c"
idle_timeout = "5m"
max_concurrency = 3
[mcp_servers.a.tools.t]
approval_mode = "never"
[switchboard]
port = 4000
tool_search = 40
[switchboard.groups]
all = ["*"]
"#;
    let (plan, problems) = Plan::build(&[config("m.toml", text)]);
    assert_eq!(problems, []);
    assert_eq!(plan.servers["a"].idle, Some(Duration::from_mins(5)));
    assert_eq!(plan.servers["a"].calls.get(), 3);
    assert_eq!((plan.listen.port, plan.search), (Some(4000), ToolSearch::Above(40)));
    assert_eq!(plan.groups["all"], ["a"]);
    assert!(!plan.search.applies(40) && plan.search.applies(41));
}

#[test]
fn keys_groups_and_grants_are_looked_up() {
    let hash = KeyHash::compute(b"secret");
    let text = format!(
        r#"{{"servers": {{"a": {{"command": "c"}}, "b": {{"command": "c"}},
                          "off": {{"command": "c", "enabled": false}}}},
            "switchboard": {{"host": "0.0.0.0", "port": 3002, "limits": {{"maxSessions": 5}},
              "groups": {{"dev": ["b", "off", "*"], "one": ["a"]}},
              "keys": {{"ada": {{"hash": ["{hash}"], "groups": ["one"], "rateLimit": "60/m",
                                 "excludeTools": ["*__drop"], "maxConcurrency": 2}},
                        "bob": {{"key": "${{KEY}}", "servers": ["b"]}}}}}}}}"#
    );
    let plan = plan(&text);
    assert_eq!(plan.groups["dev"], ["b", "a"]);
    assert_eq!(plan.bounds.sessions, Some(5));
    let who = |key: &str| {
        let headers = HeaderMap::from_iter([(
            HeaderName::from_static("x-api-key"),
            HeaderValue::from_str(key).unwrap(),
        )]);
        plan.access.identify(&headers).map(|(who, _)| who)
    };
    let ada = who("secret").unwrap();
    assert!(ada.grant.has_server("a") && !ada.grant.has_server("b"));
    assert!(ada.grant.has_tool("a", "get") && !ada.grant.has_tool("a", "drop"));
    assert_eq!((ada.calls, ada.rate.map(|rate| rate.calls)), (Some(2), Some(60)));
    let bob = who("a key of some length").unwrap();
    assert!(bob.grant.has_server("b") && !bob.grant.has_server("a"));
    assert_eq!(who("${KEY}"), Err(Denied::UnknownKey));
    assert_eq!(plan.access.identify(&HeaderMap::new()), Err(Denied::NoKey));
    let shown = format!("{plan:?}");
    assert!(!shown.contains("a key of some length"), "{shown}");
}

// wire: OA-17
#[test]
fn mistakes_in_our_keys_are_told_with_what_to_write() {
    check(
        r#"{"servers": {"a": {"command": "c", "process": "mine", "idleTimeout": "soon",
                              "maxConcurrency": 0, "passHeaders": ["Authorization"]}}}"#,
        &[
            "m.json:1:47: \"process\" says \"mine\", which is no way to share -> write \"shared\", \
             \"per-session\", \"per-user\", \"per-request\" or { \"pool\": 4 }",
            "m.json:1:70: \"idleTimeout\" is no time \
             -> write seconds, or \"500ms\", \"30s\", \"5m\", \"1h\"",
            "m.json:2:49: \"maxConcurrency\" is a number \
             -> write a whole number above 0, without quotes",
            "m.json:2:68: header authorization of a client is never passed on \
             -> leave it out; what a server needs goes into \"headers\"",
            "m.json:2:52: \"passHeaders\" has no effect: the server is a command \
             -> leave it out; what a command needs goes into \"env\" or \"args\"",
        ],
    );
    check(
        r#"{"servers": {"alpha": {"command": "c"}}, "switchboard": {"prot": 1, "port": 70000,
            "groups": {"g": ["alpah"], "a/b": []}, "keys": {"k": {}, "l": {"hash": "x"},
            "m": {"key": "short", "groups": ["h"], "rateLimit": 5}}, "toolSearch": "yes"}}"#,
        &[
            "m.json:1:58: there is no key \"prot\" here -> write \"port\"",
            "m.json:1:77: \"port\" is no port -> write a number from 0 to 65535; 0 is any free one",
            "m.json:2:40: \"a/b\" is no name for a group: it is part of a URL \
             -> use letters, digits, _, - and .",
            "m.json:2:61: key \"k\" has no hash \
             -> add \"hash\": \"sha256:…\"; make one with: switchboard key new",
            "m.json:2:84: \"hash\": a hash is sha256: and 64 hexadecimal digits \
             -> make one with: switchboard key new",
            "m.json:3:26: \"key\" is in the file for everybody to read \
             -> write \"hash\": \"sha256:…\", or \"key\": \"${VAR}\"",
            "m.json:3:26: \"key\" has fewer than 16 characters -> make one with: switchboard key new",
            "m.json:3:65: \"rateLimit\": a rate is a number of calls and a time: 10/s, 60/m or \
             1000/h -> write \"60/m\" for one call a second",
            "m.json:3:84: \"toolSearch\" is text \
             -> write true, false, or the number of tools to search above",
            "m.json:2:30: there is no server \"alpah\" -> write \"alpha\"",
            "m.json:3:46: there is no group \"h\" -> add it to \"groups\"",
        ],
    );
}

#[test]
fn blanks_around_a_key_do_not_make_it_long() {
    check(
        r#"{"switchboard": {"keys": {"k": {"key": "${SHORT:-  short key      }"}}}}"#,
        &["m.json:1:40: \"key\" has fewer than 16 characters \
           -> make one with: switchboard key new"],
    );
}

#[test]
fn a_mistake_in_a_list_is_told_where_it_stands() {
    let text = format!(
        r#"{{"servers": {{"a": {{"url": "http://h/", "passHeaders": [
            "X-Tenant",
            "Cookie"],
          "tools": {{
            "x": {{"name": "same"}},
            "y": {{"title": "Y",
                   "name": "same"}}}}}}}},
  "switchboard": {{
    "groups": {{"g": ["a"]}},
    "keys": {{
      "ada": {{
        "hash": "{}",
        "servers": [
          "a",
          "nope"],
        "groups": [
          "nog"]}}}},
    "anonymous": {{"servers": ["b*",
        "nobody"]}}}}}}"#,
        KeyHash::compute(b"secret")
    );
    let instead = "write the name of a server, or a part of it with *";
    check(
        &text,
        &[
            "m.json:3:13: header cookie of a client is never passed on \
             -> leave it out; what a server needs goes into \"headers\"",
            "m.json:7:28: \"tools\" gives the name \"same\" twice -> give each its own name",
            &format!("m.json:15:11: there is no server \"nope\" -> {instead}"),
            "m.json:17:11: there is no group \"nog\" -> add it to \"groups\"",
            &format!("m.json:19:9: there is no server \"nobody\" -> {instead}"),
        ],
    );
}

#[test]
fn the_first_of_several_files_counts() {
    let one =
        config("1.json", r#"{"servers": {"a": {"command": "1"}}, "switchboard": {"port": 1}}"#);
    let two = config(
        "2.json",
        r#"{"servers": {"a": {"command": "2"}, "b": {"command": "2"}},
            "switchboard": {"port": 2, "host": "h", "defaults": {"process": "per-request"}}}"#,
    );
    let (plan, problems) = Plan::build(&[one, two]);
    assert_eq!(problems, []);
    let Target::Command(command) = &plan.servers["a"].target else { panic!() };
    assert_eq!(command.program, "1");
    assert_eq!(plan.listen.port, Some(1));
    assert_eq!(plan.listen.host.as_deref(), Some("h"));
    assert_eq!(plan.servers["b"].process, Children::PerRequest);
}

#[test]
fn only_what_differs_in_meaning_is_a_change() {
    let before = plan(
        r#"{"servers": {"gone": {"command": "c"}, "kept": {"command": "k", "args": ["1"]},
            "new args": {"command": "n"}, "patient": {"command": "p"}, "filtered": {"command": "f"}}}"#,
    );
    let same = plan(
        r#"{
            // in another order, with comments
            "servers": {"patient": {"command": "p"}, "filtered": {"command": "f"}, "new args": {"command": "n"},
            "kept": {"args": ["1"], "command": "k", "enabled": true}, "gone": {"command": "c"}}}"#,
    );
    assert_eq!(same, before);
    assert_eq!(same.diff(&before), PlanChanges::default());
    let after = plan(
        r#"{"servers": {"kept": {"command": "k", "args": ["1"]}, "came": {"command": "c"},
            "new args": {"command": "n", "args": ["2"]}, "patient": {"command": "p", "timeout": 3},
            "filtered": {"command": "f", "excludeTools": ["x"], "startTimeout": 3}},
            "switchboard": {"toolSearch": true}}"#,
    );
    let changes = after.diff(&before);
    assert_eq!(changes.added, ["came"]);
    assert_eq!(changes.removed, ["gone"]);
    assert_eq!(changes.changed, ["new args", "patient"]);
    assert_eq!(changes.adjusted, ["filtered"]);
    assert!(!changes.listen);
    assert_eq!(after.diff(&after), PlanChanges::default());
}

/// Headers merge in the order that people know from elsewhere: later ones win.
#[test]
fn what_a_server_gets_is_merged_in_order_and_never_what_shows_the_client_to_us() {
    let headers = |pairs: &[(&'static str, &str)]| {
        let pairs = pairs.iter().map(|(name, value)| {
            (HeaderName::from_static(name), HeaderValue::from_str(value).unwrap())
        });
        pairs.collect::<HeaderMap>()
    };
    let pass = ["x-tenant", "x-trace", "authorization", "mcp-session-id", "x-api-key"];
    let pass = pass.map(HeaderName::from_static).to_vec();
    let credentials = Credentials { pass, ..Credentials::default() };
    let client = headers(&[
        ("authorization", "Bearer client"),
        ("mcp-session-id", "1"),
        ("x-api-key", "client"),
        ("x-other", "o"),
        ("x-tenant", "client"),
        ("x-trace", "t"),
    ]);
    let configured = headers(&[("x-tenant", "file"), ("x-key", "file"), ("x-zone", "file")]);
    let (file, command) =
        (headers(&[("x-key", "read"), ("x-zone", "read")]), headers(&[("x-zone", "ran")]));
    let merged = credentials.merge(&client, &configured, [&file, &command]);
    let expected = [("x-tenant", "file"), ("x-trace", "t"), ("x-key", "read"), ("x-zone", "ran")];
    assert_eq!(merged, headers(&expected));
}

// wire: OS-12
#[test]
fn a_facade_stands_before_an_issuer_and_keeps_its_secret() {
    let file = |facade: &str| {
        format!(
            r#"{{"switchboard": {{"publicUrl": "https://gw.example/", "oauth": {{
                "issuers": {{"corp": {{"issuer": "https://idp.example", "grant": {{}}}}}}, "facade": {facade}}}}}}}"#
        )
    };
    let all = r#"{"issuer": "corp", "clientId": "gw", "clientSecret": "${TOKEN}", "scopes": ["groups"],
        "authorizeParams": {"access_type": "offline"}, "sendResource": true, "registration": false,
        "allowedRedirects": ["https://claude.ai/*"], "metadataHosts": ["*.example.com"]}"#;
    let plan = plan(&file(all));
    let tokens = plan.access.tokens.as_ref().unwrap();
    let facade = tokens.facade.as_ref().unwrap();
    assert_eq!(facade.client_secret.as_deref(), Some("s3cret"));
    assert_eq!(facade.authorize_params, [("access_type".to_owned(), "offline".to_owned())]);
    assert!(facade.send_resource && !facade.registration);
    assert!(!format!("{plan:?}").contains("s3cret"));
    let secrets = PlanSecret::collect(&[&plan]);
    assert!(secrets.iter().any(|secret| secret.value == "s3cret"), "it is in no log");
    let empty =
        self::plan(&file(r#"{"issuer": "corp", "clientId": "gw", "clientSecret": "${NONE:-}"}"#));
    assert!(PlanSecret::collect(&[&empty]).is_empty(), "every line of a log has it");
    let config = config("m.json", &file(r#"{"issuer": "other", "clientId": "gw"}"#));
    let told: Vec<_> = config.problems.iter().map(ToString::to_string).collect();
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].contains("which is not there"), "{told:?}");
}

#[test]
fn an_account_that_no_user_can_have_alone_is_refused_where_there_are_users() {
    // wire: OU-1, OU-3
    let keys = r#""keys": {"ada": {"key": "a key of some length"}}"#;
    let provider = r#""identityProvider": {"issuer": "https://i.example", "clientId": "c"}"#;
    let device = r#""grant": "device-code""#;
    let machine = r#""grant": "client-credentials", "clientId": "c", "clientSecret": "s""#;
    let problems = |users: &str, oauth: &str| {
        let text = format!(
            r#"{{"mcpServers": {{"a": {{"url": "https://h/mcp", "oauth": {{{oauth}}}}}}},
                "switchboard": {{{users}}}}}"#
        );
        let (plan, problems) = Plan::build(&[config("m.json", &text)]);
        let errors = problems.iter().filter(|problem| problem.weight == Weight::Error);
        let told = errors.map(ToString::to_string).collect::<String>();
        assert_eq!(plan.servers.is_empty(), !told.is_empty(), "{oauth}: {told}");
        told
    };
    let user = |grant: &str| format!(r#"{grant}, "account": "user""#);
    let shared = |grant: &str| format!(r#"{grant}, "account": "shared""#);
    for grant in [provider, device] {
        assert!(problems(keys, grant).contains("for each user yet"), "{grant}");
        assert!(problems(keys, &user(grant)).contains("for each user yet"), "{grant}");
    }
    assert!(problems(keys, &user(machine)).contains("asks nobody"));
    for grant in [provider, device, machine] {
        assert_eq!(problems(keys, &shared(grant)), "");
        assert_eq!(problems("", &user(grant)), "", "there are no users");
    }
    assert_eq!(problems(keys, machine), "");
}

#[test]
fn a_console_may_have_a_port_of_its_own_and_tools_that_change_may_be_refused() {
    // C-16, C-31
    let before = plan(r#"{"mcpServers": {"a": {"command": "a"}}}"#);
    assert_eq!((before.tool_changes, before.console), (ToolChanges::Show, ConsoleMode::Write));
    let after = plan(
        r#"{"mcpServers": {"a": {"command": "a"}},
            "switchboard": {"toolChanges": "refuse", "console": {"port": 3002, "readOnly": true}}}"#,
    );
    assert_eq!((after.tool_changes, after.console), (ToolChanges::Refuse, ConsoleMode::Read));
    assert_eq!(after.listen.console_port, Some(3002));
    assert!(after.diff(&before).listen, "from the next start on");
    check(
        r#"{"switchboard": {"toolChanges": "no", "console": {"prot": 1}}}"#,
        &[
            "m.json:1:33: \"toolChanges\" is text -> write \"show\" or \"refuse\"",
            "m.json:1:51: there is no key \"prot\" here -> write \"port\"",
        ],
    );
}
