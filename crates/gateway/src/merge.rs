//! What several servers say of themselves, as one.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use switchboard_proto::revision::Era;

/// The extension that tasks of the modern era are.
pub const TASKS: &str = "io.modelcontextprotocol/tasks";

/// Bytes of what one server wants told to the clients of all servers: its instructions,
/// and each capability that is passed on as it is. All servers' are in one answer, so no
/// single one decides how long that is.
const SHARE: usize = 64 << 10;

/// What a client is told that it can have, given what each server declares; none
/// for a server that could not be asked yet, which may have anything but tasks.
///
/// Modern clients can have the tasks of both eras; legacy ones those of their own (GW-27).
pub fn capabilities<'a>(
    servers: impl IntoIterator<Item = (&'a str, Option<&'a Value>)>,
    era: Era,
) -> Value {
    let mut all = Map::new();
    for (server, declared) in servers {
        let Some(declared) = declared else {
            let everything = json!({
                "completions": {}, "logging": {}, "prompts": {}, "resources": {"subscribe": true}, "tools": {},
            });
            add(&mut all, server, &everything);
            continue;
        };
        add(&mut all, server, declared);
        add_tasks(&mut all, server, declared, era);
    }
    if era == Era::Legacy {
        // No legacy revision knows of extensions.
        all.remove("extensions");
    }
    for list in ["prompts", "resources", "tools"] {
        if let Some(Value::Object(list)) = all.get_mut(list) {
            // Servers come and go, whatever they say of their own lists.
            list.insert("listChanged".to_owned(), true.into());
        }
    }
    all.into()
}

fn add(all: &mut Map<String, Value>, server: &str, declared: &Value) {
    for name in ["completions", "experimental", "extensions", "logging", "prompts", "tools"] {
        let Some(Value::Object(theirs)) = declared.get(name) else { continue };
        let ours = all.entry(name).or_insert_with(|| json!({}));
        if let (Value::Object(ours), "experimental" | "extensions") = (ours, name)
            && fits(server, name, &declared[name])
        {
            for (member, value) in theirs {
                ours.entry(member.clone()).or_insert_with(|| value.clone());
            }
        }
    }
    if let Some(theirs) = declared.get("resources") {
        let ours = all.entry("resources").or_insert_with(|| json!({}));
        if theirs["subscribe"] == true {
            ours["subscribe"] = true.into();
        }
    }
    all.retain(|name, value| {
        !matches!(name.as_str(), "experimental" | "extensions") || *value != json!({})
    });
}

/// Whether a capability is within a server's share.
fn fits(server: &str, name: &str, capability: &Value) -> bool {
    // Nothing beyond the share is written, however long the capability is.
    let fits = serde_json::to_writer(&mut vec![0; SHARE][..], capability).is_ok();
    if !fits {
        tracing::warn!(server, "its capability {name:?} is too long to be told to clients");
    }
    fits
}

fn add_tasks(all: &mut Map<String, Value>, server: &str, declared: &Value, era: Era) {
    let Some(tasks) = declared.get("tasks").filter(|tasks| tasks.is_object()) else { return };
    if era == Era::Legacy && fits(server, "tasks", tasks) {
        unite(all.entry("tasks").or_insert_with(|| json!({})), tasks);
    } else if era == Era::Modern && tasks["requests"]["tools"]["call"].is_object() {
        all.entry("extensions").or_insert_with(|| json!({}))[TASKS] = json!({});
    }
}

/// Members of both, down to the last.
fn unite(ours: &mut Value, theirs: &Value) {
    if let (Value::Object(ours), Value::Object(theirs)) = (ours, theirs) {
        for (member, value) in theirs {
            unite(ours.entry(member.clone()).or_insert_with(|| json!({})), value);
        }
    }
}

