//! The text of a configuration file with masks for what may be secret (C-36).

use std::collections::BTreeMap;

use jsonc_parser::ast::{self, Value as Ast};
use jsonc_parser::{CollectOptions, common::Ranged as _, parse_to_ast};
use ring::hmac;
use serde_json::Value;
use switchboard_net::secret::{LONG, is_secret_name};

use crate::config::json_options;
use crate::plan::PlanSecret;

/// How each mask begins.
pub(super) const MASK: &str = "${…";

/// A text in which nothing is left that may be a secret.
pub(super) struct MaskedText {
    pub(super) text: String,
    /// Each mask, and what stands for it in the file. The mask of a literal has its quotes.
    pub(super) masks: BTreeMap<String, String>,
}

impl MaskedText {
    /// None if it is not JSON: then it cannot be told what is secret.
    pub(super) fn new(text: &str, secrets: &[PlanSecret], key: &hmac::Key) -> Option<Self> {
        let parsed = parse_to_ast(text, &CollectOptions::default(), &json_options()).ok()?;
        let mut places = Vec::new();
        find_secrets(&parsed.value?, "", false, secrets, &mut places);
        places.sort_unstable();
        // What is a secret in one place is one everywhere.
        let literals = places.iter().map(|(from, until)| text[*from..*until].trim_matches('"'));
        let long = literals.filter(|literal| literal.len() >= LONG);
        let known = secrets.iter().map(|secret| secret.value.as_str());
        // What looks like a mask gets one too: no other may be left in a text.
        let mut words: Vec<_> = known.chain(long).chain([MASK]).collect();
        words.sort_by_key(|word| std::cmp::Reverse(word.len()));
        let mut masked = Self { text: String::new(), masks: BTreeMap::new() };
        let mut end = 0;
        for (from, until) in places {
            masked.hide_words(&text[end..from], &words, key);
            let own = &text[from..until];
            masked.push_mask(format!("\"{}\"", mask_of(key, "literal", own)), own);
            end = until;
        }
        masked.hide_words(&text[end..], &words, key);
        Some(masked)
    }

    /// The same with other values of the same form.
    pub(super) fn with_stand_ins(mut self) -> Self {
        for (mask, own) in &mut self.masks {
            *own = stand_in(mask, own);
        }
        self
    }

    fn push_mask(&mut self, mask: String, own: &str) {
        self.text.push_str(&mask);
        self.masks.insert(mask, own.to_owned());
    }

    /// Hides secrets outside of values that are masked, in comments mostly.
    fn hide_words(&mut self, text: &str, words: &[&str], key: &hmac::Key) {
        // Each part, and whether it is a secret.
        let mut parts = vec![(text, false)];
        for word in words.iter().filter(|word| text.contains(**word)) {
            let mut next = Vec::new();
            for (part, is_secret) in parts {
                if is_secret {
                    next.push((part, true));
                    continue;
                }
                let between = part.split(*word).map(|it| (it, false));
                next.extend(between.flat_map(|it| [(*word, true), it]).skip(1));
            }
            parts = next;
        }
        for (part, is_secret) in parts {
            if is_secret {
                self.push_mask(mask_of(key, "word", part), part);
            } else {
                self.text.push_str(part);
            }
        }
    }

    /// A text of the page with what the masks stand for; none if there is a mask that stands for
    /// nothing in the file.
    pub(super) fn undo(&self, text: &str) -> Option<String> {
        let (mut done, mut rest) = (String::new(), text);
        while let Some(from) = rest.find(MASK) {
            let until = from + rest[from..].find('}')? + 1;
            let quoted = rest.get(from.wrapping_sub(1)..until + 1);
            if let Some(own) = quoted.and_then(|mask| self.masks.get(mask)) {
                done.extend([&rest[..from - 1], own]);
                rest = &rest[until + 1..];
            } else {
                done.extend([&rest[..from], self.masks.get(&rest[from..until])?]);
                rest = &rest[until..];
            }
        }
        Some(done + rest)
    }
}

/// Another value for a mask: what is right or wrong about the own one mostly is so about this one.
fn stand_in(mask: &str, own: &str) -> String {
    let id = mask.trim_matches('"').trim_start_matches(MASK).trim_end_matches('}');
    let plain = format!("masked-{id}");
    if !mask.starts_with('"') {
        return plain;
    }
    let text = match serde_json::from_str::<Value>(own) {
        Ok(Value::Number(_)) => {
            return id
                .bytes()
                .fold(0_u16, |sum, it| sum.wrapping_mul(31) ^ u16::from(it))
                .to_string();
        }
        Ok(Value::String(text)) => text,
        _ => String::new(),
    };
    let text = match text.split_once("://") {
        _ if text.starts_with("sha256:") => format!("sha256:{}", id.repeat(4)),
        Some((scheme, place)) => {
            let host = place.split(['/', '?', '#']).next().unwrap_or_default();
            let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
            format!("{scheme}://{host}/?{plain}")
        }
        None => plain,
    };
    Value::from(text).to_string()
}

/// The mask of a value. It is named by the value: it means the same wherever it is moved, and
/// after the file was changed. Without the key nothing can be told of the value.
fn mask_of(key: &hmac::Key, kind: &str, own: &str) -> String {
    let tag = hmac::sign(key, format!("{kind} {own}").as_bytes());
    let name = |mask: String, byte: &u8| format!("{mask}{byte:02x}");
    tag.as_ref()[..8].iter().fold(MASK.to_owned(), name) + "}"
}

