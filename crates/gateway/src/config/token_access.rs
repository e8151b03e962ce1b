//! What a file says about access tokens: `oauth` in the section `switchboard`.

use http::Uri;
use switchboard_net::auth::bounded::is_safe_url;
use switchboard_proto::auth::Secret;

use super::gateway::{OBJECT, PRINCIPAL_KEYS, ReadInto, is_plain, read_members};
use super::key::{FileKey, find, key, names};
use super::reader::Reader;
use super::schema::{
    CLAIMS, FACADE, FLAG, GRANTED, INTROSPECT, ISSUERS, MISSING_SCOPE, PAIRS, SCOPES, TEXT, URL,
    WORDS,
};
use super::tree::{KeyValue, Node, Value};
use crate::policy::Principal;
use crate::token::{FacadeRule, Introspection, IssuerRule, ScopeRule, TokenAccess};

/// The keys of `oauth`.
pub(super) const KEYS: &[FileKey<ReadInto<TokenAccess>>] = &[
    key(
        &["facade"],
        FACADE,
        "An authorization server of the gateway's own, before an issuer that clients cannot register with.",
        |it, reader, at| {
            let mut rule = FacadeRule::default();
            read_members(FACADE_KEYS, &mut rule, reader, at);
            if rule.issuer.is_empty() || rule.client_id.is_empty() {
                let instead = "write { \"issuer\": \"NAME\", \"clientId\": \"…\" }";
                reader.fail::<()>(at, " needs an issuer and our id there", instead);
            }
            it.facade = Some(rule);
        },
    ),
    key(
        &["issuers"],
        ISSUERS,
        "Authorization servers whose access tokens are accepted, by a name for each.",
        |it, reader, at| it.issuers = issuers(reader, at),
    ),
    key(
        &["missingScope"],
        MISSING_SCOPE,
        "What clients see of a tool that takes another scope: list it and ask for the scope, or hide it.",
        |it, reader, at| match reader.text(at).as_deref() {
            Some("list") | None => it.hides = false,
            Some("hide") => it.hides = true,
            Some(_) => _ = reader.fail::<()>(at, " is neither", "write \"list\" or \"hide\""),
        },
    ),
    key(&["scopes"], SCOPES, "What each scope of a token lets a client use.", |it, reader, at| {
        it.scopes = scopes(reader, at);
    }),
];

/// The keys of an issuer.
pub(super) const ISSUER_KEYS: &[FileKey<ReadInto<IssuerRule>>] = &[
    key(
        &["audiences"],
        WORDS,
        "Audiences of tokens that are accepted besides the URLs of the gateway.",
        |it, reader, at| it.audiences = reader.words(at).unwrap_or_default(),
    ),
    key(
        &["claims"],
        CLAIMS,
        "What users may use, by the values of a claim such as groups.",
        |it, reader, at| {
            for (claim, node) in reader.members(at, OBJECT) {
                let mut values = std::collections::BTreeMap::new();
                for (value, node) in reader.members((claim, node), OBJECT) {
                    let mut principal = Principal::default();
                    grant(&mut principal, reader, (value, node));
                    values.insert(value.value.clone(), principal.grant);
                }
                it.claims.insert(claim.value.clone(), values);
            }
        },
    ),
    key(
        &["clientId"],
        TEXT,
        "Our id there, for users who connect accounts of theirs at servers: they sign in to show who they are.",
        |it, reader, at| it.client_id = reader.text(at),
    ),
    key(&["clientSecret"], TEXT, "Our secret there, from a variable: ${VAR}.", |it, reader, at| {
        it.client_secret = reader.text(at).map(Secret::new);
    }),
    key(&["grant"], GRANTED, "What its users may use at most, and how often.", |it, reader, at| {
        let mut principal = Principal::default();
        read_members(PRINCIPAL_KEYS, &mut principal, reader, at);
        if !principal.keys.is_empty() {
            let what = "users with tokens have no key".to_owned();
            reader.error(&at.1.place, what, "leave the key out");
        }
        it.grant = Some(principal);
    }),
    key(
        &["introspect"],
        INTROSPECT,
        "Our id and secret at its introspection endpoint, for tokens that are no JWT.",
        |it, reader, at| {
            let mut introspect = Introspection::default();
            read_members(INTROSPECT_KEYS, &mut introspect, reader, at);
            if introspect.client_id.is_empty() || introspect.client_secret.is_empty() {
                let instead = "write { \"clientId\": \"…\", \"clientSecret\": \"${VAR}\" }";
                reader.fail::<()>(at, " needs an id and a secret", instead);
            }
            it.introspect = Some(introspect);
        },
    ),
    key(&["issuer"], URL, "Its identifier: iss of its tokens.", |it, reader, at| {
        it.issuer = url(reader, at).unwrap_or_default();
    }),
    key(&["jwksUri"], URL, "Where its keys are, if its metadata do not tell.", |it, reader, at| {
        it.jwks_uri = url(reader, at);
    }),
    key(
        &["requireAtJwt"],
        FLAG,
        "Whether a token must be of the type at+jwt (RFC 9068).",
        |it, reader, at| it.is_typed = reader.flag(at).unwrap_or(false),
    ),
];

