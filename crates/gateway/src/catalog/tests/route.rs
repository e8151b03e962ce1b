//! Requests, and where they go.

use bytes::Bytes;
use switchboard_net::roster::Definition;
use switchboard_proto::jsonrpc::parse_one;

use super::super::*;

/// A server that has not yet said what it offers is known by the names before `__`.
fn late(_: ListKind, offered: &str) -> Option<Owned> {
    let (server, name) = split_name(offered).filter(|(server, _)| *server == "late")?;
    Some(Owned { server: server.into(), name: name.to_owned() })
}

fn catalog() -> Catalog {
    let definition = |server: &str, kind, text: &'static str| Definition {
        server: server.into(),
        kind,
        text: Bytes::from_static(text.as_bytes()),
        is_cached: false,
    };
    Catalog::plain(vec![
        definition("a", ListKind::Tools, r#"{"name":"t.1"}"#),
        definition("b", ListKind::Prompts, r#"{"name":"p"}"#),
        definition("a", ListKind::Resources, r#"{"uri":"x://1"}"#),
        definition("b", ListKind::Templates, r#"{"uriTemplate":"x://{id}"}"#),
    ])
}

/// Each line is a request's method and params; what follows is where it goes and with which params.
fn check(unlisted: fn(ListKind, &str) -> Option<Owned>, lines: &str) {
    for line in lines.lines().map(str::trim).filter(|line| !line.is_empty()) {
        let (request, expected) = line.split_once(" => ").unwrap();
        let (method, params) = request.split_once(' ').unwrap();
        let text = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{params}}}"#);
        let request = parse_one(text.into()).unwrap();
        let way = match catalog().find_destination(&request, None, unlisted) {
            Ok(Destination::Gateway) => "here".to_owned(),
            Ok(Destination::List(kind)) => kind.member().key().to_owned(),
            Ok(Destination::Server(server, request)) => {
                let params = String::from_utf8_lossy(request.payload().unwrap()).into_owned();
                format!("{server} {params}")
            }
            Err(nowhere) => nowhere.to_string(),
        };
        assert_eq!(way, expected, "{line}");
    }
}

/// wire: GW-73, GW-83
#[test]
fn a_call_goes_to_its_owner_in_the_owners_words() {
    let tool = offered_name("a", "t.1");
    let lines = r#"
        tools/call {"name":"TOOL","arguments":{"name":"x"}, "_meta":{"k":1.0e0}} => a {"name":"t.1","arguments":{"name":"x"}, "_meta":{"k":1.0e0}}
        tools/call {"name":"t.1"} => Unknown tool: t.1
        tools/call {"name":"b__p"} => Unknown tool: b__p
        tools/call {"name":"late__anything"} => late {"name":"anything"}
        tools/call {"name":"never__anything"} => Unknown tool: never__anything
        tools/call {"name":7} => params.name must be a string
        prompts/get {"name":"b__p"} => b {"name":"p"}
        resources/read {"uri":"x://1"} => a {"uri":"x://1"}
        resources/read {"uri":"x://2"} => b {"uri":"x://2"}
        resources/subscribe {"uri":"x://1"} => a {"uri":"x://1"}
        resources/read {"uri":"y://1"} => Resource not found: y://1
        completion/complete {"ref":{"type":"ref/prompt","name":"b__p"},"argument":{}} => b {"ref":{"type":"ref/prompt","name":"p"},"argument":{}}
        completion/complete {"ref":{"type":"ref/resource","uri":"x://{id}"}} => b {"ref":{"type":"ref/resource","uri":"x://{id}"}}
        completion/complete {"ref":{"type":"ref/else"}} => params.ref.type must be a string
        tools/list {} => tools
        resources/templates/list {} => resourceTemplates
        logging/setLevel {"level":"info"} => here
        tasks/get {"taskId":"1"} => Method not found: tasks/get
    "#;
    check(late, &lines.replace("TOOL", &tool));
}

#[test]
fn what_nobody_lists_is_asked_of_the_only_one_who_may_have_it() {
    let any = |_: ListKind, name: &str| Some(Owned { server: "a".into(), name: name.to_owned() });
    check(any, r#"resources/read {"uri":"y://1"} => a {"uri":"y://1"}"#);
}

/// wire: GW-58
#[test]
fn a_missing_resource_has_the_code_of_each_era() {
    let missing = Nowhere::Resource { uri: "x://".to_owned() };
    assert_eq!(missing.error(Era::Legacy)["code"], code::RESOURCE_NOT_FOUND);
    assert_eq!(missing.error(Era::Modern)["code"], code::INVALID_PARAMS);
    assert_eq!(missing.error(Era::Modern)["data"]["uri"], "x://");
}
