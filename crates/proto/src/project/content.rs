//! What tools and prompts are answered with, for clients that know fewer kinds of it.

use bytes::Bytes;
use serde_json::{Value, json};

use crate::json::{Fault, Walker};
use crate::patch;
use crate::revision::Rules;

/// The result of a tool for an older client.
pub(super) fn tool_result(result: Bytes, rules: Rules, wrapped: bool) -> Bytes {
    let known = patch::each(&result, &["content"], |item| block(item, rules)).unwrap_or(result);
    let Some(structure) = patch::get(&known, &["structuredContent"]) else { return known };
    let spoken = if has_text(&known) { None } else { add_text(&known, structure) };
    let spoken = spoken.unwrap_or_else(|| known.clone());
    let fitting = if !rules.structured_content {
        patch::without(&spoken, &[], &["structuredContent"])
    } else if structure.starts_with(b"{") && !wrapped {
        None
    } else {
        let object = [b"{\"result\":", structure, b"}"].concat();
        patch::replace(&spoken, &["structuredContent"], &object)
    };
    fitting.unwrap_or(spoken)
}

fn has_text(result: &[u8]) -> bool {
    let Some(content) = patch::get(result, &["content"]) else { return false };
    let mut found = false;
    let walked = Walker::new(content).elements(|place| {
        found |= patch::get(&content[place], &["type"]) == Some(b"\"text\"");
        Ok::<_, Fault>(())
    });
    found && walked.is_ok()
}

/// Adds a block with the structure as JSON, for models that read nothing else.
fn add_text(result: &[u8], structure: &[u8]) -> Option<Bytes> {
    let text = text_block(&String::from_utf8_lossy(structure));
    let content = match patch::get(result, &["content"]) {
        None => format!("[{text}]").into_bytes(),
        Some(content) => {
            let inner = content.strip_prefix(b"[")?.strip_suffix(b"]")?.trim_ascii();
            let comma: &[u8] = if inner.is_empty() { b"" } else { b"," };
            [b"[", inner, comma, text.as_bytes(), b"]"].concat()
        }
    };
    patch::put(result, &[], "content", &content)
}

/// A block of content for an older client; none if it stays as it is.
pub(super) fn block(block: &[u8], rules: Rules) -> Option<Bytes> {
    let kind = patch::string(block, &["type"])?;
    let text = match &*kind {
        "text" | "image" | "resource" => return None,
        "resource_link" if rules.resource_links => return None,
        "audio" if rules.audio => return None,
        "resource_link" => link_text(block),
        "audio" => {
            let mime = patch::string(block, &["mimeType"]).unwrap_or_default();
            format!("[audio, {mime}: left out, for this client cannot take it]")
        }
        _ => String::from_utf8_lossy(block).into_owned(),
    };
    // Who it is for matters in any form.
    let mut other = Bytes::from(text_block(&text));
    for kept in ["annotations", "_meta"] {
        if let Some(value) = patch::get(block, &[kept]) {
            other = patch::put(&other, &[], kept, value).unwrap_or(other);
        }
    }
    Some(other)
}

fn link_text(link: &[u8]) -> String {
    let member = |name: &str| patch::string(link, &[name]).unwrap_or_default();
    let title = patch::string(link, &["title"]).unwrap_or_else(|| member("name"));
    let mut text = format!("{title}: {}", member("uri"));
    for more in ["description", "mimeType"].map(member) {
        if !more.is_empty() {
            text = format!("{text}\n{more}");
        }
    }
    text
}

fn text_block(text: &str) -> String {
    let text: Value = text.into();
    json!({"type": "text", "text": text}).to_string()
}
