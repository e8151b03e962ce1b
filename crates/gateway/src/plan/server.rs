//! One server of a plan, and the secrets of a plan, which logs leave out.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderName;
use switchboard_net::bridge::Children;
use switchboard_net::http::fetch::{Fetch, ServerTls};
use switchboard_net::roster::ListKind;
use switchboard_net::secret::{LONG, SHORT, is_secret_name, words};
use switchboard_net::upstream::{Credential, ServerTarget, Target};

use super::Plan;
use crate::account::Accounts;
use crate::catalog;
use crate::config::{AccountOwner, Edit, OauthPlan};
use crate::credential::{CredentialSource, Credentials, may_pass};
use crate::glob::NameFilter;

/// How to reach a server, how to treat it, and what of it clients see.
#[derive(Clone, PartialEq)]
pub struct ServerPlan {
    /// What the file calls it.
    pub name: String,
    /// Where it is.
    pub target: Target,
    /// In words.
    pub description: Option<String>,
    /// Who shares a process, or a session, with whom.
    pub process: Children,
    /// How long it may take to start and to be greeted.
    pub start: Duration,
    /// How long a call may take; none for what the protocol's limits say.
    pub call: Option<Duration>,
    /// How long nobody uses it before it is put to sleep; none if it stays.
    pub idle: Option<Duration>,
    /// Calls it gets at once; further ones wait for their turn.
    pub calls: NonZeroUsize,
    /// Which of its tools clients see.
    pub tools: NameFilter,
    /// Which of its prompts clients see.
    pub prompts: NameFilter,
    /// Which of its resources clients see, by URI or template.
    pub resources: NameFilter,
    /// What clients see of a tool instead of what the server says, by its name there.
    pub tool_edits: BTreeMap<String, Edit>,
    /// The same for prompts.
    pub prompt_edits: BTreeMap<String, Edit>,
    /// What stands before the names of its tools and prompts in place of its
    /// own; empty for nothing.
    pub prefix: Option<String>,
    /// What else is sent with each request, beyond the headers of `target`.
    pub credentials: Credentials,
    /// How to sign in to it.
    pub oauth: OauthPlan,
    /// What is said about TLS with it.
    pub tls: ServerTls,
    /// Words that its file gives as defaults of variables: no secrets, whatever has them.
    pub default_words: Vec<String>,
    /// Variables in its entry, and what was filled in for them: they may be secret.
    pub filled_in: Vec<(String, String)>,
}

impl ServerPlan {
    /// How long a server may take to start: `npx` may have to download it first,
    /// and nobody waits for it.
    pub const START: Duration = Duration::from_mins(1);
    /// Calls a server gets at once: more than any that works alone can use.
    pub const CALLS: NonZeroUsize = NonZeroUsize::new(128).expect("128 is not 0");

    /// A server with nothing said about it but where it is.
    pub fn new(name: impl Into<String>, target: Target) -> Self {
        Self {
            name: name.into(),
            target,
            description: None,
            process: Children::default(),
            start: Self::START,
            call: None,
            idle: None,
            calls: Self::CALLS,
            tools: NameFilter::default(),
            prompts: NameFilter::default(),
            resources: NameFilter::default(),
            tool_edits: BTreeMap::new(),
            prompt_edits: BTreeMap::new(),
            prefix: None,
            credentials: Credentials::default(),
            oauth: OauthPlan::default(),
            tls: ServerTls::default(),
            default_words: Vec::new(),
            filled_in: Vec::new(),
        }
    }

    /// How its URL is reached: as by `plain`, with its own settings for TLS.
    pub fn fetch(&self, plain: &Fetch) -> Fetch {
        let Target::Url { url, .. } = &self.target else { return plain.clone() };
        plain.with_tls(url, &self.tls).unwrap_or_else(|error| {
            // Without its settings the server is trusted less, not more.
            tracing::error!(server = self.name, "the settings for TLS are not used: {error}");
            plain.clone()
        })
    }

