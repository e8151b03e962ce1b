//! Signing in as files and flags say it: settings, store and person of an account.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;
use http::header::AUTHORIZATION;
use serde_json::{Map, Value};
use switchboard_gateway::account::{Accounts, account_of};
use switchboard_gateway::config::OauthPlan;
use switchboard_net::auth::person::Nobody;
use switchboard_net::auth::store::{
    FileStore, Pending, Plaintext, RecordId, RecordKind, RecordLock, RecordStore, StoreError,
};
use switchboard_net::auth::{
    Account, Authorizer, LoginMode, OauthCredential, ReachPolicy, SignInOptions,
};
use switchboard_net::http::fetch::Fetch;
use switchboard_net::upstream::{ServerTarget, Target};
use switchboard_proto::auth::{GrantType, OauthSettings, ResourceParameter, Secret};
use tokio::sync::OnceCell;

use crate::args::{CredentialArgs, LoginChoice, OauthArgs, StoreArgs};
use crate::exit::{CommandResult, cannot, wrong};
use crate::person::TerminalUser;
use crate::target::{NamedServer, variable};
use crate::{header, store};

/// Where people come back to, unless somebody says otherwise.
const CALLBACK_PATH: &str = "/oauth/callback";

/// How people are asked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AskUser {
    pub(crate) login: LoginChoice,
    /// Nobody else reads stdin.
    pub(crate) owns_stdin: bool,
}

/// The server with the token of its account, and that account, where it wants one.
pub(crate) fn with_tokens(
    found: &NamedServer,
    args: &OauthArgs,
    asking: AskUser,
) -> CommandResult<(ServerTarget, Option<Authorizer>)> {
    let server = found.server.clone();
    let (Some(headers), Some(fetch)) = (shown_beside(found), server.fetch().cloned()) else {
        return Ok((server, None));
    };
    let authorizer = authorizer(found, args, asking, fetch)?;
    let credential = OauthCredential::new(authorizer.clone(), headers);
    Ok((server.showing(Arc::new(credential)), Some(authorizer)))
}

/// The headers that a server is shown beside a token; none if it is to be shown no token.
pub(crate) fn shown_beside(found: &NamedServer) -> Option<HeaderMap> {
    let Target::Url { headers, .. } = found.server.target() else { return None };
    let wanted = found.oauth.is_wanted;
    // Who sends a token of their own wants no other.
    let has_own = headers.contains_key(AUTHORIZATION) && wanted.is_none();
    (wanted != Some(false) && !has_own).then(|| headers.clone())
}

/// The accounts of the user who runs a gateway: for all its clients, and signed in to by
/// `switchboard login`. A gateway asks nobody.
pub(crate) fn shared_accounts(args: &CredentialArgs) -> Accounts {
    let reach = ReachPolicy { is_strict: true, ..ReachPolicy::default() };
    let options = SignInOptions::default().mode(LoginMode::Never).reach(reach);
    let store = Arc::new(UserStore::new(&args.store));
    Accounts::new(store, Arc::new(Nobody), options, args.account.clone())
}

/// The account that files and flags name.
pub(crate) fn authorizer(
    found: &NamedServer,
    args: &OauthArgs,
    asking: AskUser,
    fetch: Fetch,
) -> CommandResult<Authorizer> {
    let account = account(found, &args.credentials, None)?;
    let account = account.signing_in_by(&settings(&found.oauth, args)?);
    authorizer_of(account, found, args, asking, fetch)
}

/// The same for this account, whoever has signed in there.
pub(crate) fn authorizer_of(
    account: Account,
    found: &NamedServer,
    args: &OauthArgs,
    asking: AskUser,
    fetch: Fetch,
) -> CommandResult<Authorizer> {
    let settings = settings(&found.oauth, args)?;
    if settings.use_id_token {
        tracing::warn!(
            "the ID token is sent in place of the access token: it is not meant for servers, and tells them who you are"
        );
    }
    let options = options(&found.oauth, args, asking.login);
    let store = Arc::new(UserStore::new(&args.credentials.store));
    let person = Arc::new(TerminalUser::new(!args.no_browser, asking.owns_stdin));
    Ok(Authorizer::new(account, settings, store, fetch, person, options))
}

/// Whose tokens are meant.
pub(crate) fn account(
    found: &NamedServer,
    args: &CredentialArgs,
    principal: Option<&str>,
) -> CommandResult<Account> {
    let Some(named) = account_of(found.server.target(), &found.oauth, principal) else {
        let hint = "a command gets its credentials from its environment: \"env\" in its file";
        return wrong("only servers at a URL can be signed in to", hint);
    };
    Ok(Account { account: args.account.clone().or(named.account), ..named })
}

