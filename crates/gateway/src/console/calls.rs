//! The last calls as somebody may see them: rows by a filter, and one with its parts.

use std::collections::HashMap;

use serde_json::{Value, json};
use switchboard_proto::moment;

use super::sign_in::Viewer;
use super::{ApiError, ApiResult, Console, millis};
use crate::monitor::{CallPoints, CallResult, LoggedCall};
use crate::status::era_name;

/// Rows in one answer.
const MAX_ROWS: usize = 200;

/// Which calls are wanted.
#[derive(Debug, Default)]
pub(super) struct CallFilter {
    server: Option<String>,
    name: Option<String>,
    method: Option<String>,
    principal: Option<String>,
    client: Option<String>,
    trace: Option<u128>,
    /// Any, if there are none.
    outcomes: Vec<CallResult>,
    slower: Option<f64>,
}

impl CallFilter {
    /// What a query asks for; what is wrong with it.
    pub(super) fn read(query: &HashMap<String, String>) -> ApiResult<Self> {
        let text = |name: &str| query.get(name).filter(|text| !text.is_empty()).cloned();
        let mut outcomes = Vec::new();
        for word in query.get("outcome").into_iter().flat_map(|words| words.split(',')) {
            match word {
                "" => {}
                "failed" => outcomes.extend([CallResult::Error, CallResult::ToolError]),
                word => {
                    let known = CallResult::ALL.into_iter().find(|outcome| outcome.name() == word);
                    let unknown = || ApiError::bad_request(format!("unknown outcome {word:?}"));
                    outcomes.push(known.ok_or_else(unknown)?);
                }
            }
        }
        let slower = text("slower").map(|text| text.parse().map_err(|_| "slower"));
        let trace = text("trace").map(|text| u128::from_str_radix(&text, 16).map_err(|_| "trace"));
        let wrong = |name| ApiError::bad_request(format!("{name:?} is no number"));
        Ok(Self {
            server: text("server"),
            name: text("name").map(|name| name.to_lowercase()),
            method: text("method"),
            principal: text("principal"),
            client: text("client").map(|name| name.to_lowercase()),
            trace: trace.transpose().map_err(wrong)?,
            outcomes,
            slower: slower.transpose().map_err(wrong)?,
        })
    }

    pub(super) fn lets(&self, call: &LoggedCall) -> bool {
        let has = |text: Option<&str>, part: &str| {
            text.is_some_and(|text| text.to_lowercase().contains(part))
        };
        let is_named =
            |name: &String| has(call.offered.as_deref(), name) || has(call.target.as_deref(), name);
        self.server.as_deref().is_none_or(|server| call.server.as_deref() == Some(server))
            && self.method.as_deref().is_none_or(|method| call.method() == method)
            && self.trace.is_none_or(|trace| call.trace == trace)
            && (self.outcomes.is_empty() || self.outcomes.contains(&call.outcome))
            && self.slower.is_none_or(|most| millis(call.took()) >= most)
            && self.name.as_ref().is_none_or(is_named)
            && self.client.as_deref().is_none_or(|client| has(call.client.as_deref(), client))
            && self.principal.as_ref().is_none_or(|it| call.principal().as_ref() == Some(it))
    }
}

/// A call in a list.
pub(super) fn row(call: &LoggedCall) -> Value {
    json!({
        "id": call.number.to_string(),
        "trace": format!("{:032x}", call.trace),
        "at": moment::text(call.at()),
        "method": call.method(),
        "server": call.server.as_deref(),
        "name": call.offered.as_deref(),
        "target": call.target.as_deref(),
        "outcome": call.outcome.name(),
        "code": call.code,
        "ms": millis(call.took()),
        "principal": call.principal(),
        "client": call.client.as_deref(),
        "transport": call.transport(),
        "era": era_name(call.era),
        "session": call.session.as_deref(),
    })
}

