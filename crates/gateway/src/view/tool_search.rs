//! Tool search: clients are shown two tools, to find tools and to call them, in place of all.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::{Map, Value, json};
use switchboard_net::backend::PendingWork;
use switchboard_net::roster::ListKind;
use switchboard_proto::jsonrpc::{Member, Message, Part};
use switchboard_proto::revision::Era;

use super::{Front, FrontRequest, list};
use crate::catalog::Catalog;
use crate::read;

/// Finds tools.
const FIND: &str = "find_tools";
/// Calls one.
const CALL: &str = "call_tool";

/// Tools that are found, if the model does not say; and what it may say.
const FEW: usize = 5;
const MOST: usize = 50;

/// Characters of a description that say which servers there are.
const SERVERS: usize = 2000;

/// Members of a definition that a model needs to call it.
const SHOWN: [&str; 6] =
    ["name", "title", "description", "inputSchema", "outputSchema", "annotations"];

impl Front {
    /// Whether clients are shown two tools in place of these.
    pub(super) fn is_searched(&self, catalog: &Catalog) -> bool {
        read(&self.fleet.search).applies(catalog.count(ListKind::Tools))
    }

    /// Answers `find_tools`, and takes `call_tool` for the call that is meant. A client may
    /// have seen the two tools before there were so few that all are shown.
    pub(super) fn search(
        self: &Arc<Self>,
        request: FrontRequest,
        catalog: &Catalog,
    ) -> Result<FrontRequest, PendingWork> {
        let name = request.message.name().unwrap_or_default().into_owned();
        match &*name {
            _ if !self.is_searched(catalog) && catalog.tool(&name).is_some() => Ok(request),
            FIND => Err(self.find_tools(request)),
            CALL => match unwrapped(&request.message) {
                // The client saw no arguments to repeat as headers.
                Some(message) => Ok(FrontRequest { message, header_params: None, ..request }),
                None => Err(finish(&request, failed("arguments.name must be a string"))),
            },
            _ => Ok(request),
        }
    }

    /// The server and the name there of the tool that a request calls, as far as it is known.
    pub(super) fn tool_called(
        &self,
        only: Option<&Arc<str>>,
        request: &Message,
    ) -> Option<(Arc<str>, String)> {
        if let Some(server) = only {
            return Some((Arc::clone(server), request.name()?.into_owned()));
        }
        let catalog = self.catalog();
        let owned = catalog.tool(&request.name()?).or_else(|| {
            let meant = unwrapped(request).filter(|_| request.name().as_deref() == Some(CALL))?;
            catalog.tool(&meant.name()?)
        })?;
        Some((owned.server.clone(), owned.name.clone()))
    }

    /// The two tools, as they are listed.
    pub(super) fn searching(&self) -> Vec<Bytes> {
        let mut servers = String::new();
        for running in self.members().iter().filter_map(|name| self.fleet.running(name)) {
            let about = running.plan.description.as_deref().unwrap_or_default().trim();
            let about = if about.is_empty() { String::new() } else { format!(" ({about})") };
            let comma = if servers.is_empty() { "" } else { ", " };
            let server = format!("{comma}{}{about}", running.plan.name);
            if servers.len() + server.len() > SERVERS {
                servers.push_str(", …");
                break;
            }
            servers.push_str(&server);
        }
        let string = |about: &str| json!({"type": "string", "description": about});
        let find = json!({
            "name": FIND,
            "title": "Find tools",
            "description": format!(
                "Finds tools by what they do, and says how each is called. Search before you say that \
                 something cannot be done. There are tools of: {servers}."
            ),
            "inputSchema": {"type": "object", "required": ["query"], "properties": {
                "query": string("What you want to do, in a few words"),
                "limit": {"type": "integer", "minimum": 1, "maximum": MOST, "default": FEW,
                          "description": "How many tools to show at most"},
            }},
            "annotations": {"readOnlyHint": true, "openWorldHint": false},
        });
        let mut call = json!({
            "name": CALL,
            "title": "Call a tool",
            "description": format!("Calls a tool that {FIND} has found."),
            "inputSchema": {"type": "object", "required": ["name"], "properties": {
                "name": string("The name of the tool, as it was found"),
                "arguments": {"type": "object", "additionalProperties": true,
                              "description": "What its inputSchema asks for"},
            }},
        });
        if self.has_tasks(Era::Legacy) {
            // Whether the tool that is meant may be one its server says.
            call["execution"] = json!({"taskSupport": "optional"});
        }
        [find, call].iter().map(|tool| tool.to_string().into()).collect()
    }

