//! What the gateway answers by itself: greetings, and the lists of all servers as one.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use bytes::Bytes;
use serde_json::{Value, json};
use switchboard_net::backend::PendingWork;
use switchboard_net::call::ReplySink as _;
use switchboard_net::client::Client;
use switchboard_net::connection::ClientConnection;
use switchboard_net::roster::{
    Change, Changes, Deferred, Definition, Hints, ListKind, ServerPhase,
};
use switchboard_proto::exchange::Exchange;
use switchboard_proto::jsonrpc::{Member, Message, Part};
use switchboard_proto::method::meta;
use switchboard_proto::refusal::Refusal;
use switchboard_proto::revision::{Era, Revision};
use switchboard_proto::{method, project};

use super::sign_in::sign_in_tool;
use super::{Front, FrontRequest};
use crate::catalog::{BadCursor, Catalog, DEFERRED, ShownPage};
use crate::monitor::WHOLE;
use crate::{lock, merge, read, write};

/// Makes the lists anew whenever a server offers something else.
pub(super) async fn watch(front: Weak<Front>, mut changes: Changes) {
    while let Some(change) = changes.next().await {
        let Some(front) = front.upgrade() else { return };
        // A state may say that a user has to sign in.
        let may_matter = !matches!(change, Change::State { .. }) || front.person.is_some();
        if may_matter && (front.person.is_none() || front.is_occupied()) {
            front.refresh();
        }
    }
}

impl Front {
    /// Makes the catalog of what is known; tells clients whose lists are others now.
    pub(super) fn refresh(&self) {
        let making = lock(&self.making);
        // Read first: what changes from here on makes this catalog an old one.
        let edition = self.edition();
        if edition == self.known().0 {
            return;
        }
        let (definitions, held) = self.fleet.approvals().review(self.definitions());
        let (members, running_servers) = (self.members(), self.fleet.running_servers());
        let only_listed = Arc::clone(&read(&self.only_listed));
        let is_granted = |it: &Definition| match it.kind {
            ListKind::Tools => {
                let is_there = members.contains(&it.server) || only_listed.contains(&it.server);
                is_there && self.grant.lists_tool(&it.server, &it.name())
            }
            _ => members.contains(&it.server),
        };
        let unsigned = self.unsigned();
        // What such a server listed before is not there for this user now.
        let is_shown = |it: &Definition| is_granted(it) && !unsigned.contains(&it.server);
        let definitions = definitions.into_iter().filter(is_shown);
        let definitions = definitions.chain(unsigned.iter().map(sign_in_tool)).collect();
        let held = held.into_iter().filter(is_shown);
        let plan = |name: &str| Some(Arc::clone(&running_servers.get(name)?.plan));
        let is_own = |it: &Definition| unsigned.contains(&it.server);
        let new = Arc::new(Catalog::with_own(definitions, plan, is_own).holding(held, plan));
        let mut current = write(&self.catalog);
        let (_, old) = std::mem::replace(&mut *current, (edition, Arc::clone(&new)));
        drop(current);
        drop(making);
        for lost in new.collisions.iter().filter(|lost| !old.collisions.contains(lost)) {
            let (name, kept, lost) = (&lost.name, &*lost.kept, &*lost.lost);
            let what = "two servers offer the same; the first is asked for it";
            tracing::warn!(name, kept, lost, "{what}");
        }
        // A client that searches sees the same two tools whatever there is to find.
        let is_hidden = self.is_searched(&old) && self.is_searched(&new);
        let changed = new.changed_lists(&old).into_iter();
        for list in changed.filter(|list| !is_hidden || *list != ListKind::Tools.capability()) {
            self.tell_changed(list);
        }
    }

    /// Tells sessions, and those who listen for it.
    pub(crate) fn tell_changed(&self, list: &'static str) {
        let Some(name) = method::list_changed(list) else { return };
        let message = Message::notification(name, None);
        for session in self.ready_sessions() {
            tell(&session.client, None, &message);
        }
        self.tell_listens(list, name);
    }