/// What took how long of a call.
fn spans(call: &LoggedCall) -> Vec<Value> {
    let ms = |micros: u32| f64::from(micros) / 1e3;
    let whole = u32::try_from(call.took().as_micros()).unwrap_or(u32::MAX);
    let CallPoints { routed, admitted, asked, answered } = call.points();
    let span = |name: &str, from: u32, until: u32| json!({"name": name, "startMs": ms(from), "ms": ms(until.saturating_sub(from))});
    if call.server.is_none() || routed == 0 && admitted == 0 {
        return vec![span("gateway", 0, whole)];
    }
    let arrived = if routed == 0 { admitted } else { routed };
    let begun = admitted.max(arrived);
    let answered = if answered == 0 { whole } else { answered };
    let mut spans = vec![span("gateway", 0, arrived)];
    if begun > arrived {
        spans.push(span("queue", arrived, begun));
    }
    let mut server = span("server", begun, answered);
    server["server"] = call.server.as_deref().into();
    spans.push(server);
    if asked > 0 {
        // When the client answered is not known here: a point.
        spans.push(span("question", asked, asked));
    }
    spans.push(span("way_back", answered, whole));
    spans
}

impl Console {
    /// Rows by a filter, newest first.
    pub(super) fn calls(&self, viewer: &Viewer, query: &HashMap<String, String>) -> ApiResult {
        let filter = CallFilter::read(query)?;
        let before = match query.get("after").map(|text| text.parse::<u64>()) {
            Some(Ok(number)) => number,
            Some(Err(_)) => return Err(ApiError::bad_request("\"after\" is no number")),
            None => u64::MAX,
        };
        let all = self.gateway.fleet().monitor().calls().after(0);
        let is_meant = |call: &&std::sync::Arc<LoggedCall>| {
            call.number < before && viewer.sees(call) && filter.lets(call)
        };
        let mut found = all.iter().filter(is_meant);
        let rows: Vec<_> = found.by_ref().take(MAX_ROWS).collect();
        let last = rows.last().map(|call| call.number.to_string());
        let next = last.filter(|_| found.next().is_some());
        let rows: Vec<_> = rows.into_iter().map(|call| row(call)).collect();
        let mut answer = json!({"rows": rows});
        if let Some(next) = next {
            answer["next"] = next.into();
        }
        Ok(answer)
    }

    /// All rows by a filter, newest first, a line each.
    pub(super) fn call_lines(
        &self,
        viewer: &Viewer,
        query: &HashMap<String, String>,
    ) -> ApiResult<String> {
        let filter = CallFilter::read(query)?;
        let all = self.gateway.fleet().monitor().calls().after(0);
        let meant = all.iter().filter(|call| viewer.sees(call) && filter.lets(call));
        Ok(meant.flat_map(|call| [row(call).to_string(), "\n".to_owned()]).collect())
    }

    /// One call with its parts, and the others of its trace.
    pub(super) fn call(&self, viewer: &Viewer, id: &str) -> ApiResult {
        let all = self.gateway.fleet().monitor().calls().after(0);
        let seen: Vec<_> = all.iter().filter(|call| viewer.sees(call)).collect();
        let unknown = || ApiError::not_found("this call is not kept any more");
        let found = id.parse().ok().and_then(|id: u64| seen.iter().find(|it| it.number == id));
        let call = found.ok_or_else(unknown)?;
        let is_other =
            |it: &&&std::sync::Arc<LoggedCall>| it.trace == call.trace && it.number != call.number;
        let others = seen.iter().filter(is_other).take(MAX_ROWS);
        let others: Vec<_> = others.map(|it| it.number.to_string()).collect();
        let mut told = json!({"call": row(call), "spans": spans(call), "others": others});
        if let Some(captured) = self.captured(viewer, call.number) {
            told["captured"] = captured;
        }
        Ok(told)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(query: &[(&str, &str)]) -> ApiResult<CallFilter> {
        let pair = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        CallFilter::read(&query.iter().map(pair).collect())
    }

    #[test]
    fn a_filter_is_read_or_refused() {
        // C-6
        let filter = read(&[("outcome", "failed,ok"), ("slower", "1.5"), ("trace", "ff")]).unwrap();
        assert_eq!(filter.outcomes.len(), 3);
        assert_eq!((filter.slower, filter.trace), (Some(1.5), Some(255)));
        assert!(read(&[("server", "")]).unwrap().server.is_none());
        for wrong in [("outcome", "good"), ("slower", "fast"), ("trace", "xyz")] {
            assert_eq!(read(&[wrong]).unwrap_err().code, "bad_request", "{wrong:?}");
        }
    }
}