    /// `find_tools`, once every server is known or has had its moment.
    fn find_tools(self: &Arc<Self>, request: FrontRequest) -> PendingWork {
        self.once_settled(move |front| {
            let argument = |name| request.message.inside(Member::Arguments, &[name]);
            let query = argument("query").and_then(Part::as_string);
            let limit = argument("limit").and_then(|limit| limit.read().ok()).unwrap_or(FEW);
            let result = match query {
                Some(query) => found(&front.catalog().find(&query, limit.clamp(1, MOST))),
                None => failed("arguments.query must be a string"),
            };
            finish(&request, result);
        })
    }
}

fn finish(request: &FrontRequest, mut result: Value) -> PendingWork {
    if request.client.era() == Era::Modern {
        list::sign(&mut result);
    }
    request.answer(&result)
}

/// The call that is meant: everything else about it stays, its progress token too.
fn unwrapped(request: &Message) -> Option<Message> {
    let argument = |name| request.inside(Member::Arguments, &[name]).map(Part::text);
    let name = argument("name").filter(|it| it.starts_with(b"\""))?.to_vec();
    let arguments = argument("arguments").unwrap_or(b"{}").to_vec();
    Some(request.with(Member::Name, name).with(Member::Arguments, arguments))
}

fn found(tools: &[Bytes]) -> Value {
    let shown = |text: &Bytes| -> Value {
        let tool: Map<String, Value> = Part::new(text).read().unwrap_or_default();
        tool.into_iter().filter(|(member, _)| SHOWN.contains(&member.as_str())).collect()
    };
    let tools: Vec<_> = tools.iter().map(shown).collect();
    let mut text = json!({"tools": tools});
    if tools.is_empty() {
        text["hint"] = "nothing fits; say it in other words, or in fewer".into();
    }
    json!({"content": [{"type": "text", "text": text.to_string()}], "isError": false})
}

/// What the model can mend is told to the model.
fn failed(why: &str) -> Value {
    json!({"content": [{"type": "text", "text": why}], "isError": true})
}

#[cfg(test)]
mod tests {
    use switchboard_proto::jsonrpc::parse_one;

    use super::*;

    #[test]
    fn a_wrapped_call_is_the_call_itself_with_all_that_came_with_it() {
        let call = |params: &str| {
            let text =
                format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{params}}}"#);
            let call = unwrapped(&parse_one(text.into()).unwrap());
            call.map(|call| String::from_utf8_lossy(call.payload().unwrap()).into_owned())
        };
        let whole = r#"{"name":"call_tool","arguments":{"arguments":{"x": 1.0e0},"name":"a__b"},"_meta":{"progressToken":7},"task":{}}"#;
        let meant =
            r#"{"name":"a__b","arguments":{"x": 1.0e0},"_meta":{"progressToken":7},"task":{}}"#;
        assert_eq!(call(whole).unwrap(), meant);
        let bare = call(r#"{"name":"call_tool","arguments":{"name":"a__b"}}"#);
        assert_eq!(bare.unwrap(), r#"{"name":"a__b","arguments":{}}"#);
        assert_eq!(call(r#"{"name":"call_tool","arguments":{"name":7}}"#), None);
        assert_eq!(call(r#"{"name":"call_tool"}"#), None);
    }

    #[test]
    fn what_was_found_is_shown_without_what_no_call_needs() {
        let tool =
            Bytes::from_static(br#"{"name":"a__b","icons":[1],"_meta":{},"inputSchema":{}}"#);
        let text = found(&[tool])["content"][0]["text"].as_str().unwrap().to_owned();
        let shown: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(shown, json!({"tools": [{"name": "a__b", "inputSchema": {}}]}));
        let none = found(&[]);
        assert!(none["content"][0]["text"].as_str().unwrap().contains("other words"), "{none}");
    }
}
