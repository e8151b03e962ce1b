//! What many servers offer as one list.

use std::collections::BTreeSet;

use proptest::prelude::*;
use serde_json::Value;
use switchboard_net::stdio::child::Command;
use switchboard_net::upstream::Target;
use switchboard_proto::jsonrpc::parse_one;
use switchboard_proto::refusal::Refusal;

use super::*;
use crate::plan::Edit;

mod name;
mod route;

fn definition(server: &str, kind: ListKind, text: &str) -> Definition {
    let (server, text) = (server.into(), Bytes::copy_from_slice(text.as_bytes()));
    Definition { server, kind, text, is_cached: false }
}

fn tool(server: &str, name: &str) -> Definition {
    definition(server, ListKind::Tools, &format!(r#"{{"name":"{name}"}}"#))
}

fn texts(page: &ListPage) -> Vec<&str> {
    page.items.iter().map(|item| std::str::from_utf8(item).unwrap()).collect()
}

/// wire: GW-73, GW-83
#[test]
fn nothing_of_a_definition_changes_but_its_name() {
    let catalog = Catalog::plain(vec![
        definition("b", ListKind::Tools, r#"{ "x":1.0e0, "name" : "t", "_meta":{"k":[1, 2]} }"#),
        definition("a", ListKind::Prompts, r#"{"title":"P","name":"p"}"#),
        definition("a", ListKind::Resources, r#"{"uri":"a://1","name":"one"}"#),
    ]);
    let page = catalog.page(ListKind::Tools, None, PAGE).unwrap();
    assert_eq!(texts(&page), [r#"{ "x":1.0e0, "name" : "b__t", "_meta":{"k":[1, 2]} }"#]);
    let page = catalog.page(ListKind::Prompts, None, PAGE).unwrap();
    assert_eq!(texts(&page), [r#"{"title":"P","name":"a__p"}"#]);
    let page = catalog.page(ListKind::Resources, None, PAGE).unwrap();
    assert_eq!(texts(&page), [r#"{"uri":"a://1","name":"one"}"#]);
    let owned = |name: &str| Owned { server: "b".into(), name: name.to_owned() };
    assert_eq!(catalog.tool("b__t"), Some(&owned("t")));
    assert_eq!(catalog.tool("t"), None);
    assert_eq!(catalog.owner(ListKind::Prompts, "a__p").unwrap().name, "p");
}

#[test]
fn the_order_is_that_of_the_names_of_servers_whoever_comes_first() {
    let (a, b) = ([tool("a", "z"), tool("a", "y")], [tool("b", "x")]);
    let one = Catalog::plain([a.to_vec(), b.to_vec()].concat());
    let other = Catalog::plain([b.to_vec(), a.to_vec()].concat());
    assert!(one.changed_lists(&other).is_empty());
    let page = one.page(ListKind::Tools, None, PAGE).unwrap();
    assert_eq!(texts(&page), [r#"{"name":"a__z"}"#, r#"{"name":"a__y"}"#, r#"{"name":"b__x"}"#]);
}

#[test]
fn a_resource_is_of_the_first_server_that_has_it_and_the_others_are_told() {
    let resource = |server| definition(server, ListKind::Resources, r#"{"uri":"x://1"}"#);
    let template = |server, text: &str| {
        definition(server, ListKind::Templates, &format!(r#"{{"uriTemplate":"{text}"}}"#))
    };
    let catalog = Catalog::plain(vec![
        resource("b"),
        resource("a"),
        template("a", "x://{id}"),
        template("b", "x://deep/{id}/end"),
        template("c", "x://{id}"),
    ]);
    assert_eq!(catalog.resource("x://1").map(|server| &**server), Some("a"));
    assert_eq!(catalog.resource("x://2").map(|server| &**server), Some("a"), "of equals the first");
    assert_eq!(catalog.resource("x://deep/2/end").map(|server| &**server), Some("b"));
    assert_eq!(catalog.resource("y://2"), None);
    let completed = catalog.owner(ListKind::Templates, "x://deep/{id}/end");
    assert_eq!(completed.map(|it| it.server), Some("b".into()));
    let lost = Collision { name: "x://1".to_owned(), kept: "a".into(), lost: "b".into() };
    assert_eq!(catalog.collisions, [lost]);
    assert_eq!(catalog.count(ListKind::Resources), 1);
}

#[test]
fn a_page_is_made_once_for_each_revision_and_kept_where_pages_begin() {
    let catalog = Catalog::plain(vec![tool("a", "1"), tool("b", "1")]);
    let made = std::cell::Cell::new(0);
    let shown = |cursor, words| {
        let write = |items: &[Bytes]| {
            made.set(made.get() + 1);
            format!("{words:?} {}", items.len()).into()
        };
        catalog.shown(ListKind::Tools, cursor, words, write).unwrap().text.clone()
    };
    let (old, new) = (shown(None, Some(Revision::NEWEST_LEGACY)), shown(None, None));
    assert_ne!(old, new);
    assert_eq!(shown(None, Some(Revision::NEWEST_LEGACY)), old);
    assert_eq!((shown(None, None), made.get()), (new, 2));
    // However it is spelled, it is the same page.
    assert_eq!((shown(Some("000:a"), None), made.get()), ("None 2".into(), 2));
    let kept = catalog.shown_bytes();
    for times in 1..4 {
        assert_eq!((shown(Some("0:b"), None), made.get()), ("None 1".into(), 2 + times));
    }
    assert_eq!(catalog.shown_bytes(), kept);
}

#[test]
fn a_tool_that_a_server_lists_twice_is_offered_once() {
    let catalog = Catalog::plain(vec![tool("a", "t"), tool("a", "t")]);
    assert_eq!((catalog.count(ListKind::Tools), catalog.collisions.len()), (1, 1));
}

#[test]
fn a_cursor_holds_its_place_when_servers_come_and_go() {
    let all = vec![tool("a", "1"), tool("b", "1"), tool("b", "2"), tool("c", "1")];
    let first = Catalog::plain(all.clone()).page(ListKind::Tools, None, 2).unwrap();
    let cursor = first.next.unwrap();
    let without_a = Catalog::plain(all[1..].to_vec());
    let rest = without_a.page(ListKind::Tools, Some(&cursor), 2).unwrap();
    assert_eq!(texts(&rest), [r#"{"name":"b__2"}"#, r#"{"name":"c__1"}"#]);
    let without_b = Catalog::plain(vec![tool("a", "1"), tool("c", "1")]);
    let rest = without_b.page(ListKind::Tools, Some(&cursor), 2).unwrap();
    assert_eq!((texts(&rest), rest.next.is_none()), (vec![r#"{"name":"c__1"}"#], true));
    for wrong in ["", "x", "x:a", "-1:a"] {
        assert_eq!(without_b.page(ListKind::Tools, Some(wrong), 2), Err(BadCursor), "{wrong}");
    }
}

#[test]
fn what_the_plan_takes_out_or_says_otherwise_is_what_clients_see() {
    let target = Target::Command(Command::parse("true").unwrap());
    let mut plan = ServerPlan::new("a", target);
    plan.tools.never = vec!["secret*".to_owned()];
    let mut edit = Edit { name: Some("see".to_owned()), ..Edit::default() };
    edit.description = Some("Looks".to_owned());
    edit.annotations.insert("readOnlyHint".to_owned(), true.into());
    edit.annotations.insert("title".to_owned(), Value::Null);
    plan.tool_edits.insert("look".to_owned(), edit);
    let look = r#"{"name":"look","annotations":{"title":"L","x":1}}"#;
    let definitions = vec![tool("a", "secret_1"), definition("a", ListKind::Tools, look)];
    let catalog = Catalog::new(definitions, |_| Some(plan.clone().into()));
    let page = catalog.page(ListKind::Tools, None, PAGE).unwrap();
    let seen =
        r#"{"description":"Looks","name":"a__see","annotations":{"readOnlyHint":true,"x":1}}"#;
    assert_eq!(texts(&page), [seen]);
    assert_eq!(catalog.tool("a__see").unwrap().name, "look");
    assert_eq!(catalog.tool("a__secret_1"), None);
}

#[test]
fn names_that_stay_as_they_are_belong_to_the_first_server_that_has_them() {
    let target = Target::Command(Command::parse("true").unwrap());
    let mut plan = ServerPlan::new("any", target);
    plan.prefix = Some(String::new());
    let definitions =
        vec![tool("b", "read"), tool("a", "read"), tool("b", "x.y"), tool("b", "own")];
    let catalog = Catalog::new(definitions, |_| Some(plan.clone().into()));
    assert_eq!(&*catalog.tool("read").unwrap().server, "a");
    assert_eq!(&*catalog.tool("own").unwrap().server, "b");
    let lost = Collision { name: "read".to_owned(), kept: "a".into(), lost: "b".into() };
    assert_eq!(catalog.collisions, [lost]);
    assert_eq!(catalog.tool(&bare_name("x.y")).unwrap().name, "x.y");
    plan.prefix = Some("p".to_owned());
    let catalog = Catalog::new(vec![tool("a", "read")], |_| Some(plan.clone().into()));
    assert_eq!(catalog.tool("p__read").unwrap().name, "read");
    let meant = |kind, offered| plan.meant(kind, offered);
    assert_eq!(meant(ListKind::Tools, "p__read").as_deref(), Some("read"));
    assert_eq!(meant(ListKind::Tools, "any__read"), None);
}

#[test]
fn what_has_another_name_is_meant_by_that_one_only() {
    let mut plan = ServerPlan::new("a", Target::Command(Command::parse("true").unwrap()));
    for (own, name) in [("sleep", "nap"), ("walk", "go.on"), ("same", "same")] {
        let name = Some(name.to_owned());
        plan.tool_edits.insert(own.to_owned(), Edit { name, ..Edit::default() });
    }
    let words = Edit { title: Some("Read".to_owned()), ..Edit::default() };
    plan.tool_edits.insert("read".to_owned(), words);
    let meant = |kind, offered: &str| plan.meant(kind, offered).unwrap_or_default();
    for (offered, own) in [
        ("a__nap", "sleep"),
        ("a__sleep", ""),
        (&*offered_name("a", "go.on"), "walk"),
        ("a__walk", ""),
        ("a__same", "same"),
        ("a__read", "read"),
        ("a__other", "other"),
    ] {
        assert_eq!(meant(ListKind::Tools, offered), own, "{offered}");
    }
    assert_eq!(meant(ListKind::Prompts, "a__sleep"), "sleep");
}

#[test]
fn tools_are_found_by_the_words_of_all_that_is_said_of_them() {
    let text = r#"{"name":"t","description":"Sends a letter","inputSchema":{"properties":{"recipient":{}}}}"#;
    let catalog = Catalog::plain(vec![definition("a", ListKind::Tools, text), tool("b", "other")]);
    for question in ["letter", "recipient"] {
        let found = catalog.find(question, 5);
        assert_eq!(found.len(), 1, "{question}");
        assert!(found[0].starts_with(br#"{"name":"a__t""#), "{found:?}");
    }
    assert!(catalog.find("nothing of the kind", 5).is_empty());
}

/// wire: HDR-11
#[test]
fn arguments_that_headers_repeat_wrongly_are_refused() {
    let text = r#"{"name":"t","inputSchema":{"type":"object","properties":{"r":{"type":"string","x-mcp-header":"Region"}}}}"#;
    let catalog = Catalog::plain(vec![definition("a", ListKind::Tools, text)]);
    let call = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a__t","arguments":{"r":"eu"}}}"#;
    let call = parse_one(call.into()).unwrap();
    let said = |value: &'static str| {
        let (name, value) = ("mcp-param-region".parse().unwrap(), value.parse().unwrap());
        Some(vec![(name, value)])
    };
    let check = |said: Option<Vec<_>>| {
        let found = catalog.find_destination(&call, said.as_deref(), |_, _| None);
        found.map(|found| assert!(matches!(found, Destination::Server(..)), "{found:?}"))
    };
    assert_eq!(check(None), Ok(()), "no headers to repeat it in");
    assert_eq!(check(said("eu")), Ok(()));
    for wrong in [said("us"), Some(Vec::new())] {
        let refused = check(wrong).unwrap_err();
        let is_mismatch = matches!(&refused, Nowhere::Refused(Refusal::HeaderMismatch { .. }));
        assert!(is_mismatch, "{refused}");
    }
}

/// Twenty servers with fifty tools each, in any order and with names of any length.
#[test]
fn a_thousand_tools_of_twenty_servers_are_all_there_in_pages_of_any_size() {
    let long = "x".repeat(70);
    let name = |number: usize| match number % 3 {
        0 => format!("{long}{number}"),
        1 => format!("do.it/{number}"),
        _ => format!("plain_{number}"),
    };
    let all: Vec<_> = (0..1000)
        .map(|number| tool(&format!("server {:02}", number % 20), &name(number / 20)))
        .collect();
    let catalog = Catalog::plain(all);
    assert_eq!((catalog.count(ListKind::Tools), catalog.collisions.len()), (1000, 0));
    for size in [1, 7, 999, 1000, 5000] {
        let (mut seen, mut cursor) = (Vec::new(), None);
        while {
            let page = catalog.page(ListKind::Tools, cursor.as_deref(), size).unwrap();
            seen.extend(page.items);
            cursor = page.next;
            cursor.is_some()
        } {}
        let names: BTreeSet<_> =
            seen.iter().map(|text| Part::new(text).string("name").unwrap().into_owned()).collect();
        assert_eq!((seen.len(), names.len()), (1000, 1000), "pages of {size}");
        for offered in &names {
            assert!(offered.len() <= MAX_OFFERED && catalog.tool(offered).is_some(), "{offered}");
        }
    }
}

proptest! {
    /// A list that was read while it changed has everything that was there all the time.
    #[test]
    fn a_cursor_of_an_older_list_goes_on_without_losing_what_stays(
        before in proptest::collection::btree_set("[a-e]", 1..5),
        after in proptest::collection::btree_set("[a-e]", 1..5),
        size in 1usize..9,
    ) {
        let catalog = |servers: &BTreeSet<String>| {
            let tools = servers.iter().flat_map(|server| ["1", "2", "3"].map(|name| tool(server, name)));
            Catalog::plain(tools.collect())
        };
        let (old, new) = (catalog(&before), catalog(&after));
        let first = old.page(ListKind::Tools, None, size).unwrap();
        let mut seen: BTreeSet<Bytes> = first.items.into_iter().collect();
        let mut cursor = first.next;
        while let Some(at) = cursor {
            let page = new.page(ListKind::Tools, Some(&at), size).unwrap();
            let count = seen.len() + page.items.len();
            seen.extend(page.items);
            prop_assert_eq!(seen.len(), count, "nothing comes twice");
            cursor = page.next;
        }
        for stays in before.intersection(&after) {
            for name in ["1", "2", "3"] {
                let text = Bytes::from(format!(r#"{{"name":"{stays}__{name}"}}"#));
                prop_assert!(seen.contains(&text), "{:?} lost", text);
            }
        }
    }

    /// Whatever the templates: who lists a resource has it, and who fits best is asked for the rest.
    #[test]
    fn a_resource_is_asked_of_one_who_may_have_it(
        templates in proptest::collection::vec(("[a-c]", "x://[a-b]{0,2}\\{v\\}[a-b]{0,2}"), 0..8),
        uri in "x://[a-b]{0,6}",
    ) {
        let definitions = templates.iter().map(|(server, template)| {
            definition(server, ListKind::Templates, &format!(r#"{{"uriTemplate":"{template}"}}"#))
        });
        let catalog = Catalog::plain(definitions.collect());
        let fits = |template: &str| {
            let (before, after) = template.split_once("{v}").unwrap();
            uri.len() >= before.len() + after.len() && uri.starts_with(before) && uri.ends_with(after)
        };
        let best = templates.iter().filter(|(_, template)| fits(template)).map(|(_, it)| it.len()).max();
        let asked = catalog.resource(&uri);
        prop_assert_eq!(asked.is_some(), best.is_some());
        if let Some(server) = asked {
            let is_best = |(of, template): &(String, String)| {
                **of == **server && fits(template) && Some(template.len()) == best
            };
            prop_assert!(templates.iter().any(is_best));
        }
        for (_, template) in &templates {
            prop_assert!(catalog.owner(ListKind::Templates, template).is_some(), "completion finds {}", template);
        }
    }

    /// wire: GW-83
    #[test]
    fn pages_of_any_size_are_the_whole_list(
        tools in proptest::collection::btree_set(("[a-d]", "[a-f]{1,2}"), 0..40),
        size in 1usize..9,
    ) {
        let tools: Vec<_> = tools.iter().map(|(server, name)| tool(server, name)).collect();
        let count = tools.len();
        let catalog = Catalog::plain(tools);
        let whole = catalog.page(ListKind::Tools, None, PAGE).unwrap();
        let (mut items, mut cursor) = (Vec::new(), None);
        loop {
            let page = catalog.page(ListKind::Tools, cursor.as_deref(), size).unwrap();
            prop_assert!(page.items.len() <= size);
            items.extend(page.items);
            cursor = page.next;
            if cursor.is_none() {
                break;
            }
        }
        prop_assert_eq!(items.len(), count);
        prop_assert_eq!(items, whole.items);
    }
}