    /// The server, to connect to. `environment` is ours, of which a command gets
    /// what it may have; `fetch` is how URLs are reached; `accounts` has the tokens of
    /// servers that want one.
    pub fn server(
        &self,
        environment: Vec<(OsString, OsString)>,
        fetch: Fetch,
        accounts: Option<&Accounts>,
    ) -> ServerTarget {
        let (url, strategy, headers) = match self.target.clone() {
            Target::Command(command) => {
                let server = ServerTarget::command(command, environment);
                let credential = accounts.and_then(|it| it.credential(self, None, fetch));
                return match (credential, self.oauth.inject.clone()) {
                    (Some(credential), Some(inject)) => server.injecting(credential, inject),
                    _ => server,
                };
            }
            Target::Url { url, strategy, headers } => (url, strategy, headers),
        };
        let fetch = self.fetch(&fetch);
        let server = ServerTarget::url(url, strategy, headers.clone(), fetch.clone());
        let own = (!self.credentials.is_static()).then(|| {
            let mut credentials = self.credentials.clone();
            credentials.pass.retain(may_pass);
            Arc::new(CredentialSource { credentials, headers, environment }) as Arc<dyn Credential>
        });
        let credential = match accounts {
            Some(accounts) => accounts.credential(self, own, fetch),
            None => own,
        };
        match credential {
            Some(credential) => server.showing(credential),
            None => server,
        }
    }

    /// Which of a kind clients see; templates by what is said of resources.
    pub fn filter(&self, kind: ListKind) -> &NameFilter {
        match kind {
            ListKind::Tools => &self.tools,
            ListKind::Prompts => &self.prompts,
            ListKind::Resources | ListKind::Templates => &self.resources,
        }
    }

    /// What `name` of it is called where servers are offered together.
    pub fn offered(&self, name: &str) -> String {
        match self.prefix.as_deref() {
            Some("") => catalog::bare_name(name),
            Some(prefix) => catalog::offered_name(prefix, name),
            None => catalog::offered_name(&self.name, name),
        }
    }

    /// What clients see of a kind instead of what the server says, by its name there.
    pub fn edits(&self, kind: ListKind) -> &BTreeMap<String, Edit> {
        match kind {
            ListKind::Tools => &self.tool_edits,
            ListKind::Prompts => &self.prompt_edits,
            ListKind::Resources | ListKind::Templates => const { &BTreeMap::new() },
        }
    }

    /// What it calls something of a kind that is offered under this name, if that can
    /// be told from the name: none if it is offered under another.
    pub fn meant(&self, kind: ListKind, offered: &str) -> Option<String> {
        let edits = self.edits(kind);
        let named = edits.iter().filter_map(|(own, edit)| Some((own, edit.name.as_deref()?)));
        if let Some((own, _)) = named.clone().find(|(_, name)| self.offered(name) == offered) {
            return Some(own.clone());
        }
        let prefix = self.prefix.as_deref().unwrap_or(&self.name);
        let name = match catalog::split_name(offered) {
            _ if prefix.is_empty() => offered,
            Some((server, name)) if server == prefix => name,
            _ => return None,
        };
        let is_away = named.into_iter().any(|(own, _)| own == name);
        (!is_away).then(|| name.to_owned())
    }

    /// Whether what it offers may be another thing for each client: each has a
    /// process of its own, or is known there by headers of its own.
    pub fn is_personal(&self) -> bool {
        let is_shared = matches!(self.process, Children::Shared | Children::PerRequest);
        !is_shared || !self.passes().is_empty() || self.has_accounts()
    }

    /// Whether it can tell people apart: each has a process of their own, or is
    /// known there by headers of their own.
    pub fn knows_people(&self) -> bool {
        self.process == Children::PerUser || !self.passes().is_empty() || self.has_accounts()
    }

    /// Whether each user is known there by a token of their own (OU-1, OX-6).
    pub fn has_accounts(&self) -> bool {
        matches!(self.oauth.owner, AccountOwner::EachUser | AccountOwner::Exchanged)
    }

