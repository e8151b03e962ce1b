//! Checks of a server that wants a token: whether it says how to get one, by the rules.

use http::header::AUTHORIZATION;
use switchboard_net::auth::MetadataRead;
use switchboard_proto::auth::AuthError;

use super::transport::said;
use crate::doctor::Findings;
use crate::doctor::Severity::{Error, Note, Warning};
use crate::doctor::evidence::{Evidence, SignInEvidence};

/// A request on the way to a sign-in, and what came of it.
pub(in crate::doctor) struct SignInStep {
    pub(in crate::doctor) asked: String,
    pub(in crate::doctor) came: String,
    /// The rule that the answer breaks.
    pub(in crate::doctor) rule: Option<&'static str>,
}

/// All of them, the refused request first.
pub(in crate::doctor) fn steps(
    evidence: &SignInEvidence,
) -> impl Iterator<Item = SignInStep> + use<'_> {
    let challenges = match &*evidence.challenges {
        [] => "without WWW-Authenticate".to_owned(),
        challenges => challenges.join(", "),
    };
    let first = SignInStep {
        asked: evidence.refused.clone(),
        came: format!("401, {challenges}"),
        rule: evidence.challenge.is_none().then_some("OC-2"),
    };
    let documents = evidence.discovery.documents.iter();
    let last = evidence.discovery.documents.len().saturating_sub(1);
    let documents = documents.enumerate().map(move |(at, document)| {
        // A fault is found when the last document is read, or in what it says.
        let fault = evidence.discovery.faults.first().filter(|_| at == last);
        let missing = (at == 0 && is_dead_link(evidence)).then_some("OC-3");
        let rule = fault.map(|fault| name_fault(evidence, fault).rule).filter(|it| !it.is_empty());
        SignInStep {
            asked: format!("GET {}", document.url),
            came: answer(document),
            rule: missing.or(rule),
        }
    });
    std::iter::once(first).chain(documents)
}

/// What came for a document, in a few words.
fn answer(document: &MetadataRead) -> String {
    match (&document.outcome, document.object()) {
        (Err(why), _) => why.clone(),
        (Ok(response), None) if response.status == 200 => "200, but no JSON object".to_owned(),
        (Ok(response), None) => response.status.to_string(),
        (Ok(_), Some(members)) => {
            let wanted = ["resource", "authorization_servers", "issuer"];
            let said = wanted.iter().filter_map(|name| {
                Some(format!("{name} {}", members.get(*name)?).chars().take(120).collect())
            });
            std::iter::once("200".to_owned()).chain(said).collect::<Vec<_>>().join(", ")
        }
    }
}

/// Whether the challenge names metadata that are not there.
fn is_dead_link(evidence: &SignInEvidence) -> bool {
    let is_named = evidence.challenge.as_ref().is_some_and(|it| it.resource_metadata.is_some());
    let first = evidence.discovery.documents.first();
    is_named && first.is_some_and(|first| first.object().is_none())
}

pub(super) fn says_how_to_sign_in(evidence: &Evidence, found: &mut Findings) {
    let Some((_, facts)) = evidence.unauthorized() else { return };
    let said = said(facts);
    if evidence.showed_token {
        let what = format!("the server does not take the token that it was shown{said}");
        let remedy = format!("get another: switchboard login {}", evidence.called);
        found.add(Error, "http.401", "AUTH-1", what, remedy);
    }
    let Some(sign_in) = &evidence.sign_in else {
        if !evidence.showed_token {
            let what =
                format!("the server wants a token{said}, and its file says that it has none");
            let remedy = format!("send one: --header '{AUTHORIZATION}: Bearer ${{TOKEN}}'");
            found.add(Error, "http.401", "AUTH-1", what, remedy);
        }
        return;
    };
    let count = found.list.len();
    finds_its_metadata(sign_in, &said, found);
    for fault in &sign_in.discovery.faults {
        let NamedFault { id, rule, what, remedy } = name_fault(sign_in, fault);
        found.add(Error, id, rule, what, remedy);
    }
    if found.list.len() == count || found.list[count..].iter().all(|it| it.severity != Error) {
        let issuer = sign_in.discovery.source.as_ref().map(|source| &source.issuer);
        let of = issuer.map(|issuer| format!(" of {issuer}")).unwrap_or_default();
        let what = format!("the server wants a token{of}, and says how to get one{said}");
        let remedy = format!("run switchboard login {}, then look again", evidence.called);
        if !evidence.showed_token {
            found.add(Error, "http.401", "AUTH-1", what, remedy);
        }
    }
}