/// The keys of `facade`.
pub(super) const FACADE_KEYS: &[FileKey<ReadInto<FacadeRule>>] = &[
    key(
        &["allowedRedirects"],
        WORDS,
        "Where clients may have people sent back to: URLs with *. Anywhere that is safe, if it is not said.",
        |it, reader, at| it.allowed_redirects = reader.words(at).unwrap_or_default(),
    ),
    key(
        &["authorizeParams"],
        PAIRS,
        "More parameters of the request to the issuer.",
        |it, reader, at| {
            let pairs = reader.pairs(at).into_iter().map(|(name, value)| (name.value, value));
            it.authorize_params = pairs.collect();
        },
    ),
    key(&["clientId"], TEXT, "Our id at the issuer.", |it, reader, at| {
        it.client_id = reader.text(at).unwrap_or_default();
    }),
    key(&["clientSecret"], TEXT, "Our secret there, from a variable: ${VAR}.", |it, reader, at| {
        note_secret(reader, at);
        it.client_secret = reader.text(at).filter(|secret| !secret.is_empty());
    }),
    key(&["issuer"], TEXT, "The issuer where people sign in, by its name.", |it, reader, at| {
        it.issuer = reader.text(at).unwrap_or_default();
    }),
    key(
        &["metadataHosts"],
        WORDS,
        "Hosts of client metadata documents, with *. Any public host, if it is not said.",
        |it, reader, at| it.metadata_hosts = reader.words(at).unwrap_or_default(),
    ),
    key(&["registration"], FLAG, "Whether clients may register themselves.", |it, reader, at| {
        it.registration = reader.flag(at).unwrap_or(true);
    }),
    key(&["scopes"], WORDS, "Scopes to ask the issuer for, beside openid.", |it, reader, at| {
        it.scopes = reader.words(at).unwrap_or_default();
    }),
    key(
        &["sendResource"],
        FLAG,
        "Whether the issuer is told what the tokens are for (RFC 8707).",
        |it, reader, at| it.send_resource = reader.flag(at).unwrap_or(false),
    ),
];

/// The keys of `introspect`.
pub(super) const INTROSPECT_KEYS: &[FileKey<ReadInto<Introspection>>] = &[
    key(&["clientId"], TEXT, "Our id at the issuer.", |it, reader, at| {
        it.client_id = reader.text(at).unwrap_or_default();
    }),
    key(&["clientSecret"], TEXT, "Our secret, from a variable: ${VAR}.", |it, reader, at| {
        note_secret(reader, at);
        it.client_secret = reader.text(at).unwrap_or_default();
    }),
];

fn note_secret(reader: &mut Reader<'_>, at: KeyValue<'_>) {
    if at.1.text().is_some_and(|text| !text.contains("${")) {
        let what = "\"clientSecret\" is in the file for everybody to read";
        reader.note(&at.1.place, what, "write \"${VAR}\"");
    }
}

/// The keys of a scope that are not those of a grant.
pub(super) const SCOPE_KEYS: &[FileKey<ReadInto<ScopeRule>>] =
    &[key(&["implies"], WORDS, "Scopes that it contains.", |it, reader, at| {
        it.implies = reader.words(at).unwrap_or_default();
    })];

/// The keys of a principal that say what may be used.
pub(super) const GRANT_NAMES: [&str; 4] = ["excludeTools", "groups", "includeTools", "servers"];

/// Reads one member of a grant; whether it is one.
fn grant_member(principal: &mut Principal, reader: &mut Reader<'_>, at: KeyValue<'_>) -> bool {
    let known = find(PRINCIPAL_KEYS, &at.0.value);
    let known = known.filter(|known| GRANT_NAMES.contains(&known.names[0]));
    known.inspect(|known| (known.read)(principal, reader, at)).is_some()
}

