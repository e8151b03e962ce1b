//! Requests and answers that people have switched on to be kept, and what is hidden in them (C-7).

use http::StatusCode;
use serde_json::{Value, json};
use switchboard_net::secret::is_secret_name;
use switchboard_proto::moment;

use super::sign_in::Viewer;
use super::{ApiError, ApiResult, Console, read_body};
use crate::monitor::{CaptureRule, MAX_CAPTURE_RULES, MAX_CAPTURE_TIME};
use crate::plan::PlanSecret;

/// What stands for a value that looks secret.
const MASK: &str = "\"…\"";

/// A JSON text, which may break off, with a mask for each value whose name sounds secret, and
/// for all within it.
fn masked(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    // The depth at which a secret value began.
    let (mut depth, mut secret): (usize, Option<usize>) = (0, None);
    let mut name_is_secret = false;
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '"' => string_length(rest),
            _ if is_scalar(first) => rest.find(|it| !is_scalar(it)).unwrap_or(rest.len()),
            _ => first.len_utf8(),
        };
        let (token, after) = rest.split_at(length);
        rest = after;
        let is_value = first == '"' || is_scalar(first);
        if first == '"' && after.trim_start().starts_with(':') {
            name_is_secret = is_secret_name(token.trim_matches('"'));
            out.push_str(token);
            continue;
        }
        if is_value {
            let is_hidden = secret.is_some() || name_is_secret;
            let is_plain = matches!(token, "null" | "true" | "false");
            out.push_str(if is_hidden && !is_plain { MASK } else { token });
            name_is_secret = false;
            continue;
        }
        out.push_str(token);
        match first {
            '{' | '[' => {
                depth += 1;
                if std::mem::take(&mut name_is_secret) && secret.is_none() {
                    secret = Some(depth);
                }
            }
            '}' | ']' => {
                secret = secret.filter(|at| *at != depth);
                depth = depth.saturating_sub(1);
            }
            _ => {}
        }
    }
    out
}

