//! The sign-in behind a link: from the user who opened it to the tokens in the store.

use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use serde_json::json;
use switchboard_net::OwnedTask;
use switchboard_net::auth::callback::CallbackPage;
use switchboard_net::auth::person::SignInPerson;
use switchboard_net::auth::{Authorizer, LoginMode};
use switchboard_net::call::ReplySink as _;
use switchboard_net::connection::ClientConnection;
use switchboard_proto::auth::Challenge;
use switchboard_proto::jsonrpc::Message;
use switchboard_proto::method;
use tokio::sync::{oneshot, watch};
use tokio::time::Instant;

use super::{CALLBACK_PATH, ConnectFlow, ConnectLink, FlowEnd, LINK_LIFE, UserConnector};
use crate::account::Accounts;
use crate::plan::ServerPlan;
use crate::{lock, read};

/// How long it may take until it is known where to sign in.
const BEGINNING: Duration = Duration::from_secs(35);

impl UserConnector {
    /// Begins the sign-in of a link that its own user has opened: where the browser goes.
    pub(super) async fn begin(
        &self,
        link: ConnectLink,
        browser: &str,
        id: &str,
    ) -> Result<String, String> {
        let base = read(&self.base).clone().unwrap_or_default();
        let (page, desk) = CallbackPage::new(format!("{base}{CALLBACK_PATH}"));
        let (show, shown) = oneshot::channel();
        let person = Arc::new(BrowserVisitor(Mutex::new(Some(show))));
        let options = self.accounts.options.clone().mode(LoginMode::Wait).wait(LINK_LIFE);
        let accounts = Accounts { options, ..self.accounts.clone() };
        let ConnectLink { server, principal, told, .. } = link;
        let fetch = server.fetch(&self.fetch);
        let described = self.described(&server).await.map_err(|failed| failed.to_string())?;
        let authorizer = accounts.authorizer(&described, Some(&principal), fetch, person);
        let authorizer = authorizer.ok_or("the server has no account to sign in to")?;
        let authorizer = authorizer.coming_back_to(page);
        let challenge = self.accounts.challenge(&server, &principal);
        let (end, ended) = watch::channel(None);
        let run = FlowRun {
            connector: Weak::clone(&self.this),
            server: Arc::clone(&server),
            principal: principal.clone(),
            id: id.to_owned(),
            told,
            end,
        };
        let flow = ConnectFlow {
            server: server.name.clone(),
            principal,
            browser: browser.to_owned(),
            desk,
            began: Instant::now(),
            id: id.to_owned(),
            ended: ended.clone(),
            _task: OwnedTask::spawn(run.sign_in(authorizer, challenge)),
        };
        lock(&self.state).replace_flow(flow);
        if let Ok(Ok(url)) = tokio::time::timeout(BEGINNING, shown).await {
            return Ok(url);
        }
        lock(&self.state).flows.retain(|flow| flow.id != id);
        let why = ended.borrow().clone().and_then(Result::err);
        Err(why.unwrap_or_else(|| "it takes too long to find out where to sign in".to_owned()))
    }
}

/// A sign-in on its way.
struct FlowRun {
    connector: Weak<UserConnector>,
    server: Arc<ServerPlan>,
    principal: String,
    id: String,
    told: Vec<Weak<ClientConnection>>,
    end: watch::Sender<Option<FlowEnd>>,
}

impl FlowRun {
    async fn sign_in(self, authorizer: Authorizer, challenge: Option<Challenge>) {
        let ended = authorizer.sign_in(challenge).await;
        let (server, user) = (&*self.server.name, &*self.principal);
        let Some(connector) = self.connector.upgrade() else { return };
        match &ended {
            Err(error) => tracing::info!(server, user, "the user is not connected: {error}"),
            Ok(_) => self.tell(&connector),
        }
        self.end.send_replace(Some(ended.map(drop).map_err(|error| error.to_string())));
        // It waits for nothing any more, and takes no place from others.
        lock(&connector.state).flows.retain(|flow| flow.id != self.id);
    }

    /// Everybody hears that the user is connected.
    fn tell(&self, connector: &UserConnector) {
        let (server, user) = (&*self.server.name, &*self.principal);
        tracing::info!(server, user, "the user is connected");
        connector.accounts.forget_challenge(&self.server, user);
        connector.done.send_modify(|done| *done += 1);
        if let Some(fleet) = connector.fleet.get().and_then(Weak::upgrade) {
            fleet.handle_connected(server, user);
        }
        let params = json!({"elicitationId": self.id}).to_string();
        let message = Message::notification(method::ELICITED, Some(params.as_bytes()));
        for client in self.told.iter().filter_map(Weak::upgrade) {
            client.note(None, &message);
        }
    }
}

/// Whoever opened a link: their browser is sent to the page.
#[derive(Debug)]
struct BrowserVisitor(Mutex<Option<oneshot::Sender<String>>>);

impl SignInPerson for BrowserVisitor {
    fn show_page(&self, _server: &str, url: &str) {
        if let Some(show) = lock(&self.0).take() {
            // Somebody who is gone needs no page.
            _ = show.send(url.to_owned());
        }
    }

    fn show_device(&self, _server: &str, url: &str, complete_url: Option<&str>, _code: &str) {
        self.show_page("", complete_url.unwrap_or(url));
    }

    fn show_waiting(&self, _server: &str, _url: Option<&str>) {}

    fn pasted<'p>(&'p self) -> std::pin::Pin<Box<dyn Future<Output = String> + Send + 'p>> {
        Box::pin(std::future::pending())
    }
}
