//! Questions of a server, for clients of another revision.

use bytes::Bytes;
use serde_json::{Map, Value, json};

use crate::json::{Fault, Walker};
use crate::method::{self, meta};
use crate::patch;
use crate::revision::{Revision, Rules};

/// Whether who declared `capabilities` can be asked this (MRTR-4, META-5).
pub fn permits(capabilities: &[u8], method: &str, params: &[u8]) -> bool {
    let declared =
        |path: &[&str]| patch::get(capabilities, path).is_some_and(|value| value.starts_with(b"{"));
    match method {
        method::ELICIT => {
            let url = declared(&["elicitation", "url"]);
            let form = declared(&["elicitation", "form"]) || (declared(&["elicitation"]) && !url);
            if is_url(params) { url } else { form }
        }
        method::SAMPLE => {
            declared(&["sampling"]) && (!has_tools(params) || declared(&["sampling", "tools"]))
        }
        method::ROOTS => declared(&["roots"]),
        _ => false,
    }
}

fn is_url(params: &[u8]) -> bool {
    patch::string(params, &["mode"]).is_some_and(|mode| mode == "url")
}

fn has_tools(params: &[u8]) -> bool {
    ["tools", "toolChoice"].iter().any(|member| patch::get(params, &[member]).is_some())
}

/// A modern server's question for a legacy client; none if that has no words
/// for it (GW-15). `id` is what a page to visit is known by.
pub fn legacy_question(method: &str, params: &[u8], revision: Revision, id: &str) -> Option<Bytes> {
    let rules = revision.rules();
    let same = || Some(Bytes::copy_from_slice(params));
    match method {
        method::ELICIT if !rules.elicitation => None,
        method::ELICIT if is_url(params) && !rules.rich_questions => None,
        method::ELICIT if is_url(params) => {
            let id = Value::from(id).to_string();
            patch::put(params, &[], "elicitationId", id.as_bytes())
        }
        method::ELICIT => older_form(params, rules),
        method::SAMPLE if rules.rich_questions => same(),
        method::SAMPLE if has_tools(params) => None,
        method::SAMPLE => older_messages(params),
        method::ROOTS => same(),
        _ => None,
    }
}

/// A form in which choices have no titles of their own, and only one is made.
fn older_form(params: &[u8], rules: Rules) -> Option<Bytes> {
    let same = || Some(Bytes::copy_from_slice(params));
    let path = ["requestedSchema", "properties"];
    let Some(fields) = patch::get(params, &path).filter(|_| !rules.rich_questions) else {
        return same();
    };
    let mut fields: Map<String, Value> = serde_json::from_slice(fields).ok()?;
    let mut changed = false;
    for field in fields.values_mut() {
        if field["type"] == "array" {
            return None;
        }
        let Some(choices) = field.get("oneOf").and_then(Value::as_array) else { continue };
        let names = |member: &str| -> Value {
            choices.iter().map(|choice| choice[member].clone()).collect()
        };
        let (values, titles) = (names("const"), names("title"));
        let field = field.as_object_mut()?;
        field.remove("oneOf");
        field.insert("enum".to_owned(), values);
        field.insert("enumNames".to_owned(), titles);
        changed = true;
    }
    if !changed {
        return same();
    }
    patch::replace(params, &path, json!(fields).to_string().as_bytes())
}

/// Messages whose content is one block each.
fn older_messages(params: &[u8]) -> Option<Bytes> {
    let mut fits = true;
    let changed = patch::each(params, &["messages"], |message| {
        let content = patch::get(message, &["content"]).filter(|it| it.starts_with(b"["))?;
        let mut blocks = Vec::new();
        let walked = Walker::new(content).elements(|place| {
            blocks.push(place);
            Ok::<_, Fault>(())
        });
        if let (Ok(()), [only]) = (walked, blocks.as_slice()) {
            return patch::replace(message, &["content"], &content[only.clone()]);
        }
        fits = false;
        None
    });
    fits.then(|| changed.unwrap_or_else(|| Bytes::copy_from_slice(params)))
}

/// A legacy server's question for a modern client: what only its own hop knows goes (GW-49).
pub fn modern_question(params: &[u8]) -> Bytes {
    let hop = [meta::PROGRESS_TOKEN, meta::RELATED_TASK];
    let own = patch::without(params, &[], &["elicitationId", "task"]);
    let own = own.unwrap_or_else(|| Bytes::copy_from_slice(params));
    let bare = patch::without(&own, &["_meta"], &hop).unwrap_or(own);
    match patch::get(&bare, &["_meta"]) {
        Some(b"{}") => patch::without(&bare, &[], &["_meta"]).unwrap_or(bare),
        _ => bare,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// wire: GW-15
    #[test]
    fn older_clients_are_asked_in_words_they_know() {
        let ask = |method, params: &str| {
            Revision::ALL.map(|revision| {
                let asked = legacy_question(method, params.as_bytes(), revision, "e1");
                asked.map_or_else(|| "-".to_owned(), |it| String::from_utf8_lossy(&it).into_owned())
            })
        };
        let url = r#"{"mode":"url","url":"u"}"#;
        let minted = r#"{"elicitationId":"e1","mode":"url","url":"u"}"#;
        assert_eq!(ask(method::ELICIT, url)[..4], ["-", "-", "-", minted]);
        let form =
            |field: &str| format!(r#"{{"requestedSchema":{{"properties":{{"a":{field}}}}}}}"#);
        let plain = form(r#"{"type":"string"}"#);
        assert_eq!(ask(method::ELICIT, &plain)[..4], ["-", "-", &*plain, &*plain]);
        let titled = form(r#"{"oneOf":[{"const":"x","title":"X"}],"type":"string"}"#);
        let names = form(r#"{"enum":["x"],"enumNames":["X"],"type":"string"}"#);
        assert_eq!(ask(method::ELICIT, &titled)[2..4], [&*names, &*titled]);
        let many = form(r#"{"type":"array","items":{"enum":["x"]}}"#);
        assert_eq!(ask(method::ELICIT, &many)[2..4], ["-", &*many]);
        let tools = r#"{"messages":[],"tools":[]}"#;
        assert_eq!(ask(method::SAMPLE, tools)[2..4], ["-", tools]);
        let array = |content: &str| format!(r#"{{"messages":[{{"content":{content}}}]}}"#);
        let (one, two) = (array(r#"[{"type":"text"}]"#), array("[{},{}]"));
        assert_eq!(ask(method::SAMPLE, &one)[2..4], [&*array(r#"{"type":"text"}"#), &*one]);
        assert_eq!(ask(method::SAMPLE, &two)[2..4], ["-", &*two]);
        assert_eq!(ask(method::ROOTS, "{}")[..4], ["{}"; 4]);
        assert_eq!(ask("x/y", "{}")[..4], ["-"; 4]);
    }

    /// wire: GW-49, MRTR-3, MRTR-13
    #[test]
    fn a_modern_client_is_asked_without_what_only_the_server_knows() {
        let asked = |params: &str| modern_question(params.as_bytes());
        let url = r#"{"elicitationId":"e","url":"u","_meta":{"progressToken":1}}"#;
        assert_eq!(asked(url), r#"{"url":"u"}"#);
        assert_eq!(asked(r#"{"a": 1,"_meta":{"k":1}}"#), r#"{"a": 1,"_meta":{"k":1}}"#);
    }
}