fn grant(principal: &mut Principal, reader: &mut Reader<'_>, at: KeyValue<'_>) {
    for (key, node) in reader.members(at, OBJECT) {
        if !grant_member(principal, reader, (key, node)) {
            reader.unknown(key, &GRANT_NAMES);
        }
    }
}

/// An address of an issuer, or of us.
pub(super) fn url(reader: &mut Reader<'_>, at: KeyValue<'_>) -> Option<String> {
    let text = reader.text(at)?;
    let is_safe = text.parse().is_ok_and(|url: Uri| is_safe_url(&url) && url.query().is_none());
    let instead = "write an https URL without ? and #; http is for this machine";
    let is_right = is_safe && !text.contains('#');
    is_right.then_some(text).or_else(|| reader.fail(at, " is no such URL", instead))
}

/// Reads `oauth`.
pub(super) fn read(reader: &mut Reader<'_>, at: KeyValue<'_>) -> TokenAccess {
    let mut access = TokenAccess::default();
    read_members(KEYS, &mut access, reader, at);
    for rule in &access.issuers {
        // Everything for everybody whom an issuer knows must be meant.
        if rule.grant.is_none() && rule.claims.is_empty() && access.scopes.is_empty() {
            let what = format!("issuer {:?} grants nothing", rule.name);
            reader.error(
                &at.1.place,
                what,
                "add \"grant\": {} for everything, or \"claims\", or \"scopes\"",
            );
        }
    }
    if let Some(facade) = &access.facade
        && access.issuer(&facade.issuer).is_none()
    {
        let what = format!("the facade is for the issuer {:?}, which is not there", facade.issuer);
        reader.error(&at.1.place, what, "add it to \"issuers\"");
    }
    access
}

fn issuers(reader: &mut Reader<'_>, at: KeyValue<'_>) -> Vec<IssuerRule> {
    let mut rules: Vec<IssuerRule> = Vec::new();
    for (name, node) in reader.members(at, OBJECT) {
        let before = reader.problems.len();
        let mut rule = IssuerRule { name: name.value.clone(), ..IssuerRule::default() };
        read_members(ISSUER_KEYS, &mut rule, reader, (name, node));
        if !is_plain(&name.value) {
            let what = format!("{:?} is no name for an issuer", name.value);
            reader.error(&name.place, what, "use letters, digits, _, - and .");
        }
        if rule.issuer.is_empty() && reader.problems.len() == before {
            let what = format!("issuer {:?} has no URL", name.value);
            reader.error(&name.place, what, "add \"issuer\": \"https://…\"");
        }
        let is_same = |other: &IssuerRule| other.name == rule.name || other.issuer == rule.issuer;
        if rules.iter().any(is_same) {
            let what = format!("issuer {:?} is there twice", name.value);
            reader.error(&name.place, what, "give each its own name and URL");
            continue;
        }
        rules.push(rule);
    }
    rules
}

fn scopes(
    reader: &mut Reader<'_>,
    at: KeyValue<'_>,
) -> std::collections::BTreeMap<String, ScopeRule> {
    let mut scopes = std::collections::BTreeMap::new();
    let members = reader.members(at, OBJECT);
    let is_known = |scope: &String| members.iter().any(|(name, _)| name.value == *scope);
    for (name, node) in members {
        let mut rule = ScopeRule::default();
        read_scope(&mut rule, reader, (name, node));
        let is_token = |c: char| c.is_ascii_graphic() && c != '"' && c != '\\';
        if name.value.is_empty() || !name.value.chars().all(is_token) {
            let what = format!("{:?} is no scope", name.value);
            reader.error(&name.place, what, "use visible letters without quotes and blanks");
        }
        if let Some(unknown) = rule.implies.iter().find(|scope| !is_known(scope)) {
            let what = format!("there is no scope {unknown:?}");
            reader.error(&name.place, what, "add it to \"scopes\"");
        }
        scopes.insert(name.value.clone(), rule);
    }
    scopes
}

fn read_scope(rule: &mut ScopeRule, reader: &mut Reader<'_>, at: (&super::tree::MemberKey, &Node)) {
    let mut principal = Principal::default();
    if !matches!(at.1.value, Value::Table(_)) {
        reader.wrong::<()>(at, OBJECT);
    }
    for (key, node) in at.1.table().unwrap_or_default() {
        if grant_member(&mut principal, reader, (key, node)) {
            continue;
        }
        match find(SCOPE_KEYS, &key.value) {
            Some(known) => (known.read)(rule, reader, (key, node)),
            None => reader.unknown(key, &[&GRANT_NAMES[..], &names(SCOPE_KEYS)].concat()),
        }
    }
    rule.grant = principal.grant;
}
