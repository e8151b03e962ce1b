//! `login --import mcp-remote`: takes over tokens that mcp-remote has kept, so that nobody has
//! to sign in again. Its files do not say whose they are, so servers are looked up by the
//! hash of their URL: the one that the user named, or those in the files of their clients.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use switchboard_gateway::config::{Config, known};
use switchboard_net::auth::Account;
use switchboard_net::auth::mcp_remote::{self, Imported, server_url_hash};
use switchboard_net::auth::store::{Plaintext, RecordKind, RecordStore as _};
use switchboard_net::stdio::child::Command;
use switchboard_net::upstream::Target;
use switchboard_proto::auth::{AuthMethod, Registration, Secret, TokenRecord, TokenSource};

use super::super::client::{other, usage};
use crate::args::LoginArgs;
use crate::exit::{CommandResult, cannot, wrong};
use crate::output::plain;
use crate::sign_in::UserStore;
use crate::target::{surroundings, variable};

/// A server that the user has, and what else mcp-remote was told about it.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
struct KnownServer {
    url: String,
    resource: Option<String>,
}

impl KnownServer {
    /// The hash that mcp-remote has for it.
    fn hash(&self) -> String {
        let parts: Vec<_> =
            [Some(&self.url), self.resource.as_ref()].into_iter().flatten().collect();
        server_url_hash(&parts.iter().map(|part| part.as_str()).collect::<Vec<_>>())
    }
}

/// Takes over what fits, and says of each server what came of it.
pub(super) async fn run(args: &LoginArgs) -> CommandResult {
    let folder = folder().map_err(usage)?;
    let read = mcp_remote::read(&folder);
    let hint = "sign in with: switchboard login TARGET";
    let kept = read.map_err(cannot("read", &folder, hint)).map_err(other)?;
    let mut kept: BTreeMap<_, _> =
        kept.into_iter().map(|it| (it.server_url_hash.clone(), it)).collect();
    let store = UserStore::new(&args.oauth.credentials.store);
    let mut rows = Vec::new();
    for server in servers(args).map_err(usage)? {
        let Some(found) = kept.remove(&server.hash()) else { continue };
        let url = server.url.parse().map_err(other)?;
        let account = args.oauth.credentials.account.clone();
        let account = Account { account, ..Account::of(&url) };
        let outcome = take_over(&store, &account, &found).await?;
        rows.push(json!({"server": account.server, "outcome": outcome}));
    }
    if rows.is_empty() && args.server.target.is_some() {
        let error = format!("mcp-remote has kept nothing for this server in {}", folder.display());
        return wrong(error, hint).map_err(other);
    }
    let result = json!({"servers": rows, "unknown": kept.len()});
    args.server.output.show(&result, text);
    Ok(())
}

/// Where mcp-remote keeps it.
fn folder() -> CommandResult<PathBuf> {
    let named = |name| variable(name).filter(|path| !path.is_empty()).map(PathBuf::from);
    let folder = named("MCP_REMOTE_CONFIG_DIR").or_else(|| Some(named("HOME")?.join(".mcp-auth")));
    match folder {
        Some(folder) => Ok(folder),
        None => wrong("there is no home folder", "set MCP_REMOTE_CONFIG_DIR"),
    }
}

/// The server that the user named, or all in their files.
fn servers(args: &LoginArgs) -> CommandResult<Vec<KnownServer>> {
    if let Some(url) = args.server.target.as_ref().filter(|target| target.contains("://")) {
        return Ok(vec![KnownServer { url: url.clone(), resource: None }]);
    }
    let around = surroundings()?;
    let usual = || known(&around).into_iter().map(|(_, file)| file).collect();
    let files = if args.server.config.is_empty() { usual() } else { args.server.config.clone() };
    let configs = files.iter().filter_map(|file| Config::read(file, &around).ok());
    let entries = configs.flat_map(|config| config.servers);
    let name = args.server.target.as_ref();
    let meant = entries.filter(|entry| name.is_none_or(|name| *name == entry.plan.name));
    let mut servers: Vec<_> = meant.filter_map(|entry| known_server(&entry.plan.target)).collect();
    servers.sort_unstable();
    servers.dedup();
    Ok(servers)
}

