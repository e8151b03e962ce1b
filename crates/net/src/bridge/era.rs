//! Which era the server speaks, found out when it matters.
//!
//! ```text
//!   a legacy client greets ──▶ passed on ──▶ welcome: the same era, nothing to do      (GW-1)
//!                                   └──▶ refused ──▶ asked ──▶ modern: translated
//!                                                      └──▶ not: the refusal passes
//!   a modern client asks ──▶ known? ──▶ the same era, or translated
//!                              └──▶ not: everything waits until the server was asked   (NEG-4)
//! ```

use std::sync::{Arc, Weak};

use switchboard_proto::client::Sharing;
use switchboard_proto::client::probe::{self, Verdict};
use switchboard_proto::exchange::Carrier;
use switchboard_proto::jsonrpc::{Kind, Member, Message};
use switchboard_proto::refusal::Refusal;
use switchboard_proto::revision::{Era, Revision};

use super::{Bridge, ConnectionKey, Opening};
use crate::connection::lock;
use crate::upstream::{EraFound, Eras, Upstream};

/// What waits until the server's era is known.
#[derive(Default)]
pub(super) struct EraWait {
    pub(super) opens: Vec<Opening>,
    /// The server is being asked, by this connection.
    pub(super) asking: Option<Arc<Upstream>>,
    /// Greetings that the server refused, and that may be made again in its era. No
    /// connection has them meanwhile.
    pub(super) reconsidered: usize,
    /// The connection that it was asked by, for the client that needs one first.
    pub(super) spare: Option<Arc<Upstream>>,
}

impl Bridge {
    /// The answer to a greeting may be about the era: then the client does not get it yet.
    pub(super) fn watch_greeting(
        &self,
        opening: &Opening,
        upstream: &Arc<Upstream>,
        key: ConnectionKey,
    ) {
        let (bridge, upstream) = (Weak::clone(&self.this), Arc::downgrade(upstream));
        let greeting = opening.clone();
        opening.call.set_intercept(move |answer| match (bridge.upgrade(), upstream.upgrade()) {
            (Some(bridge), Some(upstream))
                if (answer.kind() == Kind::Error || names_modern(answer))
                    && !upstream.is_stopped() =>
            {
                bridge.reconsider(greeting, key, upstream, answer.clone());
                true
            }
            _ => false,
        });
    }

    /// Keeps a call until it is known what the server speaks.
    pub(super) fn hold_back(&self, opening: Opening) -> Option<Opening> {
        let mut state = lock(&self.state);
        // Where all share one it is not started twice, and what it speaks is settled.
        let is_unknown = match state.connections.get(&ConnectionKey::Everybody) {
            Some(_) => false,
            None if opening.client.era() == Era::Legacy => state.era.asking.is_some(),
            None => self.server.speaks(Era::Modern).is_none(),
        };
        if !is_unknown {
            return Some(opening);
        }
        if state.closed || state.era.opens.len() >= self.limits().calls {
            drop(state);
            opening.call.finish(Refusal::TooManyCalls);
            return None;
        }
        let this: Weak<Self> = Weak::clone(&self.this);
        if !opening.call.hold(this) {
            return None;
        }
        if state.era.asking.is_none() {
            let (server, limits) = (self.server_for(&opening.client), self.limits());
            let modern = Eras::both(Era::Modern);
            let asking = Upstream::new(server, modern, Sharing::Shared, None, limits);
            state.era.asking = Some(Arc::clone(&asking));
            state.spawn(find_era(Weak::clone(&self.this), asking));
        }
        state.era.opens.push(opening);
        None
    }

    /// A legacy client's greeting was refused: is that because of its era?
    fn reconsider(
        &self,
        greeting: Opening,
        key: ConnectionKey,
        old: Arc<Upstream>,
        answer: Message,
    ) {
        let server = self.server_for(&greeting.client);
        let (modern, limits) = (Eras::both(Era::Modern), self.limits());
        // A child that refused may be gone, or may answer nothing else any more.
        let fresh = Upstream::new(server, modern, key.sharing(), None, limits);
        let bridge = Weak::clone(&self.this);
        let mut state = lock(&self.state);
        state.era.reconsidered += 1;
        state.spawn(async move {
            let is_modern = names_modern(&answer) || fresh.find_era().await == EraFound::Modern;
            let Some(bridge) = bridge.upgrade() else { return fresh.close().await };
            let is_replaced = is_modern && bridge.replace(key, &old, &fresh);
            if is_replaced {
                fresh.open(&greeting.call, false, &greeting.request, &None).detach();
            } else {
                greeting.call.finish(answer);
            }
            lock(&bridge.state).era.reconsidered -= 1;
            bridge.stirred.notify_waiters();
            if is_replaced { old } else { fresh }.close().await;
        });
    }