    /// Whether each user signs in there.
    pub fn wants_sign_in(&self) -> bool {
        self.oauth.owner == AccountOwner::EachUser
    }

    /// Headers of clients that it is sent: a command is sent none, whatever its file says.
    pub fn passes(&self) -> &[HeaderName] {
        match &self.target {
            Target::Command(_) => &[],
            Target::Url { .. } => &self.credentials.pass,
        }
    }

    /// Whether a running server goes on under this plan as under `old`: only
    /// what clients see of it differs. How long a call may take is part of each
    /// connection.
    pub fn runs_as(&self, old: &Self) -> bool {
        self.name == old.name
            && self.target == old.target
            && self.process == old.process
            && self.credentials == old.credentials
            && self.oauth == old.oauth
            && self.tls == old.tls
            && self.call == old.call
    }
}

impl fmt::Debug for ServerPlan {
    /// Leaves out what may be a secret: arguments, values, the query of a URL.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = out.debug_struct("ServerPlan");
        shown.field("name", &self.name);
        match &self.target {
            Target::Command(command) => shown.field("command", command),
            Target::Url { url, .. } => shown.field("host", &url.host()).field("path", &url.path()),
        };
        shown.field("process", &self.process).finish_non_exhaustive()
    }
}

/// Something not to be told, and what stands in its place.
#[derive(Clone, Eq, Ord, PartialEq, PartialOrd)]
pub struct PlanSecret {
    /// The variable, header or flag that has it.
    pub name: String,
    /// What must not be told.
    pub value: String,
}

/// Secrets that are known of one plan: more than its servers need.
const MAX_SECRETS: usize = 4096;

impl PlanSecret {
    /// Values of variables, headers and arguments of the servers of these plans. The
    /// longest come first: one may be a part of another.
    pub fn collect(plans: &[&Plan]) -> Vec<Self> {
        let servers = plans.iter().flat_map(|plan| plan.servers.values());
        let tokens = plans.iter().filter_map(|plan| plan.access.tokens.as_ref());
        let facades = tokens.clone().filter_map(|it| it.facade.as_ref()?.client_secret.clone());
        let issuers = tokens.flat_map(|tokens| tokens.issuers.iter());
        let own = issuers.flat_map(|rule| {
            let asked = rule.introspect.as_ref().map(|it| it.client_secret.clone());
            let shown = rule.client_secret.as_ref().map(|it| it.reveal().to_owned());
            asked.into_iter().chain(shown)
        });
        // A shorter one would be found in every word of a log.
        let own = own.chain(facades).filter(|value| value.len() >= SHORT);
        let own = own.map(|value| Self { name: "clientSecret".to_owned(), value });
        let mut secrets: Vec<_> = servers.flat_map(ServerPlan::secrets).chain(own).collect();
        secrets.sort_by_key(|it| (std::cmp::Reverse(it.value.len()), it.value.clone()));
        secrets.dedup_by(|one, other| one.value == other.value);
        secrets.truncate(MAX_SECRETS);
        secrets
    }

    /// `text` with the name of each secret in its place: `${TOKEN}`.
    pub fn veil<'t>(text: &'t str, secrets: &[Self]) -> Cow<'t, str> {
        let mut text = Cow::Borrowed(text);
        for Self { name, value } in secrets {
            if text.contains(&**value) {
                text = Cow::Owned(without(&text, value, &format!("${{{name}}}")));
            }
        }
        text
    }
}

/// `text` with `name` in place of a secret. A short one is also a part of words that have nothing
/// to do with it: they stay.
fn without(text: &str, secret: &str, name: &str) -> String {
    let is_letter = |c: char| c.is_alphanumeric() || c == '_';
    let mut parts = text.split(secret);
    let mut veiled = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        // The letters of `\n`, `%3D` and `\u001b` are no word.
        let is_behind = match veiled.as_bytes() {
            [.., b'\\', _] | [.., b'%', _, _] | [.., b'\\', b'u', _, _, _, _] => false,
            _ => veiled.ends_with(is_letter),
        };
        let is_within = is_behind || part.starts_with(is_letter);
        veiled += if secret.len() < LONG && is_within { secret } else { name };
        veiled += part;
    }
    veiled
}

