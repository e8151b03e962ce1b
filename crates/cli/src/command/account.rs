//! `login`, `logout`, `whoami` and `auth`: the credentials of the user.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use http::Request;
use http::header::{ACCEPT, CONTENT_TYPE, WWW_AUTHENTICATE};
use serde_json::{Value, json};
use switchboard_net::auth::store::{RecordId, RecordKind, RecordStore as _, StoreError};
use switchboard_net::auth::{Account, Authorizer};
use switchboard_net::http::fetch::{Fetch, ServerTls};
use switchboard_net::upstream::Target;
use switchboard_proto::auth::{AuthError, AuthMethod, Challenge, TokenRecord};
use switchboard_proto::moment;

use super::client::{interrupted, other, until, usage};
use crate::args::{
    AccountArgs, AuthCommand, CommandArgs, LoginArgs, LoginChoice, NetworkArgs, OauthArgs,
    RemoteArgs, SignInServer, SignInSource, StoreArgs,
};
use crate::exit::{CommandError, CommandResult, ExitStatus};
use crate::output::table;
use crate::sign_in::{self, AskUser, UserStore};
use crate::signal::StopSignal;
use crate::target::{self, NamedServer};

mod mcp_remote_import;

/// Signs in, and says as whom.
pub(super) async fn login(args: &LoginArgs) -> CommandResult {
    if let Some(SignInSource::McpRemote) = args.import {
        return mcp_remote_import::run(args).await;
    }
    let stop = StopSignal::on_signals().map_err(other)?;
    let found = find(&args.server)?;
    let fetch = fetch(&found, &args.server)?;
    let asking = AskUser { login: LoginChoice::Wait, owns_stdin: true };
    let authorizer = sign_in::authorizer(&found, &args.oauth, asking, fetch.clone());
    let authorizer = authorizer.map_err(usage)?;
    let account = sign_in::account(&found, &args.oauth.credentials, None).map_err(usage)?;
    let signing_in = async {
        let challenge = read_challenge(&found, &fetch).await;
        authorizer.sign_in_by_hand(challenge).await
    };
    let ended = until(&stop, signing_in).await.ok_or_else(interrupted)?;
    let record = ended.map_err(refused)?;
    let about = describe(&account, &record);
    args.server.output.show(&about, |about| format!("signed in\n{}", lines(about)));
    Ok(())
}

/// What the server asks for, if it says so without a token.
pub(super) async fn read_challenge(found: &NamedServer, fetch: &Fetch) -> Option<Challenge> {
    let Target::Url { url, headers, .. } = found.server.target() else { return None };
    let body = r#"{"jsonrpc":"2.0","id":0,"method":"ping"}"#;
    let mut request = Request::post(url.clone()).body(Bytes::from_static(body.as_bytes())).ok()?;
    *request.headers_mut() = headers.clone();
    for (name, value) in
        [(ACCEPT, "application/json, text/event-stream"), (CONTENT_TYPE, "application/json")]
    {
        request.headers_mut().insert(name, http::HeaderValue::from_static(value));
    }
    let answer = tokio::time::timeout(Duration::from_secs(10), fetch.send_once(request)).await;
    let answer = answer.ok()?.ok().filter(|answer| answer.status() == 401)?;
    let values = answer.headers().get_all(WWW_AUTHENTICATE).iter();
    Challenge::find(values.filter_map(|value| value.to_str().ok()))
}

/// Has the tokens taken back, and forgets them.
pub(super) async fn logout(args: &AccountArgs) -> CommandResult {
    let (_, authorizer) = open(args).await?;
    if !authorizer.sign_out().await.map_err(refused)? {
        return Err(nobody());
    }
    args.server.output.show(&json!({"signedOut": true}), |_| "signed out".to_owned());
    Ok(())
}

