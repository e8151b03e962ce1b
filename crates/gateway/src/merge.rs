//! What several servers say of themselves, as one.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

/// What a client is told that it can have, given what each server declares; none
/// for a server that could not be asked yet, which may have anything.
///
/// Tasks are left out: their ids do not say whose they are.
pub fn capabilities<'a>(servers: impl IntoIterator<Item = Option<&'a Value>>) -> Value {
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
        for (member, value) in theirs.iter().filter(|(member, _)| !is_task(member)) {
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

fn is_task(extension: &str) -> bool {
    extension.ends_with("/tasks")
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
        let all = capabilities([Some(&one), Some(&other)]);
        let expected = json!({
            "completions": {},
            "extensions": {"a/ui": {"x": 1}},
            "resources": {"subscribe": true, "listChanged": true},
            "tools": changing,
        });
        assert_eq!(all, expected);
        assert_eq!(capabilities([Some(&json!({}))]), json!({}));
        assert_eq!(capabilities([Some(&json!({})), None])["prompts"], changing, "it may have any");
    }

    #[test]
    fn instructions_stand_under_the_names_of_their_servers() {
        let servers = [("b", "Be.\n"), ("a", "See.")];
        let servers = servers.map(|(name, text)| (name.to_owned(), text.to_owned()));
        assert_eq!(instructions(&servers.into()).unwrap(), "# a\n\nSee.\n\n# b\n\nBe.");
        assert_eq!(instructions(&BTreeMap::new()), None);
    }
}