impl ServerPlan {
    fn secrets(&self) -> Vec<PlanSecret> {
        let mut found = Vec::new();
        // Adds a value that is `long` enough, or whose name tells that it is secret.
        let mut add = |name: &str, value: &str, long: usize| {
            let value = value.trim();
            if value.len() >= long || value.len() >= SHORT && is_secret_name(name) {
                found.push(PlanSecret { name: name.to_owned(), value: value.to_owned() });
            }
        };
        self.filled_in.iter().for_each(|(name, value)| add(name, value, LONG));
        match &self.target {
            Target::Command(command) => {
                for (name, value) in &command.env {
                    add(name, value, LONG);
                    // A key may have lines, of which only one is told.
                    value.lines().for_each(|line| add(name, line, LONG));
                }
                // `--token X`, `--token=X`, `TOKEN=X`: of arguments only what names
                // itself, and URLs that may have a password or a token.
                let mut before = "";
                for arg in &command.args {
                    if let Some((_, place)) = arg.split_once("://")
                        && place.contains(['?', '@'])
                    {
                        let user =
                            place.split(['/', '?']).next().and_then(|it| it.rsplit_once('@'));
                        let password = user.and_then(|(user, _)| user.split_once(':'));
                        add("password", password.map_or("", |(_, it)| it), SHORT);
                        add("url", arg, SHORT);
                    }
                    let pair = arg.split_once('=').filter(|(name, _)| is_secret_name(name));
                    let is_flag = before.starts_with('-') && !before.contains('=');
                    if let Some((name, value)) = pair {
                        add(name.trim_start_matches('-'), value, SHORT);
                    } else if is_flag && is_secret_name(before) {
                        add(before.trim_start_matches('-'), arg, SHORT);
                    }
                    before = arg;
                }
            }
            Target::Url { url, headers, .. } => {
                for (name, value) in headers {
                    let value = String::from_utf8_lossy(value.as_bytes());
                    words(name.as_str(), &value).for_each(|word| add(name.as_str(), word, SHORT));
                }
                for pair in url.query().unwrap_or_default().split('&') {
                    let (name, value) = pair.split_once('=').unwrap_or(("query", pair));
                    add(name, value, LONG);
                }
            }
        }
        if let Some(secret) = &self.oauth.settings.client_secret {
            add("clientSecret", secret.reveal(), SHORT);
        }
        found.retain(|secret| !self.default_words.contains(&secret.value));
        found
    }
}