/// Whether there are documents that say who issues tokens, and where clients look for them.
fn finds_its_metadata(evidence: &SignInEvidence, said: &str, found: &mut Findings) {
    let documents = &evidence.discovery.documents;
    let has_any = documents.iter().any(|document| document.object().is_some());
    let challenge = "WWW-Authenticate: Bearer resource_metadata=\"https://…\"";
    let is_told = |url: &str| {
        evidence.discovery.faults.iter().any(|fault| match fault {
            AuthError::BadAnswer { url: at, .. } | AuthError::Unreachable { url: at, .. } => {
                at == url
            }
            _ => false,
        })
    };
    if is_dead_link(evidence) {
        if let Some(first) = documents.first().filter(|first| !is_told(&first.url)) {
            let what = format!(
                "the server says that its metadata are at {}, and there is no document there ({})",
                first.url,
                answer(first)
            );
            let remedy = "serve the JSON document of RFC 9728 there, without a token, or name its \
                          right address in WWW-Authenticate; a proxy may not pass /.well-known on";
            found.add(Error, "oauth.dead-link", "OC-3", what, remedy);
        }
        return;
    }
    let severity = if has_any || !evidence.discovery.faults.is_empty() { Warning } else { Error };
    let header = "if you have a token, send it: --header 'Authorization: Bearer ${TOKEN}'";
    if evidence.challenge.is_none() {
        let what =
            format!("the server wants a token{said}, and its 401 does not say how to get one");
        let remedy =
            format!("{header}. To let clients sign in, the server has to send {challenge}");
        found.add(severity, "oauth.no-challenge", "OC-2", what, remedy);
    } else if severity == Error {
        let places = documents.iter().map(|document| document.url.as_str()).collect::<Vec<_>>();
        let what = format!(
            "the server wants a token{said}, and nobody says who issues them: there is no document \
             at {}",
            places.join(", ")
        );
        let remedy = format!(
            "{header}. To let clients sign in, the server has to serve the JSON document of RFC 9728 \
             at the first of these, and to send {challenge}"
        );
        found.add(Error, "oauth.no-metadata", "OC-3", what, remedy);
    }
    if has_any
        && !documents.iter().any(|it| it.object().is_some_and(|it| it.contains_key("resource")))
    {
        let what = "the server has no metadata of its own, as it was in the revision 2025-03-26";
        let remedy = "serve the JSON document of RFC 9728 too: newer clients look for it alone";
        found.add(Note, "oauth.old", "OC-9", what, remedy);
    }
}

/// A fault that ends a sign-in, for people.
struct NamedFault {
    id: &'static str,
    rule: &'static str,
    what: String,
    remedy: String,
}

fn name_fault(evidence: &SignInEvidence, fault: &AuthError) -> NamedFault {
    let named = |id, rule, what: String, remedy: &str| NamedFault {
        id,
        rule,
        what,
        remedy: remedy.to_owned(),
    };
    let told = fault.to_string();
    match fault {
        AuthError::BadAnswer { url, .. } | AuthError::Unreachable { url, .. } => {
            let link = evidence.challenge.as_ref().and_then(|it| it.resource_metadata.as_ref());
            let is_resource =
                link == Some(url) || url.contains("/.well-known/oauth-protected-resource");
            let places = evidence.discovery.documents.iter().filter(|it| it.object().is_none());
            let places: Vec<_> = places.map(|it| it.url.as_str()).collect();
            if is_resource {
                let remedy = "answer with the JSON document of RFC 9728, or with 404 if there is \
                              none; look into the log of the server, or of the proxy in front";
                named("oauth.resource-metadata", "OC-3", told, remedy)
            } else {
                let what = format!("{told}; asked for at {}", places.join(", "));
                let remedy = "the authorization server has to serve its metadata (RFC 8414) at the \
                              first of these; if the server names the wrong one, correct its \
                              authorization_servers";
                named("oauth.server-metadata", "OC-6", what, remedy)
            }
        }
        AuthError::OtherResource { .. } => {
            let remedy = "the server has to say its own public URL as resource; behind a proxy it \
                          has to be told that URL. Clients stop here, so that a token does not go \
                          to somebody else";
            named("oauth.resource", "OC-4", told, remedy)
        }
        AuthError::NoIssuer => {
            let remedy = "the server has to list one in authorization_servers of its metadata";
            named("oauth.no-issuer", "OC-5", told, remedy)
        }
        AuthError::BadIssuer { .. } => {
            let remedy = "the server has to list another in authorization_servers";
            named("oauth.bad-issuer", "OC-6", told, remedy)
        }
        AuthError::OtherIssuer { asked, found } => {
            let what = format!("the metadata of {asked} say that they are those of {found:?}");
            let remedy = "issuer in the metadata and the name in authorization_servers have to be \
                          the same, byte for byte; if you know both to be the same, set \
                          oauth.trustedIssuer to what the metadata say";
            named("oauth.issuer", "OC-7", what, remedy)
        }
        AuthError::NoPkce { issuer } => {
            let what = format!("{issuer} does not announce PKCE with S256");
            let remedy = "list S256 in code_challenge_methods_supported; if you know that it has \
                          it, set oauth.assumePkce";
            named("oauth.pkce", "OC-8", what, remedy)
        }
        AuthError::BadEndpoint { .. } => {
            let remedy = "endpoints have to be https URLs, or http on this machine; nothing else is \
                          opened or sent to";
            named("oauth.endpoint", "OC-11", told, remedy)
        }
        AuthError::NoEndpoint { .. } => {
            let remedy = "the metadata of the authorization server have to name it";
            named("oauth.no-endpoint", "OC-6", told, remedy)
        }
        AuthError::NotRegistered { issuer, redirect } => {
            let what = format!("{issuer} registers no clients by itself, and none is configured");
            let remedy = format!(
                "register one there with the redirect URI {redirect}, and set \
                                  oauth.clientId of the server in its file, or --oauth-client-id"
            );
            named("oauth.registration", "OC-20", what, &remedy)
        }
        AuthError::OtherClientIssuer { .. } => {
            let remedy = "set oauth.issuer and oauth.clientId to those of the new one";
            named("oauth.client-issuer", "OC-24", told, remedy)
        }
        _ => named("oauth.failed", "", told, "correct oauth of the server in its file"),
    }
}