/// Says who is signed in.
pub(super) async fn whoami(args: &AccountArgs) -> CommandResult {
    let (account, authorizer) = open(args).await?;
    let record = authorizer.tokens().await.map_err(refused)?.ok_or_else(nobody)?;
    args.server.output.show(&describe(&account, &record), lines);
    Ok(())
}

/// `auth list`, `auth show` and `auth forget`.
pub(super) async fn run(command: &AuthCommand) -> CommandResult {
    match command {
        AuthCommand::List { output, store } => {
            let all = list(store).await.map_err(other)?;
            output.show(&Value::Array(all), |all| {
                let rows = all.as_array().into_iter().flatten().map(row).collect::<Vec<_>>();
                let head = "SERVER  ACCOUNT  USER  ISSUER  CLIENT  UNTIL";
                table(head, &rows, "no credentials are kept")
            });
        }
        AuthCommand::Show(args) => {
            let (account, authorizer) = open(args).await?;
            let record = authorizer.tokens().await.map_err(refused)?.ok_or_else(nobody)?;
            let mut about = describe(&account, &record);
            let source = &record.source;
            let method = source.client.auth_method.map(AuthMethod::name);
            let more = json!({
                "clientAuthentication": method,
                "clientIsRegistered": source.client.is_dynamic,
                "redirectUris": source.client.redirect_uris,
                "tokenEndpoint": source.token_endpoint,
                "resource": source.resource,
                "scopesAsked": source.scopes,
                "issuedAt": time(record.issued_at),
                "isBoundToKey": source.dpop_key.is_some(),
            });
            if let (Some(about), Value::Object(more)) = (about.as_object_mut(), more) {
                about.extend(more);
            }
            args.server.output.show(&about, lines);
        }
        AuthCommand::Forget(args) => {
            let is_forgotten = forget(args, &account_of(args)?).await.map_err(other)?;
            if !is_forgotten {
                return Err(nobody());
            }
            args.server.output.show(&json!({"forgotten": true}), |_| "forgotten".to_owned());
        }
    }
    Ok(())
}

/// Every account that tokens are kept for.
async fn list(args: &StoreArgs) -> Result<Vec<Value>, StoreError> {
    let store = UserStore::new(args);
    let mut all = Vec::new();
    for name in store.list(RecordKind::Tokens).await? {
        let Some(account) = Account::from_name(&name) else { continue };
        let content = store.read(&RecordId { kind: RecordKind::Tokens, name }).await?;
        let record = content.and_then(|content| serde_json::from_slice(&content).ok());
        all.extend(record.map(|record| describe(&account, &record)));
    }
    Ok(all)
}

fn row(about: &Value) -> Vec<String> {
    let text = |name: &str| about[name].as_str().unwrap_or("-").to_owned();
    let texts = ["server", "account", "principal", "issuer", "clientId"].map(text);
    texts.into_iter().chain([until_when(about)]).collect()
}

/// Removes the tokens of an account, what waits for it, and how we are registered for it. Of a
/// client that is named, its tokens alone.
async fn forget(args: &AccountArgs, account: &Account) -> Result<bool, StoreError> {
    let store = UserStore::new(&args.credentials.store);
    let client = args.client_id.as_deref();
    let mut records = Vec::new();
    for kind in [RecordKind::Tokens, RecordKind::Pending] {
        let found = find_kept(&store, kind, account).await?;
        let found = found.iter().filter(|it| client.is_none() || client_of(it) == client);
        records.extend(found.map(|found| found.record(kind)));
    }
    for name in store.list(RecordKind::Registration).await? {
        // All users of a gateway share one.
        let is_meant = account.principal.is_none() && client.is_none();
        let of = name.split_once('\n').filter(|_| is_meant);
        if of.is_some_and(|(_, server)| server == account.server) {
            records.push(RecordId { kind: RecordKind::Registration, name });
        }
    }
    let mut is_there = false;
    for record in &records {
        if store.read(record).await?.is_none() {
            continue;
        }
        is_there = true;
        // A process that signs in has its lock for as long as a person takes. It is let go on.
        if record.kind != RecordKind::Pending {
            store.lock(record).await?.remove().await?;
        } else if let Some(mut lock) = store.try_lock(record).await? {
            lock.remove().await?;
        }
    }
    Ok(is_there)
}