/// Objects whose values are secret, whatever they are called.
const SECRET_OBJECTS: [&str; 5] = ["env", "environment", "headers", "http_headers", "httpHeaders"];

/// Finds the literals that may be secret: where each begins and ends.
fn find_secrets(
    value: &Ast<'_>,
    name: &str,
    is_inside: bool,
    secrets: &[PlanSecret],
    found: &mut Vec<(usize, usize)>,
) {
    match value {
        Ast::Object(ast::Object { properties, .. }) => {
            let is_inside = is_inside || SECRET_OBJECTS.contains(&name);
            for property in properties {
                let name = property.name.as_str();
                find_secrets(&property.value, name, is_inside, secrets, found);
            }
        }
        Ast::Array(ast::Array { elements, .. }) => {
            // `["--token", "X"]`
            let mut before = "";
            for element in elements {
                let is_flag = before.starts_with('-') && is_secret_name(before);
                find_secrets(element, name, is_inside || is_flag, secrets, found);
                before = element.as_string_lit().map_or("", |literal| &literal.value);
            }
        }
        Ast::StringLit(literal) => {
            let text = &*literal.value;
            let is_url = text.contains("://") && text.contains(['?', '@']);
            let is_secret = is_inside
                || is_secret_name(name) && !is_plain_setting(name)
                || name == "hash"
                || is_url
                || PlanSecret::veil(text, secrets) != text;
            if is_secret && !is_by_name(text) {
                found.push((literal.start(), literal.end()));
            }
        }
        Ast::NumberLit(literal) if is_inside => found.push((literal.start(), literal.end())),
        _ => {}
    }
}

/// Names that sound secret, and have words for people and programs.
fn is_plain_setting(name: &str) -> bool {
    matches!(name, "authProviderType" | "grant" | "keys") || name.ends_with("Url")
}

/// Whether a value is nothing but variables: `${TOKEN}`, `Bearer ${TOKEN}`.
pub(super) fn is_by_name(text: &str) -> bool {
    let mut rest = text;
    let mut plain = String::new();
    while let Some((before, after)) = rest.split_once("${") {
        let Some((_, after)) = after.split_once('}') else { return false };
        plain.push_str(before);
        rest = after;
    }
    plain.push_str(rest);
    text.contains("${") && matches!(plain.trim(), "" | "Basic" | "Bearer" | "Token")
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::{Config, Surroundings};
    use crate::plan::Plan;

    const TEXT: &str = r#"{
  // the token is s3cret-env, ask bob; a mask is ${…1}
  "mcpServers": {
    "a": {
      "command": "run",
      "args": ["--api-key", "s3cret-arg", "--root", "/srv"],
      "env": {"TOKEN": "s3cret-env", "PIN": 1234, "FROM": "${FROM}"},
    },
    "b": {
      "url": "https://example.com/mcp?key=s3cret-query",
      "headers": {"Authorization": "Bearer ${B_TOKEN}", "X": "s3cret-header"},
      "oauth": {"clientSecret": "s3cret-client"}
    }
  },
  "switchboard": {"keys": {"ada": {"hash": "sha256:0000"}}, "port": 3001}
}"#;

    #[test]
    fn a_text_has_masks_for_secrets_and_comes_back_as_it_was() {
        // C-36
        let plan = |text: &str| {
            let around = Surroundings::default();
            let config = Config::parse(Path::new("a.json"), text, &around).expect("a file");
            Plan::build(&[config]).0
        };
        let key = hmac::Key::new(hmac::HMAC_SHA256, b"a key");
        let secrets = PlanSecret::collect(&[&plan(TEXT)]);
        let masked = MaskedText::new(TEXT, &secrets, &key).expect("JSON");
        for secret in ["s3cret", "1234", "sha256:0000"] {
            assert!(!masked.text.contains(secret), "{secret}: {}", masked.text);
        }
        for plain in ["/srv", "${FROM}", "Bearer ${B_TOKEN}", "3001", "ask bob", "\"run\""] {
            assert!(masked.text.contains(plain), "{plain}: {}", masked.text);
        }
        assert_eq!(masked.undo(&masked.text).as_deref(), Some(TEXT));
        let moved = masked.text.replace("\"port\": 3001", "\"port\": 3002");
        assert_eq!(masked.undo(&moved), Some(TEXT.replace("3001", "3002")));
        for wrong in ["\"${…0000}\"", "${…", "\"${…1}\""] {
            assert_eq!(masked.undo(wrong), None, "{wrong}");
        }
        let mask = mask_of(&key, "literal", "\"s3cret-arg\"");
        assert_eq!(masked.undo(&format!("\"{mask}\"")).as_deref(), Some("\"s3cret-arg\""));
        assert_eq!(masked.undo(&format!("\"Bearer {mask}\"")), None, "a part of a value");
    }

    #[test]
    fn a_value_of_variables_alone_is_shown() {
        for (text, is_so) in [
            ("${A}", true),
            ("Bearer ${A}", true),
            ("${A}${B}", true),
            ("x${A}", false),
            ("plain", false),
            ("${A", false),
        ] {
            assert_eq!(is_by_name(text), is_so, "{text}");
        }
    }
}
