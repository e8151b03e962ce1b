//! What several servers say of themselves, as one.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use switchboard_proto::revision::Era;

/// The extension that tasks of the modern era are.
pub const TASKS: &str = "io.modelcontextprotocol/tasks";

/// What a client is told that it can have, given what each server declares; none
/// for a server that could not be asked yet, which may have anything but tasks.
///
/// Modern clients can have the tasks of both eras; legacy ones those of their own (GW-27).
pub fn capabilities<'a>(servers: impl IntoIterator<Item = Option<&'a Value>>, era: Era) -> Value {
    let mut all = Map::new();
    for declared in servers {
        let Some(declared) = declared else {
            let everything = json!({
                "completions": {}, "logging": {}, "prompts": {}, "resources": {"subscribe": true}, "tools": {},
            });
            add(&mut all, &everything);
            continue;
        };
        add(&mut all, declared);
        add_tasks(&mut all, declared, era);
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

fn add(all: &mut Map<String, Value>, declared: &Value) {
    for name in ["completions", "experimental", "extensions", "logging", "prompts", "tools"] {
        let Some(Value::Object(theirs)) = declared.get(name) else { continue };
        let ours = all.entry(name).or_insert_with(|| json!({}));
        for (member, value) in theirs {
            if let (Value::Object(ours), "experimental" | "extensions") = (&mut *ours, name) {
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

fn add_tasks(all: &mut Map<String, Value>, declared: &Value, era: Era) {
    let Some(tasks) = declared.get("tasks").filter(|tasks| tasks.is_object()) else { return };
    if era == Era::Legacy {
        unite(all.entry("tasks").or_insert_with(|| json!({})), tasks);
    } else if tasks["requests"]["tools"]["call"].is_object() {
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
    let parts: Vec<_> =
        servers.iter().map(|(name, text)| format!("# {name}\n\n{}", text.trim())).collect();
    (!parts.is_empty()).then(|| parts.join("\n\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let all = capabilities([Some(&one), Some(&other)], Era::Modern);
        let mut expected = json!({
            "completions": {},
            "extensions": {"a/ui": {"x": 1}, "io.modelcontextprotocol/tasks": {}},
            "resources": {"subscribe": true, "listChanged": true},
            "tools": changing,
        });
        assert_eq!(all, expected);
        let all = capabilities([Some(&one), Some(&other)], Era::Legacy);
        expected.as_object_mut().unwrap().remove("extensions");
        expected["tasks"] = json!({"list": {}});
        assert_eq!(all, expected);
        assert_eq!(capabilities([Some(&json!({}))], Era::Modern), json!({}));
        let any = capabilities([Some(&json!({})), None], Era::Modern);
        assert_eq!(any["prompts"], changing, "it may have any");
    }

    /// wire: GW-27, GW-59
    #[test]
    fn tasks_are_offered_if_some_server_has_them_for_the_era() {
        let legacy = json!({"tasks": {"cancel": {}, "requests": {"tools": {"call": {}}}}});
        let other = json!({"tasks": {"list": {}, "requests": {"elicitation": {"create": {}}}}});
        let modern = json!({"extensions": {TASKS: {}}});
        let both = capabilities([Some(&legacy), Some(&other)], Era::Legacy);
        let requests = json!({"tools": {"call": {}}, "elicitation": {"create": {}}});
        assert_eq!(both["tasks"], json!({"cancel": {}, "list": {}, "requests": requests}));
        assert_eq!(capabilities([Some(&modern)], Era::Legacy), json!({}));
        for server in [&modern, &legacy] {
            assert_eq!(capabilities([Some(server)], Era::Modern)["extensions"], json!({TASKS: {}}));
        }
        assert_eq!(capabilities([Some(&other)], Era::Modern), json!({}));
    }

    #[test]
    fn instructions_stand_under_the_names_of_their_servers() {
        let servers = [("b", "Be.\n"), ("a", "See.")];
        let servers = servers.map(|(name, text)| (name.to_owned(), text.to_owned()));
        assert_eq!(instructions(&servers.into()).unwrap(), "# a\n\nSee.\n\n# b\n\nBe.");
        assert_eq!(instructions(&BTreeMap::new()), None);
    }
}
