//! Which server a call goes to, and in which words.
//!
//! ```text
//!   tools/call, prompts/get            by name: the table, else the part before `__`
//!   resources/read, subscribe, …       by URI: who lists it, whose template fits, who has any
//!   completion/complete                by what is completed
//!   greetings, lists, levels, listens  nobody: the gateway answers
//! ```

use std::borrow::Cow;
use std::sync::Arc;

use serde_json::{Value, json};
use switchboard_net::roster::ListKind;
use switchboard_proto::jsonrpc::{Member, Message};
use switchboard_proto::method;
use switchboard_proto::refusal::code;
use switchboard_proto::revision::Era;

use crate::catalog::{Catalog, Owned};
use crate::visibility;

/// Where a call goes.
#[derive(Clone, Debug)]
pub enum Way {
    /// The gateway answers it.
    Here,
    /// One of these lists.
    List(ListKind),
    /// A server does; the request is in its words.
    To {
        /// The server.
        server: Arc<str>,
        /// The request as that server is to get it.
        request: Message,
    },
    /// Nobody can.
    Nowhere(Nowhere),
}

/// Why a call goes nowhere.
#[expect(missing_docs, reason = "the field names say it")]
#[non_exhaustive]
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Nowhere {
    /// Nobody knows the method, or it cannot be told who is meant.
    #[error("Method not found: {method}")]
    Method { method: String },
    /// A member is not there, or is no string.
    #[error("params.{member} must be a string")]
    Params { member: &'static str },
    /// No server has it.
    #[error("Unknown {what}: {name}")]
    Unknown { what: &'static str, name: String },
    /// No server has the resource.
    #[error("Resource not found: {uri}")]
    Resource { uri: String },
}

impl Nowhere {
    /// What a client learns of something that is hidden from it: no more than of
    /// something that is not there. The request is in the client's words.
    pub(crate) fn unseen(request: &Message) -> Self {
        let (kind, name) =
            visibility::named(request).unwrap_or((ListKind::Tools, Cow::Borrowed("")));
        let name = name.into_owned();
        match kind {
            ListKind::Tools => Self::Unknown { what: "tool", name },
            ListKind::Prompts => Self::Unknown { what: "prompt", name },
            ListKind::Resources | ListKind::Templates => Self::Resource { uri: name },
        }
    }

    /// The error that the client gets.
    pub fn error(&self, era: Era) -> Value {
        let code = match (self, era) {
            (Self::Method { .. }, _) => code::METHOD_NOT_FOUND,
            (Self::Resource { .. }, Era::Legacy) => code::RESOURCE_NOT_FOUND,
            _ => code::INVALID_PARAMS,
        };
        let mut error = json!({"code": code, "message": self.to_string()});
        if let Self::Resource { uri } = self {
            error["data"] = json!({"uri": uri});
        }
        error
    }
}

/// What is known of the servers besides what they list.
pub trait Servers {
    /// Whose this is, if that can be told from its name and the server may have
    /// more than is known: it has not said yet what it offers, or offers
    /// something else to each client.
    fn unlisted(&self, kind: ListKind, offered: &str) -> Option<Owned>;
    /// The only server that may have resources that nobody lists, if there is one only.
    fn only_with_resources(&self) -> Option<Arc<str>>;
}

/// Where `request` goes.
pub fn route(request: &Message, catalog: &Catalog, servers: &impl Servers) -> Way {
    let found = match request.method() {
        method::INITIALIZE
        | method::PING
        | method::DISCOVER
        | method::LISTEN
        | method::SET_LEVEL => return Way::Here,
        method::CALL_TOOL => named(request, Member::Name, ListKind::Tools, catalog, servers),
        method::GET_PROMPT => named(request, Member::Name, ListKind::Prompts, catalog, servers),
        method::READ_RESOURCE | method::SUBSCRIBE | method::UNSUBSCRIBE => {
            let find = |uri: &str| catalog.resource(uri).cloned();
            resource(request, Member::Uri, find, servers)
        }
        method::COMPLETE => complete(request, catalog, servers),
        other => match ListKind::ALL.into_iter().find(|kind| kind.method() == other) {
            Some(kind) => return Way::List(kind),
            None => Err(Nowhere::Method { method: other.to_owned() }),
        },
    };
    match found {
        Ok((server, request)) => Way::To { server, request },
        Err(nowhere) => Way::Nowhere(nowhere),
    }
}

type Found = Result<(Arc<str>, Message), Nowhere>;

/// A tool or a prompt.
fn named(
    request: &Message,
    member: Member,
    kind: ListKind,
    catalog: &Catalog,
    servers: &impl Servers,
) -> Found {
    let offered = request.string(member).ok_or(Nowhere::Params { member: "name" })?;
    let (what, listed) = match kind {
        ListKind::Prompts => ("prompt", catalog.prompt(&offered)),
        _ => ("tool", catalog.tool(&offered)),
    };
    // Perhaps it is there; its server knows better.
    let owned = listed.cloned().or_else(|| servers.unlisted(kind, &offered));
    let owned = owned.ok_or_else(|| Nowhere::Unknown { what, name: offered.into_owned() })?;
    Ok((owned.server, request.with_string(member, &owned.name)))
}

fn resource(
    request: &Message,
    member: Member,
    find: impl Fn(&str) -> Option<Arc<str>>,
    servers: &impl Servers,
) -> Found {
    let uri = request.string(member).ok_or(Nowhere::Params { member: "uri" })?;
    let server = find(&uri).or_else(|| servers.only_with_resources());
    let server = server.ok_or_else(|| Nowhere::Resource { uri: uri.into_owned() })?;
    Ok((server, request.clone()))
}

fn complete(request: &Message, catalog: &Catalog, servers: &impl Servers) -> Found {
    let kind = request.string(Member::RefType);
    match kind.as_deref() {
        Some("ref/prompt") => named(request, Member::RefName, ListKind::Prompts, catalog, servers),
        Some("ref/resource") => {
            let find = |text: &str| catalog.template(text).cloned();
            resource(request, Member::RefUri, find, servers)
        }
        _ => Err(Nowhere::Params { member: "ref.type" }),
    }
}

#[cfg(test)]
mod tests;