/// What the servers want said to a model, each under its name.
pub fn instructions(servers: &BTreeMap<String, String>) -> Option<String> {
    let part = |(name, text): (&String, &String)| {
        let (text, rest) = text.trim().split_at(text.trim().floor_char_boundary(SHARE));
        let note = if rest.is_empty() { "" } else { " [the gateway has cut the rest]" };
        format!("# {name}\n\n{text}{note}")
    };
    let parts: Vec<_> = servers.iter().map(part).collect();
    (!parts.is_empty()).then(|| parts.join("\n\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of<'a>(servers: impl IntoIterator<Item = &'a Value>, era: Era) -> Value {
        capabilities(servers.into_iter().map(|declared| ("a", Some(declared))), era)
    }

    /// wire: GW-83
    #[test]
    fn clients_are_offered_what_any_server_has() {
        let one = json!({"tools": {}, "resources": {"listChanged": true}, "tasks": {"list": {}}});
        let other = json!({
            "resources": {"subscribe": true},
            "completions": {},
            "extensions": {"a/ui": {"x": 1}, "io.modelcontextprotocol/tasks": {}},
        });
        let changing = json!({"listChanged": true});
        let all = of([&one, &other], Era::Modern);
        let mut expected = json!({
            "completions": {},
            "extensions": {"a/ui": {"x": 1}, "io.modelcontextprotocol/tasks": {}},
            "resources": {"subscribe": true, "listChanged": true},
            "tools": changing,
        });
        assert_eq!(all, expected);
        let all = of([&one, &other], Era::Legacy);
        expected.as_object_mut().unwrap().remove("extensions");
        expected["tasks"] = json!({"list": {}});
        assert_eq!(all, expected);
        assert_eq!(of([&json!({})], Era::Modern), json!({}));
        let any = capabilities([("a", Some(&json!({}))), ("b", None)], Era::Modern);
        assert_eq!(any["prompts"], changing, "it may have any");
    }

    /// wire: GW-27, GW-59
    #[test]
    fn tasks_are_offered_if_some_server_has_them_for_the_era() {
        let legacy = json!({"tasks": {"cancel": {}, "requests": {"tools": {"call": {}}}}});
        let other = json!({"tasks": {"list": {}, "requests": {"elicitation": {"create": {}}}}});
        let modern = json!({"extensions": {TASKS: {}}});
        let both = of([&legacy, &other], Era::Legacy);
        let requests = json!({"tools": {"call": {}}, "elicitation": {"create": {}}});
        assert_eq!(both["tasks"], json!({"cancel": {}, "list": {}, "requests": requests}));
        assert_eq!(of([&modern], Era::Legacy), json!({}));
        for server in [&modern, &legacy] {
            assert_eq!(of([server], Era::Modern)["extensions"], json!({TASKS: {}}));
        }
        assert_eq!(of([&other], Era::Modern), json!({}));
    }

    #[test]
    fn instructions_stand_under_the_names_of_their_servers() {
        let servers = [("b", "Be.\n"), ("a", "See.")];
        let servers = servers.map(|(name, text)| (name.to_owned(), text.to_owned()));
        assert_eq!(instructions(&servers.into()).unwrap(), "# a\n\nSee.\n\n# b\n\nBe.");
        assert_eq!(instructions(&BTreeMap::new()), None);
    }

    #[test]
    fn what_one_server_says_of_itself_has_a_bound() {
        // Its bound is in the middle of a letter.
        let long = format!("x{}", "é".repeat(1 << 20));
        let servers = [("a", long.as_str()), ("b", "Be.")];
        let servers = servers.map(|(name, text)| (name.to_owned(), text.to_owned()));
        let text = instructions(&servers.into()).unwrap();
        assert!(text.len() < SHARE + 100, "{}", text.len());
        assert!(text.ends_with("é [the gateway has cut the rest]\n\n# b\n\nBe."));
        let eras =
            [("experimental", Era::Legacy), ("extensions", Era::Modern), ("tasks", Era::Legacy)];
        for (name, era) in eras {
            let large = json!({name: {&long: {}}});
            let other = json!({name: {"other": {}}});
            assert_eq!(of([&large, &other], era), other, "{name}");
        }
    }
}