    /// A page of a list, as soon as it is known or a moment has passed.
    pub(super) fn list(self: &Arc<Self>, request: FrontRequest, kind: ListKind) -> PendingWork {
        for server in self.members().iter() {
            self.want(server);
        }
        // What is too old is shown once more while it is read again (CACHE-5).
        self.freshen(kind);
        self.once_settled(move |front| {
            let (client, message) = (&request.client, &request.message);
            let answer = match front.page(client, message, kind) {
                Ok(page) => {
                    let hints = (client.era() == Era::Modern).then(|| front.hints(client, kind));
                    let ours = said_first(&page, front.missing(), hints);
                    Message::result_of(request.id(), &[ours.as_bytes(), page.definitions()])
                }
                Err(bad) => {
                    let why = Refusal::BadParams { what: bad.to_string() };
                    Message::refusal(message.id(), &why)
                }
            };
            request.call.finish(answer);
        })
    }

    fn page(
        &self,
        client: &ClientConnection,
        request: &Message,
        kind: ListKind,
    ) -> Result<Arc<ShownPage>, BadCursor> {
        let is_whole = request.inside(Member::Meta, &[WHOLE]).is_some_and(Part::is_true);
        let cursor = match request.part(Member::Cursor) {
            None => None,
            Some(cursor) => Some(cursor.as_string().ok_or(BadCursor)?),
        };
        let is_modern = client.era() == Era::Modern;
        let known = || self.session(client).map_or(Revision::NEWEST_LEGACY, |it| it.revision);
        let words = (!is_modern).then(known);
        let write = |items: &[Bytes]| in_words_of(words, kind, listed(kind, items));
        let catalog = self.catalog();
        if kind != ListKind::Tools || is_whole || !self.is_searched(&catalog) {
            return catalog.shown(kind, cursor.as_deref(), words, write);
        }
        match cursor {
            None => Ok(Arc::new(ShownPage { text: write(&self.searching()), next: None })),
            Some(_) => Err(BadCursor),
        }
    }

    /// The servers that are not ready, and what is shown of them. Why is told in words that
    /// name no file and no address.
    fn missing(&self) -> Vec<Value> {
        let deferred = self.deferred();
        let missing = deferred.iter().map(|late| {
            let state = match late.state.phase {
                ServerPhase::Failed => "failed",
                ServerPhase::Retrying => "retrying",
                _ => "starting",
            };
            let mut missing =
                json!({"server": &*late.name, "state": state, "cached": late.is_cached});
            if let Some(reason) = &late.state.reason {
                missing["reason"] = reason.summary().into();
            }
            missing
        });
        missing.collect()
    }
}

/// A list as a revision has it, whatever its servers speak (GW-44, GW-70).
fn in_words_of(revision: Option<Revision>, kind: ListKind, list: Bytes) -> Bytes {
    let Some(revision) = revision else { return project::without_dropped(list, kind.method()) };
    project::legacy(list.clone(), kind.method(), revision, || false).unwrap_or(list)
}

/// The definitions as they came, as a member of an object.
fn listed(kind: ListKind, items: &[Bytes]) -> Bytes {
    let open = format!("{{\"{}\":[", kind.member().key());
    [open.as_bytes(), &items.join(&b","[..]), b"]}"].concat().into()
}

/// The result as far as we say it; the definitions follow.
fn said_first(page: &ShownPage, missing: Vec<Value>, hints: Option<Hints>) -> String {
    let mut result = hints.map_or_else(|| json!({}), |hints| dressed(json!({}), hints));
    if !missing.is_empty() {
        result["_meta"][DEFERRED] = missing.into();
    }
    if let Some(next) = &page.next {
        result["nextCursor"] = next.as_str().into();
    }
    let mut ours = result.to_string();
    ours.pop();
    ours.push_str(if ours == "{" { "" } else { "," });
    ours
}

/// Tells one client. One that does not read what it is told is cut loose: a
/// slow reader must harm nobody else.
pub(super) fn tell(client: &Arc<ClientConnection>, exchange: Option<Exchange>, message: &Message) {
    client.note(exchange, message);
    if client.is_slow() {
        tracing::warn!("a client that does not read is disconnected");
        client.end();
    }
}