/// The accounts that something is kept of, however somebody or something has signed in there.
async fn find_kept(
    store: &UserStore,
    kind: RecordKind,
    account: &Account,
) -> Result<Vec<Account>, StoreError> {
    let names = store.list(kind).await?;
    let found = names.iter().filter_map(|name| Account::from_name(name));
    let is_meant =
        |it: &Account| Account { grant: account.grant.clone(), ..it.clone() } == *account;
    Ok(found.filter(is_meant).collect())
}

/// The server that the user named.
fn find(args: &SignInServer) -> CommandResult<NamedServer> {
    let remote = RemoteArgs { tls: args.tls.clone(), ..RemoteArgs::default() };
    let (network, local) = (NetworkArgs::default(), CommandArgs::default());
    let target = args.target.as_deref().unwrap_or_default();
    target::remote(target, &args.config, &remote, &network, &local).map_err(usage)
}

/// What reaches the server and who issues its tokens.
fn fetch(found: &NamedServer, args: &SignInServer) -> CommandResult<Fetch> {
    if let Some(fetch) = found.server.fetch() {
        return Ok(fetch.clone());
    }
    // A command is at no URL: what is trusted holds for whoever issues its token.
    let fetch = target::fetch(&NetworkArgs::default()).map_err(usage)?;
    let nowhere = http::Uri::default();
    target::with_tls(&fetch, &nowhere, ServerTls::default(), &args.tls).map_err(usage)
}

fn account_of(args: &AccountArgs) -> CommandResult<Account> {
    let principal = args.principal.as_deref();
    sign_in::account(&find(&args.server)?, &args.credentials, principal).map_err(usage)
}

/// An account at which nobody is asked to sign in: the one that the file names, or the only one
/// that is kept, if flags said at the sign-in who it is.
async fn open(args: &AccountArgs) -> CommandResult<(Account, Authorizer)> {
    let found = find(&args.server)?;
    let principal = args.principal.as_deref();
    let mut account = sign_in::account(&found, &args.credentials, principal).map_err(usage)?;
    let store = UserStore::new(&args.credentials.store);
    let mut kept = find_kept(&store, RecordKind::Tokens, &account).await.map_err(other)?;
    kept.retain(|it| args.client_id.is_none() || client_of(it) == args.client_id.as_deref());
    // The account that a file names is no other, though another is kept.
    let is_named = account.grant.is_some() || kept.contains(&account);
    if args.client_id.is_some() || !is_named {
        account = match &kept[..] {
            [only] => only.clone(),
            [] if args.client_id.is_none() => account,
            [] => return Err(nobody()),
            several => return Err(unclear(several)),
        };
    }
    let oauth = OauthArgs { credentials: args.credentials.clone(), ..OauthArgs::default() };
    let asking = AskUser { login: LoginChoice::Never, owns_stdin: false };
    let fetch = fetch(&found, &args.server)?;
    let authorizer = sign_in::authorizer_of(account.clone(), &found, &oauth, asking, fetch);
    Ok((account, authorizer.map_err(usage)?))
}

/// The client of an account at which no person has signed in.
fn client_of(account: &Account) -> Option<&str> {
    account.grant.as_deref()?.split(' ').nth(1)
}

/// The error for several clients of which one is meant.
fn unclear(several: &[Account]) -> CommandError {
    let grants: Vec<_> = several.iter().filter_map(|it| it.grant.as_deref()).collect();
    let text = format!("several clients are signed in there: {}", grants.join(", "));
    let one = several.iter().find_map(client_of).unwrap_or_default();
    let failure = CommandError::new(text).hint(format!("name one of them: --client-id {one}"));
    usage(failure.hint("or name a server of a file whose \"oauth\" is that of one"))
}

