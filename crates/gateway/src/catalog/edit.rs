//! What of a server clients see, and in whose words.

use bytes::Bytes;
use serde_json::{Map, Value};
use switchboard_net::roster::Definition;
use switchboard_proto::jsonrpc::Part;

use crate::name;
use crate::plan::{Edit, ServerPlan};

/// A definition as clients are to see it; none if they are not.
pub(super) fn shaped(plan: Option<&ServerPlan>, definition: &Definition) -> Option<Shaped> {
    let own = definition.name().into_owned();
    let text = definition.text.clone();
    let Some(plan) = plan else {
        return Some(Shaped { offered: name::offered(&definition.server, &own), own, text });
    };
    if !plan.filter(definition.kind).lets(&own) {
        return None;
    }
    let edit = plan.edits(definition.kind).get(&own);
    let shown = edit.and_then(|edit| edit.name.as_deref()).unwrap_or(&own);
    let offered = plan.offered(shown);
    let text = edit.and_then(|edit| edited(&text, edit)).unwrap_or(text);
    Some(Shaped { own, offered, text })
}

/// What comes of a definition.
pub(super) struct Shaped {
    /// What its server calls it.
    pub(super) own: String,
    /// What a tool or prompt is called among those of other servers.
    pub(super) offered: String,
    pub(super) text: Bytes,
}

fn edited(text: &Bytes, edit: &Edit) -> Option<Bytes> {
    let mut text = text.clone();
    for (member, value) in [("title", &edit.title), ("description", &edit.description)] {
        if let Some(value) = value {
            text = Part::new(&text).with_string(member, value)?;
        }
    }
    if !edit.annotations.is_empty() {
        let there = Part::new(&text).get(&["annotations"]).and_then(|it| it.read().ok());
        let mut annotations: Map<String, Value> = there.unwrap_or_default();
        for (member, value) in &edit.annotations {
            match value {
                Value::Null => _ = annotations.remove(member),
                value => _ = annotations.insert(member.clone(), value.clone()),
            }
        }
        let annotations = Value::Object(annotations).to_string();
        text = Part::new(&text).with("annotations", annotations.as_bytes())?;
    }
    Some(text)
}
