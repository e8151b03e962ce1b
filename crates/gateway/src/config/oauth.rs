//! What a file says about signing in to a server (OAuth): our own block, and those of
//! Claude Code, Codex, Cursor, Gemini, Kiro and opencode.

use std::fs::File;
use std::io::{self, Read as _};

use switchboard_net::upstream::TokenInjection;
use switchboard_proto::auth::{
    GrantType, IdentityProvider, ProviderToken, ResourceParameter, Secret,
};

use super::entry::EntryDraft;
use super::key::{FileKey, find, key, names, nearest};
use super::schema::{
    ACCOUNT, FLAG, GRANT, IDENTITY_PROVIDER, IDENTITY_PROVIDER_KEYS, INJECT, OBJECT, PAIRS,
    PORT_NUMBER, TEXT, TEXT_OR_FALSE, URL, WORD_OR_WORDS,
};
use super::tree::{KeyValue, Value};

mod plan;

pub use plan::{AccountOwner, AccountScope, CallbackPlan, OauthPlan};

/// A key of the block.
type OauthKey = FileKey<fn(&mut EntryDraft<'_, '_>, KeyValue<'_>)>;

/// Every key of the block that some tool knows.
pub(super) const KEYS: &[OauthKey] = &[
    key(&["accountName"], TEXT, "Which of several accounts to use; any name will do.", |it, at| {
        it.plan.oauth.account_name = it.reader.text(at);
    }),
    key(
        &["allowPrivate"],
        WORD_OR_WORDS,
        "Hosts and networks inside that the server may send us to, such as 10.0.0.0/8.",
        |it, at| {
            let said = it.reader.one_or_more(at);
            it.plan.oauth.allow_private = said.into_iter().map(|said| said.value).collect();
        },
    ),
    key(
        &["account"],
        ACCOUNT,
        "Whose account the server is shown in a gateway with keys or tokens: each user's own, or one for all.",
        |it, at| {
            it.plan.oauth.account = match at.1.text() {
                Some("shared") => Some(AccountScope::Shared),
                Some("user") => Some(AccountScope::User),
                _ => it.reader.fail(at, " is neither", "write \"user\" or \"shared\""),
            }
        },
    ),
    key(
        &["assertionFile"],
        TEXT,
        "A file with the JWT of the platform, which is the grant.",
        |it, at| {
            if let Some(assertion) = secret_file(it, at) {
                it.plan.oauth.settings.grant = GrantType::Workload { assertion };
            }
        },
    ),
    key(
        &["assumePkce"],
        FLAG,
        "The authorization server supports PKCE, though it does not say so.",
        |it, at| it.plan.oauth.settings.assume_pkce = it.reader.flag(at).unwrap_or_default(),
    ),
    key(
        &["audience"],
        TEXT,
        "Whom a token exchange is for, where the identity provider wants more than the resource.",
        |it, at| it.plan.oauth.settings.audience = it.reader.text(at),
    ),
    key(
        &["authorizationUrl", "authorizationEndpoint"],
        URL,
        "The page to sign in at, in place of the one in the metadata.",
        |it, at| it.plan.oauth.settings.endpoints.authorization = it.reader.text(at),
    ),
    key(
        &["authorizeParams"],
        PAIRS,
        "More parameters of the page to sign in at, such as an audience.",
        |it, at| {
            let pairs = it.reader.pairs(at).into_iter().map(|(key, value)| (key.value, value));
            it.plan.oauth.settings.authorize_params = pairs.collect();
        },
    ),
    key(
        &["callbackHost"],
        TEXT,
        "The host of the redirect URI, 127.0.0.1 by default.",
        |it, at| {
            it.plan.oauth.callback.host = it.reader.text(at);
        },
    ),
    key(&["callbackPath"], TEXT, "The path of the redirect URI.", |it, at| {
        it.plan.oauth.callback.path = it.reader.text(at);
    }),
    key(
        &["callbackPort"],
        PORT_NUMBER,
        "The port of the redirect URI, one of the server's own by default.",
        |it, at| it.plan.oauth.callback.port = port(it, at),
    ),
    key(
        &["clientId", "CLIENT_ID"],
        TEXT,
        "The id that the authorization server knows us by.",
        |it, at| it.plan.oauth.settings.client_id = it.reader.text(at),
    ),
    key(&["clientMetadata"], OBJECT, "Members to add when we register.", |it, (key, node)| {
        let map = node.json().and_then(|json| json.as_object().cloned());
        let map = map.or_else(|| it.reader.wrong((key, node), "write an object"));
        it.plan.oauth.settings.client_metadata = map.unwrap_or_default();
    }),
    key(
        &["clientMetadataUrl"],
        URL,
        "A document that describes us. Its URL is our id where that is understood.",
        |it, at| it.plan.oauth.settings.client_metadata_url = it.reader.text(at),
    ),
    key(
        &["clientSecret", "CLIENT_SECRET"],
        TEXT,
        "The secret of the client id; write ${VARIABLE}.",
        |it, at| it.plan.oauth.settings.client_secret = it.reader.text(at).map(Secret::new),
    ),
    key(&["dpop"], FLAG, "Bind tokens to a key of ours.", |it, at| {
        it.plan.oauth.settings.dpop = it.reader.flag(at).unwrap_or_default();
    }),
    key(&["enabled"], FLAG, "Whether to sign in at all.", |it, at| {
        it.plan.oauth.is_wanted = it.reader.flag(at);
    }),
    key(&["grant"], GRANT, "How a token is got.", grant),
    key(
        &["identityProvider", "idp"],
        IDENTITY_PROVIDER,
        "The identity provider of the company, which is the grant.",
        identity_provider,
    ),
    key(
        &["inject"],
        INJECT,
        "The variable that a command finds its token in, or the name of a file with it.",
        inject,
    ),
    key(&["issuer"], TEXT, "The authorization server, which the client id is for.", |it, at| {
        it.plan.oauth.settings.issuer = it.reader.text(at);
    }),
    key(
        &["metadataUrl", "authServerMetadataUrl"],
        URL,
        "Where the metadata of the authorization server is.",
        |it, at| it.plan.oauth.settings.metadata_url = it.reader.text(at),
    ),
    key(
        &["privateKeyFile"],
        TEXT,
        "A PEM file with the private key that shows who we are, in place of a secret.",
        |it, at| it.plan.oauth.settings.private_key = secret_file(it, at),
    ),
    key(
        &["redirectUri", "callbackUrl", "callback_url"],
        TEXT,
        "Where people come back to, on this machine.",
        redirect,
    ),
    key(
        &["resource"],
        TEXT_OR_FALSE,
        "What tokens are for, or false for identity providers that refuse to be told.",
        resource,
    ),
    key(&["scopes", "scope", "oauthScopes"], WORD_OR_WORDS, "The scopes to ask for.", scopes),
    key(
        &["tokenUrl", "tokenEndpoint"],
        URL,
        "Where tokens are issued, in place of the URL in the metadata.",
        |it, at| it.plan.oauth.settings.endpoints.token = it.reader.text(at),
    ),
    key(
        &["trustedIssuer"],
        TEXT,
        "What the metadata of the authorization server may call itself beside its own name.",
        |it, at| it.plan.oauth.settings.trusted_issuer = it.reader.text(at),
    ),
    key(
        &["useIdToken"],
        FLAG,
        "Send the ID token in place of the access token. Few servers want that.",
        |it, at| it.plan.oauth.settings.use_id_token = it.reader.flag(at).unwrap_or_default(),
    ),
];

/// Keys that other tools have in their block, and that ask nothing of us.
const THEIRS: [&str; 5] = ["audiences", "mcpName", "registrationUrl", "tokenParamName", "xaa"];

/// Reads the block, or true or false.
pub(super) fn read(it: &mut EntryDraft<'_, '_>, (key, node): KeyValue<'_>) {
    if let Value::Bool(is_wanted) = node.value {
        it.plan.oauth.is_wanted = Some(is_wanted);
        return;
    }
    if key.value == "auth" && node.table().is_none() {
        // A word of Codex for servers of its own.
        return;
    }
    it.plan.oauth.is_wanted = Some(true);
    let instead = "write { \"clientId\": \"…\" }, or true or false";
    for (key, node) in it.reader.members((key, node), instead) {
        if let Some(known) = find(KEYS, &key.value) {
            (known.read)(it, (key, node));
        } else if !THEIRS.contains(&&*key.value) {
            let what = format!("unknown key {:?}", key.value);
            if let Some(meant) = nearest(&key.value, names(KEYS).into_iter()) {
                it.reader.error(&key.place, what, format!("write {meant:?}"));
            } else {
                let instead = "it is ignored; remove it or correct its name";
                it.reader.note(&key.place, what, instead);
            }
        }
    }
}

/// A list, or words with blanks between them.
pub(super) fn scopes(it: &mut EntryDraft<'_, '_>, (key, node): KeyValue<'_>) {
    let said = it.reader.one_or_more((key, node));
    let words = said.iter().flat_map(|said| said.value.split_ascii_whitespace());
    it.plan.oauth.settings.scopes = Some(words.map(ToOwned::to_owned).collect());
}

pub(super) fn resource(it: &mut EntryDraft<'_, '_>, (key, node): KeyValue<'_>) {
    let resource = match node.value {
        Value::Bool(false) => Some(ResourceParameter::LeftOut),
        _ => it.reader.text((key, node)).map(ResourceParameter::Given),
    };
    it.plan.oauth.settings.resource = resource.unwrap_or_default();
}

fn grant(it: &mut EntryDraft<'_, '_>, (key, node): KeyValue<'_>) {
    let grant = match node.text() {
        Some("authorization-code" | "authorization_code") => Some(GrantType::Code),
        Some("client-credentials" | "client_credentials") => Some(GrantType::ClientCredentials),
        Some("device-code" | "device_code") => Some(GrantType::Device),
        Some("token-exchange" | "token_exchange") => Some(GrantType::Exchange { subject: None }),
        // The identity provider says the rest, before or after.
        Some("enterprise") => return,
        _ => {
            let instead = "write \"authorization-code\", \"client-credentials\", \"device-code\", \
                           \"token-exchange\" or \"enterprise\"";
            it.reader.fail((key, node), " is no grant", instead)
        }
    };
    it.plan.oauth.settings.grant = grant.unwrap_or_default();
}

fn inject(it: &mut EntryDraft<'_, '_>, (key, node): KeyValue<'_>) {
    let instead = "write { \"env\": \"TOKEN\" } or { \"file\": \"TOKEN_FILE\" }";
    let mut found = Vec::new();
    for (key, node) in it.reader.members((key, node), instead) {
        let Some(name) = it.reader.text((key, node)) else { continue };
        found.push(match key.value.as_str() {
            "env" => TokenInjection::Env(name),
            "file" => TokenInjection::File(name),
            _ => {
                it.reader.unknown(key, &["env", "file"]);
                continue;
            }
        });
    }
    let is_name = |name: &str| !name.is_empty() && !name.contains(['=', '\0']);
    match &found[..] {
        [TokenInjection::Env(name) | TokenInjection::File(name)] if is_name(name) => {
            it.plan.oauth.inject = found.pop();
        }
        _ => _ = it.reader.fail::<()>((key, node), " is not one variable", instead),
    }
}

fn identity_provider(it: &mut EntryDraft<'_, '_>, (key, node): KeyValue<'_>) {
    let instead = "write { \"issuer\": \"…\", \"clientId\": \"…\", \"clientSecret\": \"…\" }, or \
                   \"tokenUrl\" and \"idTokenFile\" in place of \"issuer\"";
    let (mut issuer, mut token_endpoint, mut client_id, mut client_secret, mut id_token) =
        (None, None, None, None, None);
    for (key, node) in it.reader.members((key, node), instead) {
        let at = (key, node);
        match key.value.as_str() {
            "issuer" => issuer = it.reader.text(at),
            "tokenUrl" => token_endpoint = it.reader.text(at),
            "clientId" => client_id = it.reader.text(at),
            "clientSecret" => client_secret = it.reader.text(at).map(Secret::new),
            "idTokenFile" => id_token = secret_file(it, at),
            _ => {
                it.reader.unknown(key, &IDENTITY_PROVIDER_KEYS);
            }
        }
    }
    let provider = match (issuer, token_endpoint, client_id, id_token) {
        (Some(issuer), None, Some(client_id), None) => {
            IdentityProvider::SignIn { issuer, client_id, client_secret }
        }
        (None, Some(url), Some(client_id), Some(id_token)) => {
            let token = ProviderToken::given(url, client_id, client_secret, id_token);
            IdentityProvider::Token(Box::new(token))
        }
        _ => {
            it.reader.fail::<()>((key, node), " is not complete", instead);
            return;
        }
    };
    it.plan.oauth.settings.grant = GrantType::Enterprise(provider);
}

fn port(it: &mut EntryDraft<'_, '_>, (key, node): KeyValue<'_>) -> Option<u16> {
    let port = match &node.value {
        Value::Text(_) => it.reader.text((key, node))?.trim().parse().ok(),
        _ => node.number(),
    };
    let instead = "write a number from 1 to 65535";
    port.or_else(|| it.reader.fail((key, node), " is no port", instead))
}

/// `http://localhost:7778/oauth/callback`, or without the path or the scheme.
fn redirect(it: &mut EntryDraft<'_, '_>, (key, node): KeyValue<'_>) {
    let Some(text) = it.reader.text((key, node)) else { return };
    let rest = text.strip_prefix("http://").unwrap_or(&text);
    if rest.contains("://") {
        let what = format!("{:?} does not lead to this machine by http", key.value);
        let instead =
            "it is ignored; register a redirect URI such as http://127.0.0.1/oauth/callback";
        it.reader.note(&node.place, what, instead);
        return;
    }
    let (authority, path) = match rest.find('/') {
        Some(at) => (&rest[..at], Some(rest[at..].to_owned())),
        None => (rest, None),
    };
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
        _ => (authority, None),
    };
    let number = port.map(str::parse::<u16>).transpose();
    let (Ok(port), false) = (number, host.is_empty()) else {
        it.reader.fail::<()>((key, node), " is no address", "write http://127.0.0.1:PORT/PATH");
        return;
    };
    let plan = &mut it.plan.oauth.callback;
    plan.host = Some(host.to_owned());
    (plan.port, plan.path) = (port.or(plan.port), path.or(plan.path.take()));
}

/// Bytes of a file with a key or a token; more is something else.
const MAX_SECRET_FILE: u64 = 64 << 10;

/// What a file has, which is for nobody else.
fn secret_file(it: &mut EntryDraft<'_, '_>, (key, node): KeyValue<'_>) -> Option<Secret> {
    let path = it.reader.text((key, node))?;
    if it.reader.variables.around.is_literal {
        return Some(Secret::new(path));
    }
    let path = it.reader.path(path);
    it.reader.besides.push(path.clone());
    let mut text = String::new();
    let read = File::open(&path).and_then(|it| it.take(MAX_SECRET_FILE).read_to_string(&mut text));
    match read.and_then(|_| if text.trim().is_empty() { Err(empty()) } else { Ok(()) }) {
        Ok(()) => Some(Secret::new(text.trim())),
        Err(error) => {
            let what = format_args!(": cannot read {}: {error}", path.display());
            it.reader.fail((key, node), what, "name a file that can be read")
        }
    }
}

fn empty() -> io::Error {
    io::Error::other("it is empty")
}

#[cfg(test)]
mod tests;