/// The server behind an entry: its URL, or that of the mcp-remote which it starts.
fn known_server(target: &Target) -> Option<KnownServer> {
    let Command { program, args, .. } = match target {
        Target::Url { url, .. } => {
            return Some(KnownServer { url: Account::of(url).server, resource: None });
        }
        Target::Command(command) => command,
    };
    let words: Vec<_> = std::iter::once(program).chain(args).map(String::as_str).collect();
    let tool = words.iter().position(|word| {
        let name = word.rsplit('/').next().unwrap_or_default();
        name == "mcp-remote" || name.starts_with("mcp-remote@")
    })?;
    let words = &words[tool + 1..];
    let url = words.iter().find(|word| word.contains("://"))?;
    let resource = words.iter().position(|word| *word == "--resource").map(|at| words.get(at + 1));
    let resource = resource.flatten().map(|word| (*word).to_owned());
    Some(KnownServer { url: (*url).to_owned(), resource })
}

/// Keeps what mcp-remote had, unless there is something newer; what came of it.
async fn take_over(
    store: &UserStore,
    account: &Account,
    found: &Imported,
) -> CommandResult<&'static str> {
    let Some(record) = record(found) else { return Ok("unusable") };
    let id = account.record(RecordKind::Tokens);
    let mut lock = store.lock(&id).await.map_err(other)?;
    let ours = lock.read().await.map_err(other)?;
    let ours = ours.and_then(|ours| serde_json::from_slice::<TokenRecord>(&ours).ok());
    if let Some(ours) = ours.filter(|ours| ours.issued_at >= record.issued_at) {
        let is_theirs = ours.access_token == record.access_token;
        return Ok(if is_theirs { "already taken over" } else { "ours is newer" });
    }
    let content = serde_json::to_vec(&record).map_err(other)?;
    lock.write(&Plaintext::new(content)).await.map_err(other)?;
    Ok("taken over")
}

/// Tokens as we keep them. Where they are renewed is found out when it is needed.
fn record(found: &Imported) -> Option<TokenRecord> {
    let (tokens, client) = (found.tokens.as_ref()?, found.client_info.as_ref());
    let is_bearer = tokens.token_type.as_ref().is_none_or(|it| it.eq_ignore_ascii_case("bearer"));
    let ends = tokens.ends.map(seconds);
    let is_over = ends.is_some_and(|end| end <= seconds(SystemTime::now()));
    if !is_bearer || is_over && tokens.refresh_token.is_none() {
        return None;
    }
    let issuer = tokens.issuer.clone().or_else(|| client?.issuer.clone()).unwrap_or_default();
    let secret = |text: &str| Secret::new(text);
    let scopes = |scopes: &Option<String>| {
        scopes.iter().flat_map(|it| it.split_ascii_whitespace()).map(ToOwned::to_owned).collect()
    };
    let registration = client.map(|client| Registration {
        private_key: None,
        issuer: issuer.clone(),
        client_id: client.client_id.clone(),
        client_secret: client.client_secret.as_ref().map(|text| secret(text)),
        secret_expires_at: client.client_secret_expires_at.filter(|end| *end != 0),
        auth_method: client.token_endpoint_auth_method.as_deref().and_then(AuthMethod::from_name),
        redirect_uris: client.redirect_uris.clone(),
        is_dynamic: true,
        is_in_doubt: false,
    });
    let asked =
        if tokens.requested_scope.is_some() { &tokens.requested_scope } else { &tokens.scope };
    Some(TokenRecord {
        source: TokenSource {
            issuer,
            client: registration.unwrap_or_default(),
            scopes: scopes(asked),
            ..TokenSource::default()
        },
        access_token: secret(&tokens.access_token),
        refresh_token: tokens.refresh_token.as_ref().map(|text| secret(text)),
        id_token: None,
        granted: scopes(&tokens.scope),
        issued_at: seconds(found.written),
        expires_at: ends,
    })
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

fn text(result: &Value) -> String {
    let rows = result["servers"].as_array().into_iter().flatten();
    let mut lines: Vec<_> = rows
        .map(|row| {
            let part = |name: &str| row[name].as_str().unwrap_or_default();
            plain(&format!("{}: {}", part("server"), part("outcome")))
        })
        .collect();
    if lines.is_empty() {
        lines.push("nothing was taken over".to_owned());
    }
    if let Some(unknown) = result["unknown"].as_u64().filter(|count| *count > 0) {
        lines.push(format!(
            "{unknown} more are of servers that no file names: switchboard login URL --import mcp-remote"
        ));
    }
    lines.join("\n")
}