/// The bytes of the string that a text begins with, quotes and all.
fn string_length(text: &str) -> usize {
    let mut is_escaped = false;
    for (at, byte) in text.bytes().enumerate().skip(1) {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            b'"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}

/// Whether a number or a word has this sign.
fn is_scalar(sign: char) -> bool {
    sign.is_ascii_alphanumeric() || matches!(sign, '+' | '-' | '.')
}

impl Console {
    /// Whether a rule is about what somebody may know of.
    fn concerns(viewer: &Viewer, rule: &CaptureRule) -> bool {
        let name = viewer.who.name();
        let is_theirs = rule.principal.as_deref().is_none_or(|principal| principal == name);
        let is_there = rule.server.as_deref().is_none_or(|server| viewer.has_server(server));
        viewer.is_whole() || is_theirs && is_there
    }

    /// The rules that concern somebody.
    pub(super) fn capture_rows(&self, viewer: &Viewer) -> Vec<Value> {
        let rules = self.gateway.fleet().monitor().captures().rules();
        let own = rules.iter().filter(|rule| Self::concerns(viewer, rule));
        own.map(capture_row).collect()
    }

    /// What is kept at this time.
    pub(super) fn captures(&self, viewer: &Viewer) -> Value {
        let mut told = json!({"rows": self.capture_rows(viewer)});
        if viewer.is_whole() {
            let (calls, bytes) = self.gateway.fleet().monitor().captures().size();
            (told["calls"], told["bytes"]) = (calls.into(), bytes.into());
        }
        told
    }

    /// Switches capture on for a server, a user, or both.
    pub(super) fn start_capture(&self, viewer: &Viewer, body: &[u8]) -> ApiResult {
        self.may_change(viewer)?;
        let wanted = read_body(body)?;
        let word = |name: &str| wanted[name].as_str().map(str::to_owned);
        let (server, principal) = (word("server"), word("principal"));
        if server.is_none() && principal.is_none() {
            return Err(ApiError::bad_request("say a \"server\", a \"principal\", or both"));
        }
        if let Some(server) = &server {
            self.running(viewer, server)?;
        }
        let most = MAX_CAPTURE_TIME.as_secs() / 60;
        let minutes = wanted["minutes"].as_u64().unwrap_or(most);
        if !(1..=most).contains(&minutes) {
            return Err(ApiError::bad_request(format!("\"minutes\" is from 1 to {most}")));
        }
        let time = std::time::Duration::from_secs(minutes * 60);
        let by = viewer.who.name();
        let captures = self.gateway.fleet().monitor().captures();
        let full = || {
            let message = format!("{MAX_CAPTURE_RULES} captures are on; end one first");
            ApiError::new(StatusCode::CONFLICT, "busy", message)
        };
        let rule = captures.switch_on((server, principal), time, by).ok_or_else(full)?;
        let CaptureRule { number, server, principal, .. } = &rule;
        tracing::warn!(
            principal = by,
            server,
            of = principal,
            minutes,
            "requests and answers are kept, by the console"
        );
        let undo = json!({"method": "DELETE", "path": format!("capture/{number}")});
        // The row says until when; people have clocks of their own.
        let plural = if minutes == 1 { "" } else { "s" };
        let did = format!("{} are kept for {minutes} minute{plural}", captured_calls(&rule));
        Ok(json!({"did": did, "row": capture_row(&rule), "undo": undo}))
    }

    /// Switches one capture off, or all. With the last one, all that was kept goes.
    pub(super) fn end_capture(&self, viewer: &Viewer, number: Option<&str>) -> ApiResult {
        self.may_change(viewer)?;
        let unknown = || ApiError::not_found("this capture is over");
        let number = number.map(|text| text.parse().map_err(|_| unknown())).transpose()?;
        let count = self.gateway.fleet().monitor().captures().switch_off(number);
        if number.is_some() && count == 0 {
            return Err(unknown());
        }
        tracing::info!(principal = viewer.who.name(), count, "capture ended in the console");
        Ok(json!({"did": "requests and answers are not kept any more", "undo": null}))
    }

    /// What was kept of a call, for those from whom nothing is kept.
    pub(super) fn captured(&self, viewer: &Viewer, number: u64) -> Option<Value> {
        let captures = self.gateway.fleet().monitor().captures();
        let call = captures.call(number).filter(|_| viewer.is_whole())?;
        let secrets = PlanSecret::collect(&[&self.gateway.plan()]);
        let shown = |text: &str| PlanSecret::veil(&masked(text), &secrets).into_owned();
        let (request, is_cut) = call.request.text();
        let answer = call.answer.as_ref().map(|answer| answer.text());
        let is_cut = is_cut || answer.as_ref().is_some_and(|(_, is_cut)| *is_cut);
        let response = answer.map(|(text, _)| shown(&text));
        Some(json!({"request": shown(&request), "response": response, "isCut": is_cut}))
    }
}

fn capture_row(rule: &CaptureRule) -> Value {
    let CaptureRule { number, server, principal, until, by, .. } = rule;
    json!({
        "id": number.to_string(),
        "server": server,
        "principal": principal,
        "until": moment::text(*until),
        "by": by,
        "text": told(rule),
    })
}

/// A rule in words.
fn told(rule: &CaptureRule) -> String {
    let CaptureRule { until, by, .. } = rule;
    format!("{} are kept until {}, by {by}", captured_calls(rule), moment::text(*until))
}

/// Which calls a rule is about.
fn captured_calls(rule: &CaptureRule) -> String {
    let CaptureRule { server, principal, .. } = rule;
    let of = principal.as_ref().map(|name| format!(" of {name}")).unwrap_or_default();
    let to = server.as_ref().map(|name| format!(" to {name}")).unwrap_or_default();
    format!("requests and answers of calls{of}{to}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_whose_names_sound_secret_are_masked_however_deep() {
        // C-7, C-36
        for (text, shown) in [
            (r#"{"a":"b","token":"t"}"#, r#"{"a":"b","token":"…"}"#),
            (r#"{"password" : 12, "n": 12}"#, r#"{"password" : "…", "n": 12}"#),
            (
                r#"{"secrets":{"a":["b",{"c":1.5e3}],"d":null},"x":"y"}"#,
                r#"{"secrets":{"a":["…",{"c":"…"}],"d":null},"x":"y"}"#,
            ),
            (r#"{"apiKey":"a\"b\\","z":[1]}"#, r#"{"apiKey":"…","z":[1]}"#),
            (r#"{"say":"token: x"}"#, r#"{"say":"token: x"}"#),
            // It breaks off.
            (r#"{"a":{"token":"abc"#, r#"{"a":{"token":"…""#),
            (r#"{"a":"b\"#, r#"{"a":"b\"#),
            ("", ""),
        ] {
            assert_eq!(masked(text), shown, "{text}");
        }
    }
}