impl fmt::Debug for PlanSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PlanSecret").field("name", &self.name).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use switchboard_proto::auth::Secret;

    use super::*;
    use crate::config::{Config, Surroundings};
    use crate::policy::Access;
    use crate::token::{FacadeRule, Introspection, IssuerRule, TokenAccess};

    #[test]
    fn what_servers_are_given_is_secret_unless_it_is_a_plain_word() {
        let around = Surroundings::new([("FILLED_IN".into(), "s3cret-variable".into())], "/");
        let file = r#"{"mcpServers": {
            "local": {
                "command": "run",
                "args": ["postgresql://u:s3cret-password@db/x", "https://h/x?y", "${FILLED_IN}", "--api-key", "s3cret-arg", "-e", "DB_PASSWORD=s3cret-pair", "--root", "/srv/files"],
                "env": {"TOKEN": "s3cret", "MODE": "server", "PIN_KEY": "12345",
                    "GH_TOKEN": "${GH_TOKEN_OF_NOBODY:-disabled}", "KEY": "${KEY_OF_NOBODY:-k3y-of-mine}", "LONG": "s3cret-long", "PEM": "-----x\nline-s3cret\n"}
            },
            "far": {
                "url": "https://example.com/mcp?t=s3cret-query",
                "headers": {"Authorization": "Bearer s3cret-header"},
                "oauth": {"clientSecret": "s3cret-client"}
            }
        }}"#;
        let config = Config::parse(Path::new("a.json"), file, &around).unwrap();
        let (plan, problems) = Plan::build(&[config]);
        assert_eq!(problems, []);
        let secrets = PlanSecret::collect(&[&plan]);
        let value = |value: &str| secrets.iter().find(|it| it.value == value).map(|it| &*it.name);
        for (secret, name) in [
            ("s3cret-variable", "FILLED_IN"),
            ("postgresql://u:s3cret-password@db/x", "url"),
            ("s3cret-password", "password"),
            ("https://h/x?y", "url"),
            ("s3cret-arg", "api-key"),
            ("s3cret-pair", "DB_PASSWORD"),
            ("s3cret", "TOKEN"),
            ("k3y-of-mine", "KEY"),
            ("s3cret-long", "LONG"),
            ("line-s3cret", "PEM"),
            ("s3cret-header", "authorization"),
            ("s3cret-query", "t"),
            ("s3cret-client", "clientSecret"),
        ] {
            assert_eq!(value(secret), Some(name), "{secret}");
        }
        for plain in ["server", "/srv/files", "-e", "Bearer", "12345", "disabled"] {
            assert_eq!(value(plain), None, "{plain}");
        }
        assert!(secrets.is_sorted_by_key(|it| std::cmp::Reverse(it.value.len())));
        assert!(!format!("{secrets:?}").contains("s3cr"));
    }

    #[test]
    fn a_secret_becomes_its_name_wherever_it_stands() {
        let secret =
            |name: &str, value: &str| PlanSecret { name: name.into(), value: value.into() };
        let secrets = [secret("LONG", "s3cret-s3cret"), secret("SHORT", "s3cret")];
        let veil = |text| PlanSecret::veil(text, &secrets);
        assert_eq!(veil("(s3cret) s3cret-s3cret."), "(${SHORT}) ${LONG}.");
        assert_eq!(veil("as3cret-s3cretb"), "a${LONG}b");
        assert!(matches!(PlanSecret::veil("plain", &secrets), Cow::Borrowed("plain")));
    }

    #[test]
    fn a_word_that_has_a_short_secret_in_it_stays() {
        let secrets = [PlanSecret { name: "PASSWORD".to_owned(), value: "secret".to_owned() }];
        let said = "the client_secret of u:secret@h, secrets, secret";
        let veiled = PlanSecret::veil(said, &secrets);
        assert_eq!(veiled, "the client_secret of u:${PASSWORD}@h, secrets, ${PASSWORD}");
        for before in [r"a\n", "a%3D", r"a\u001b"] {
            let veiled = PlanSecret::veil(&format!("{before}secret"), &secrets).into_owned();
            assert_eq!(veiled, format!("{before}${{PASSWORD}}"));
        }
    }

    #[test]
    fn a_short_secret_of_an_issuer_does_not_garble_logs() {
        let collect = |secret: &str| {
            let (client_id, client_secret) = ("gw".to_owned(), secret.to_owned());
            let introspect = Some(Introspection { client_id, client_secret });
            let client_secret = Some(Secret::new(secret));
            let rule = IssuerRule { introspect, client_secret, ..IssuerRule::default() };
            let client_secret = Some(secret.to_owned());
            let facade = Some(FacadeRule { client_secret, ..FacadeRule::default() });
            let tokens = TokenAccess { issuers: vec![rule], facade, ..TokenAccess::default() };
            let access = Access { tokens: Some(Arc::new(tokens)), ..Access::default() };
            PlanSecret::collect(&[&Plan { access, ..Plan::default() }])
        };
        assert_eq!(collect(""), []);
        assert_eq!(collect("none"), [], "a part of many words");
        let (name, value) = ("clientSecret".to_owned(), "abcdef".to_owned());
        assert_eq!(collect("abcdef"), [PlanSecret { name, value }], "each once");
    }
}