/// What the file says, and what the flags say on top of it.
fn settings(plan: &OauthPlan, args: &OauthArgs) -> CommandResult<OauthSettings> {
    let mut settings = plan.settings.clone();
    let text = |text: &Option<String>| text.as_deref().map(header::filled).transpose();
    if let Some(info) = read_json(args.oauth_client_info.as_deref(), "--oauth-client-info")? {
        let Some(id) = info.get("client_id").and_then(Value::as_str) else {
            let hint = "write { \"client_id\": \"…\", \"client_secret\": \"…\" }";
            return wrong("--oauth-client-info has no client_id", hint);
        };
        settings.client_id = Some(id.to_owned());
        settings.client_secret = info.get("client_secret").and_then(Value::as_str).map(Secret::new);
    }
    let flag = "--oauth-client-metadata";
    if let Some(metadata) = read_json(args.oauth_client_metadata.as_deref(), flag)? {
        let scope = metadata.get("scope").and_then(Value::as_str).map(split);
        settings.scopes = scope.or(settings.scopes);
        settings.client_metadata.extend(metadata);
    }
    settings.client_id = text(&args.oauth_client_id)?.or(settings.client_id);
    let secret = text(&args.oauth_client_secret)?.map(Secret::new);
    settings.client_secret = secret.or(settings.client_secret);
    if !args.oauth_scope.is_empty() {
        settings.scopes = Some(split(&args.oauth_scope.join(" ")));
    }
    match args.oauth_resource.as_deref() {
        None => {}
        Some("false") => settings.resource = ResourceParameter::LeftOut,
        Some(given) => settings.resource = ResourceParameter::Given(given.to_owned()),
    }
    settings.authorize_params.extend_from_slice(&args.authorize_param);
    let client_metadata_url = args.client_metadata_url.clone();
    settings.client_metadata_url = client_metadata_url.or(settings.client_metadata_url);
    settings.endpoints.token = args.token_endpoint.clone().or(settings.endpoints.token);
    settings.use_id_token |= args.use_id_token;
    if args.device_code {
        settings.grant = GrantType::Device;
    } else if args.client_credentials {
        settings.grant = GrantType::ClientCredentials;
    }
    let is_client = settings.grant == GrantType::ClientCredentials;
    let has_secret = settings.client_secret.is_some() || settings.private_key.is_some();
    if is_client && !(settings.client_id.is_some() && has_secret) {
        let hint = "add --oauth-client-id ID --oauth-client-secret '${SECRET}'";
        return wrong("signing in as a client needs a client id and its secret", hint);
    }
    Ok(settings)
}

fn split(scopes: &str) -> Vec<String> {
    scopes.split_ascii_whitespace().map(ToOwned::to_owned).collect()
}

/// An object as JSON, or `@FILE` that has one. Errors do not repeat it.
fn read_json(text: Option<&str>, flag: &str) -> CommandResult<Option<Map<String, Value>>> {
    let Some(text) = text else { return Ok(None) };
    let text = match text.strip_prefix('@') {
        Some(file) => {
            let file = Path::new(file);
            std::fs::read_to_string(file).map_err(cannot("read", file, "name a file with JSON"))?
        }
        None => header::filled(text)?,
    };
    match serde_json::from_str(&text) {
        Ok(Value::Object(map)) => Ok(Some(map)),
        _ => wrong(format!("{flag} is no object of JSON"), "write JSON, or @FILE"),
    }
}

fn options(plan: &OauthPlan, args: &OauthArgs, login: LoginChoice) -> SignInOptions {
    let defaults = SignInOptions::default();
    let (said, callback) = (|text: &Option<String>| text.clone(), &plan.callback);
    let path = said(&args.callback_path).or_else(|| callback.path.clone());
    let host = said(&args.callback_host).or_else(|| callback.host.clone());
    let host = host.unwrap_or_else(|| defaults.callback_host.clone());
    let wait = args.auth_timeout.map_or(defaults.wait, Duration::from_secs);
    defaults
        .callback_host(host)
        .callback_port(args.callback_port.or(callback.port))
        .callback_path(path.unwrap_or_else(|| CALLBACK_PATH.to_owned()))
        .success_url(args.auth_success_url.clone())
        .wait(wait)
        .reach(ReachPolicy { allowed: plan.allow_private.clone(), ..ReachPolicy::default() })
        .mode(match login {
            LoginChoice::Wait => LoginMode::Wait,
            LoginChoice::Defer => LoginMode::Defer,
            LoginChoice::Never => LoginMode::Never,
        })
}

/// The user's store, which is opened when something is to be found in it. So those who
/// never sign in have no folder, and no question from their keyring.
#[derive(Debug)]
pub(crate) struct UserStore {
    args: StoreArgs,
    opened: OnceCell<FileStore>,
}

impl UserStore {
    pub(crate) fn new(args: &StoreArgs) -> Self {
        Self { args: args.clone(), opened: OnceCell::new() }
    }

    async fn open(&self) -> Result<&FileStore, StoreError> {
        let StoreArgs { store: dir, store_key_file } = self.args.clone();
        let opening = || async {
            let opening =
                tokio::task::spawn_blocking(move || store::open(dir, store_key_file, &variable));
            opening.await.unwrap_or(Err(StoreError::Stopped))
        };
        self.opened.get_or_try_init(opening).await
    }

    /// The store, if there is one.
    async fn find(&self) -> Result<Option<&FileStore>, StoreError> {
        let place = store::place(self.args.store.clone(), &variable);
        if place.is_some_and(|place| place.is_dir()) {
            self.open().await.map(Some)
        } else {
            Ok(None)
        }
    }
}

impl RecordStore for UserStore {
    fn read<'s>(&'s self, record: &'s RecordId) -> Pending<'s, Option<Plaintext>> {
        Box::pin(async move {
            match self.find().await? {
                Some(store) => store.read(record).await,
                None => Ok(None),
            }
        })
    }

    fn lock<'s>(&'s self, record: &'s RecordId) -> Pending<'s, Box<dyn RecordLock>> {
        Box::pin(async move { self.open().await?.lock(record).await })
    }

    fn try_lock<'s>(&'s self, record: &'s RecordId) -> Pending<'s, Option<Box<dyn RecordLock>>> {
        Box::pin(async move { self.open().await?.try_lock(record).await })
    }

    fn list(&self, kind: RecordKind) -> Pending<'_, Vec<String>> {
        Box::pin(async move {
            match self.find().await? {
                Some(store) => store.list(kind).await,
                None => Ok(Vec::new()),
            }
        })
    }
}

#[cfg(test)]
mod tests;