    /// The server is modern: its client goes by a connection that translates.
    fn replace(&self, key: ConnectionKey, old: &Arc<Upstream>, fresh: &Arc<Upstream>) -> bool {
        tracing::info!(server = fresh.name(), "modern only: translating for legacy clients");
        self.server.learn(Era::Legacy, false);
        self.server.learn(Era::Modern, true);
        fresh.change_eras(Eras { clients: Era::Legacy, server: Era::Modern }, key.sharing());
        let mut state = lock(&self.state);
        let current = state.connections.get_mut(&key).filter(|it| Arc::ptr_eq(it, old));
        let Some(current) = current else { return false };
        fresh.inherit(old);
        *current = Arc::clone(fresh);
        true
    }
}

/// Asks the server, and lets everything go on that waited for it.
async fn find_era(bridge: Weak<Bridge>, asking: Arc<Upstream>) {
    let found = asking.find_era().await;
    let Some(bridge) = bridge.upgrade() else { return asking.close().await };
    // Some take the question for the beginning of a modern conversation, and
    // refuse any other; so a legacy server begins anew (NEG-7). Where all share
    // one it is not started twice, unless it refuses.
    let is_kept = found == EraFound::Modern || found == EraFound::Legacy && bridge.is_common();
    if !is_kept && bridge.is_common() {
        asking.close().await;
    }
    match &found {
        EraFound::Modern => bridge.server.learn(Era::Modern, true),
        // It may not have started: if it has, its connection remembers what it speaks.
        EraFound::Silent if bridge.is_common() => bridge.server.guess(Era::Modern, false),
        EraFound::Legacy | EraFound::Silent => {
            tracing::info!(server = asking.name(), "legacy only: translating for modern clients");
            bridge.server.learn(Era::Modern, false);
        }
        // Whatever is the matter, the server may say it itself.
        EraFound::Nothing => bridge.server.guess(Era::Modern, true),
        EraFound::NotSignedIn(_) => {}
    }
    let opens = {
        let mut state = lock(&bridge.state);
        state.era.asking = None;
        if is_kept && !state.closed {
            state.era.spare = Some(Arc::clone(&asking));
        }
        std::mem::take(&mut state.era.opens)
    };
    for open in opens {
        let is_theirs = || bridge.server_for(&open.client).is_for_same_user(asking.server());
        match &found {
            // Another user is not kept out by it: the server is asked again, for them.
            EraFound::NotSignedIn(why) if is_theirs() => open.call.finish(why.clone()),
            _ => bridge.connect(open).detach(),
        }
    }
    // Perhaps no client needed it: the client has gone, or has a connection.
    let unused = lock(&bridge.state).era.spare.take();
    bridge.stirred.notify_waiters();
    let unused = unused.or_else(|| (!is_kept).then_some(asking));
    if let Some(unused) = unused {
        unused.close().await;
    }
}

/// Whether an answer says that the server is modern: by the versions it names
/// (NEG-2), or by welcoming its client to one that has no greeting (NEG-11).
fn names_modern(answer: &Message) -> bool {
    if answer.kind() == Kind::Result {
        let version = answer.string(Member::ProtocolVersion);
        return version.is_some_and(|name| Revision::names(Era::Modern).contains(&&*name));
    }
    let reply = probe::reply(None, answer);
    matches!(probe::verdict(Carrier::Pipe, &reply), Verdict::Modern(_))
}

#[cfg(test)]
mod tests {
    use http::HeaderName;
    use switchboard_proto::auth::AuthError;
    use switchboard_proto::exchange::Exchange;
    use switchboard_proto::failure::{Failure, Outcome};
    use switchboard_proto::jsonrpc::Id;
    use switchboard_proto::limits::Limits;
    use switchboard_proto::method;

    use super::*;
    use crate::access::Who;
    use crate::backend::Backend as _;
    use crate::bridge::Children;
    use crate::call::Call;
    use crate::connection::ClientConnection;
    use crate::stdio::child::Command;
    use crate::upstream::{
        AnswerWaiter, Credential, CredentialRefusal, CredentialUser, Fetching, IdentityDigest,
        ServerTarget, Tenant, TokenInjection,
    };