/// What may be told of tokens: not the tokens.
fn describe(account: &Account, record: &TokenRecord) -> Value {
    let who = record.id_claims().unwrap_or_default();
    let name = ["preferred_username", "email", "name"].iter().find_map(|name| who[*name].as_str());
    json!({
        "server": account.server,
        "account": account.account,
        "principal": account.principal,
        "issuer": record.source.issuer,
        "clientId": Some(&record.source.client.client_id).filter(|id| !id.is_empty()),
        "user": name.or(who["sub"].as_str()),
        "subject": who["sub"].as_str(),
        "scopes": record.granted,
        "expiresAt": record.expires_at.map(time),
        "isExpired": record.is_over(now()),
        "isRenewable": record.refresh_token.is_some(),
    })
}

/// The same in lines: a name, and what it is.
fn lines(about: &Value) -> String {
    let text = |value: &Value| match value {
        Value::String(text) => Some(text.clone()),
        Value::Bool(true) => Some("yes".to_owned()),
        Value::Array(words) => {
            let words: Vec<_> = words.iter().filter_map(Value::as_str).collect();
            Some(words.join(" ")).filter(|words| !words.is_empty())
        }
        _ => None,
    };
    let mut shown = String::new();
    for (label, name) in [
        ("server", "server"),
        ("account", "account"),
        ("of user", "principal"),
        ("user", "user"),
        ("subject", "subject"),
        ("issuer", "issuer"),
        ("scopes", "scopes"),
        ("asked for", "scopesAsked"),
        ("client id", "clientId"),
        ("shown by", "clientAuthentication"),
        ("redirect", "redirectUris"),
        ("tokens at", "tokenEndpoint"),
        ("resource", "resource"),
        ("issued", "issuedAt"),
        ("bound to key", "isBoundToKey"),
    ] {
        if let Some(text) = text(&about[name]) {
            shown.push_str(&crate::output::plain(&format!("{label:13} {text}\n")));
        }
    }
    format!("{shown}{:13} {}", "until", until_when(about))
}

/// How long the tokens last, in words.
fn until_when(about: &Value) -> String {
    let end = about["expiresAt"].as_str();
    match (end, about["isExpired"] == true, about["isRenewable"] == true) {
        (_, true, true) => "renewed at the next call".to_owned(),
        (Some(end), true, false) => format!("over since {end}; sign in again"),
        (Some(end), false, true) => format!("{end}, then renewed"),
        (Some(end), false, false) => end.to_owned(),
        (None, ..) => "refused".to_owned(),
    }
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// Unix seconds as RFC 3339 has it.
fn time(seconds: u64) -> String {
    let at = UNIX_EPOCH.checked_add(Duration::from_secs(seconds)).unwrap_or(UNIX_EPOCH);
    moment::text(at).replace(".000Z", "Z")
}

fn nobody() -> CommandError {
    CommandError::new("nobody is signed in there")
        .hint("sign in with: switchboard login TARGET")
        .hint("see who is: switchboard auth list")
        .for_scripts(ExitStatus::Auth, "auth")
}

#[expect(clippy::needless_pass_by_value, reason = "it is handed to `map_err`")]
pub(super) fn refused(error: AuthError) -> CommandError {
    let failure = CommandError::new(error.to_string());
    match error {
        AuthError::Unreachable { .. } | AuthError::BadAnswer { .. } => {
            failure.for_scripts(ExitStatus::Unreachable, "unreachable")
        }
        AuthError::Local(_) | AuthError::Settings(_) | AuthError::BadUrl { .. } => {
            failure.for_scripts(ExitStatus::Failure, "other")
        }
        _ => failure.for_scripts(ExitStatus::Auth, "auth"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_the_calendar() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_767_225_599, "2025-12-31T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(time(seconds), text);
        }
    }
}