/// Who we are, as JSON.
pub(super) fn identity() -> Bytes {
    const TEXT: &str =
        concat!(r#"{"name":"switchboard","version":""#, env!("CARGO_PKG_VERSION"), r#""}"#);
    Bytes::from_static(TEXT.as_bytes())
}

pub(super) fn whoami() -> Value {
    json!({"name": "switchboard", "version": env!("CARGO_PKG_VERSION")})
}

/// A result of ours as a modern client wants it, and how long it may be kept.
pub(super) fn dressed(mut result: Value, hints: Hints) -> Value {
    result["ttlMs"] = hints.ttl_ms.into();
    result["cacheScope"] = hints.scope().into();
    sign(&mut result);
    result
}

/// Says that a result is whole, and whose it is.
pub(super) fn sign(result: &mut Value) {
    result["resultType"] = "complete".into();
    result["_meta"][meta::SERVER] = whoami();
}

impl Front {
    /// `initialize`: answered here, and repeated to each server that is called (GW-41).
    pub(super) fn initialize(self: &Arc<Self>, request: FrontRequest) -> PendingWork {
        if request.message.string(Member::ProtocolVersion).is_none() {
            let what = "params.protocolVersion must be a string".to_owned();
            return request.finish(Refusal::BadParams { what });
        }
        // What changed before is no news to it.
        self.refresh();
        let revision = self.begin_session(&request.client, &request.message).revision;
        self.once_settled(move |front| {
            let mut result = json!({
                "protocolVersion": revision.as_str(),
                "capabilities": front.capabilities(Era::Legacy),
                "serverInfo": whoami(),
            });
            if let Some(object) = result["capabilities"].as_object_mut()
                && !revision.rules().core_tasks
            {
                object.remove("tasks");
            }
            front.instruct(&mut result);
            request.answer(&result);
        })
    }

    /// `server/discover`.
    pub(super) fn discover(self: &Arc<Self>, request: FrontRequest) -> PendingWork {
        self.once_settled(move |front| {
            let result = json!({
                "supportedVersions": Revision::names(Era::Modern),
                "capabilities": front.capabilities(Era::Modern),
            });
            // Nobody keeps it, for servers come and go.
            let mut result = dressed(result, Hints::default());
            front.instruct(&mut result);
            request.answer(&result);
        })
    }

    /// Says something once every server is known or has had its moment.
    pub(super) fn once_settled(
        self: &Arc<Self>,
        say: impl FnOnce(&Self) + Send + 'static,
    ) -> PendingWork {
        let may_come = |late: &Deferred| !late.is_cached && late.state.is_pending();
        if !self.deferred().iter().any(may_come) {
            say(self);
            return PendingWork::none();
        }
        let front = Arc::clone(self);
        PendingWork::one(async move {
            front.settled().await;
            front.refresh();
            say(&front);
        })
    }

    /// What any server has; one that is not there may have anything.
    pub(super) fn capabilities(&self, era: Era) -> Value {
        let members = self.members();
        let clients: Vec<_> = members.iter().map(|name| self.known_server(name)).collect();
        let declared = clients.iter().map(|client| client.as_ref().map(Client::capabilities));
        merge::capabilities(members.iter().map(|name| &**name).zip(declared), era)
    }

    fn instruct(&self, result: &mut Value) {
        let members = self.members();
        let said = members.iter().filter_map(|name| {
            // What it tells people is the same, most likely; they come but once.
            let client = self.known_server(name).or_else(|| self.fleet.roster.known(name))?;
            let text = client.welcome()["instructions"].as_str()?.to_owned();
            Some((name.to_string(), text))
        });
        if let Some(text) = merge::instructions(&said.collect::<BTreeMap<_, _>>()) {
            result["instructions"] = text.into();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_says_what_is_missing_before_the_definitions_as_they_came() {
        let items = [Bytes::from_static(b"{ \"name\":\"a__t\"}"), Bytes::from_static(b"{}")];
        let text = listed(ListKind::Tools, &items);
        let page = ShownPage { text, next: Some("1:b".to_owned()) };
        let missing = vec![json!({"server": "b"})];
        let written = |page: &ShownPage, missing, hints| {
            [said_first(page, missing, hints).as_bytes(), page.definitions()].concat()
        };
        let text = written(&page, missing, None);
        let expected = r#"{"_meta":{"switchboard/deferred":[{"server":"b"}]},"nextCursor":"1:b","tools":[{ "name":"a__t"},{}]}"#;
        assert_eq!(String::from_utf8(text).unwrap(), expected);
        let empty = |kind| ShownPage { text: listed(kind, &[]), next: None };
        let text = written(&empty(ListKind::Templates), Vec::new(), None);
        assert_eq!(text, br#"{"resourceTemplates":[]}"#);
        let hints = Hints { ttl_ms: 7, public: true };
        let text = written(&empty(ListKind::Tools), Vec::new(), Some(hints));
        let modern: Value = serde_json::from_slice(&text).unwrap();
        assert_eq!((&modern["resultType"], &modern["ttlMs"]), (&json!("complete"), &json!(7)));
        assert_eq!(modern["cacheScope"], "public");
    }
}