    /// Else it outlives the key, or the sign-in, of its user.
    #[tokio::test]
    async fn a_connection_that_takes_the_place_of_another_is_for_the_same_user() {
        // wire: OU-9
        let server = ServerTarget::command(Command::new("true"), Vec::new());
        let bridge = Bridge::new(server.clone(), Children::PerSession, Arc::default());
        let new = || {
            let eras = Eras::both(Era::Legacy);
            Upstream::new(server.clone(), eras, Sharing::Alone, None, Arc::default())
        };
        let (old, fresh, key) = (new(), new(), ConnectionKey::Client(1));
        old.let_to(Tenant::visiting(&Who::new("ada")));
        lock(&bridge.state).connections.insert(key, Arc::clone(&old));
        assert!(bridge.replace(key, &old, &fresh));
        assert!(fresh.is_of("ada"));
        bridge.close().await;
    }

    /// Nobody has signed in.
    struct NobodyHere;

    impl Credential for NobodyHere {
        fn passes(&self) -> &[HeaderName] {
            &[]
        }

        fn has_accounts(&self) -> bool {
            true
        }

        fn digest(&self, _: CredentialUser<'_>, _: &mut IdentityDigest) {}

        fn headers<'c>(
            &'c self,
            user: CredentialUser<'c>,
            _: Option<&'c CredentialRefusal>,
        ) -> Fetching<'c> {
            let why = AuthError::UserSignIn { principal: user.principal.to_owned() };
            Box::pin(std::future::ready(Err(why.into())))
        }
    }

    /// Else the first of all users decides for the others.
    #[tokio::test]
    async fn who_has_not_signed_in_says_nothing_about_the_era() {
        // wire: OU-5, NEG-9
        let server = ServerTarget::command(Command::new("true"), Vec::new());
        let how = TokenInjection::Env("TOKEN".to_owned());
        let server = server.injecting(Arc::new(NobodyHere), how);
        let bridge = Bridge::new(server, Children::PerUser, Arc::default());
        let limits = Arc::new(Limits::default());
        let outcomes = ["ada", "bob"].map(|name| {
            let backend: Arc<Bridge> = Arc::clone(&bridge);
            let client =
                ClientConnection::new(Era::Modern, Carrier::Http, backend, &limits, Sharing::Alone);
            client.speak_for(&Who::new(name));
            let (waiter, outcome) = AnswerWaiter::standing_in_for(&client);
            let call = Call::new(waiter, Exchange(1));
            let request = Message::request(&1.into(), "x", None);
            bridge.open(&client, &call, request, None).detach();
            (client, outcome, name)
        });
        for (_client, outcome, name) in outcomes {
            let Ok(Outcome::Failed(Failure::NotSignedIn { why })) = outcome.await else {
                panic!("{name} is to sign in");
            };
            assert_eq!(*why, AuthError::UserSignIn { principal: name.to_owned() }, "their own");
        }
        assert_eq!(bridge.server.speaks(Era::Modern), None);
        bridge.close().await;
    }

    /// Else its server is put to sleep between the refusal and the second attempt.
    #[tokio::test(start_paused = true)]
    async fn a_server_whose_refusal_is_being_looked_into_is_in_use() {
        let server = ServerTarget::command(Command::new("sleep").args(["1000"]), Vec::new());
        let bridge = Bridge::new(server.clone(), Children::PerSession, Arc::default());
        let backend: Arc<Bridge> = Arc::clone(&bridge);
        let limits = Arc::new(Limits::default());
        let client =
            ClientConnection::new(Era::Legacy, Carrier::Http, backend, &limits, Sharing::Alone);
        let call = Call::new(Arc::<ClientConnection>::clone(&client), Exchange(1));
        let request = Message::request(&1.into(), method::INITIALIZE, None);
        let greeting = Opening { client, call, request, said: None };
        let old = Upstream::new(server, Eras::both(Era::Legacy), Sharing::Alone, None, limits);
        let refusal = Message::refusal(Some(&Id::from(1)), &Refusal::TooManyCalls);
        assert!(lock(&bridge.state).is_quiet());
        bridge.reconsider(greeting, ConnectionKey::Everybody, old, refusal);
        assert!(!lock(&bridge.state).is_quiet());
        bridge.close().await;
        assert!(lock(&bridge.state).is_quiet(), "it was looked into");
    }
}
