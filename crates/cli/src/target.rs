//! The server that the user named: a command, a URL, or a name in a configuration file.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

use http::{HeaderMap, Uri};
use switchboard_gateway::config::{
    Config, Entry, GatewaySection, OauthPlan, Problem, ReadError, ServerOptions, Surroundings,
    Weight, known, nearby, nearest,
};
use switchboard_gateway::plan::ServerPlan;
use switchboard_net::http::fetch::{Fetch, FetchOptions, ProxySettings, ServerTls};
use switchboard_net::http::tls::TlsIdentity;
use switchboard_net::stdio::child::Command;
use switchboard_net::upstream::{ServerTarget, Strategy, Target};

use crate::args::{CommandArgs, NetworkArgs, RemoteArgs, TlsArgs};
use crate::exit::{CommandError, CommandResult, cannot, wrong};
use crate::header;
use crate::store::KEY_VARIABLE;

/// A server that was named, and has not been called yet.
pub(crate) struct NamedServer {
    pub(crate) server: ServerTarget,
    /// What its file says about it.
    pub(crate) options: ServerOptions,
    /// What its file says about signing in.
    pub(crate) oauth: OauthPlan,
}

impl NamedServer {
    fn command(command: Command) -> Self {
        let server = ServerTarget::command(command, environment());
        Self { server, options: ServerOptions::default(), oauth: OauthPlan::default() }
    }

    /// The server, after checking what can be checked before it is called.
    pub(crate) fn checked(&self) -> CommandResult<ServerTarget> {
        if let Target::Command(command) = self.server.target() {
            let hint = || format!("try it by itself first: {} --help", command.program);
            let runs = command.check(&environment());
            runs.map_err(|error| CommandError::of(&error).hint(hint()))?;
        }
        Ok(self.server.clone())
    }
}

/// Our environment, for the servers we start: without the key to the user's credentials.
pub(crate) fn environment() -> Vec<(OsString, OsString)> {
    std::env::vars_os().filter(|(name, _)| name != KEY_VARIABLE).collect()
}

/// A server by its command.
pub(crate) fn local(
    line: Option<&str>,
    words: &[String],
    args: &CommandArgs,
) -> CommandResult<NamedServer> {
    Ok(NamedServer::command(command(line, words, args)?))
}

/// A server by its URL, or by its name in a configuration file.
pub(crate) fn remote(
    text: &str,
    files: &[PathBuf],
    args: &RemoteArgs,
    network: &NetworkArgs,
    local: &CommandArgs,
) -> CommandResult<NamedServer> {
    let (mut plan, options) = if text.contains("://") {
        let (strategy, headers) = (Strategy::default(), HeaderMap::new());
        let target = Target::Url { url: url(text)?, strategy, headers };
        (ServerPlan::new(text, target), ServerOptions::default())
    } else {
        let entry = find_named(text, files)?;
        (entry.plan, entry.options)
    };
    if let (Target::Url { strategy, .. }, Some(wanted)) = (&mut plan.target, args.transport) {
        *strategy = wanted;
    }
    let oauth = plan.oauth.clone();
    Ok(NamedServer { server: with_options(plan, args, network, local)?, options, oauth })
}

/// The server with what the options add to it.
fn with_options(
    plan: ServerPlan,
    args: &RemoteArgs,
    network: &NetworkArgs,
    local: &CommandArgs,
) -> CommandResult<ServerTarget> {
    let (url, strategy, given) = match plan.target {
        Target::Command(command) => {
            return Ok(ServerTarget::command(with_args(command, local), environment()));
        }
        Target::Url { url, strategy, headers } => (url, strategy, headers),
    };
    // Headers of a configuration, the stronger ones of files, the strongest of the line.
    let mut said = Vec::new();
    for file in &network.header_file {
        said.extend(header::lines_of(file)?);
    }
    said.extend_from_slice(&args.header);
    let headers = header::merge(given, &said, variable)?;
    let fetch = with_tls(&fetch(network)?, &url, plan.tls, &args.tls)?;
    Ok(ServerTarget::url(url, strategy, headers, fetch))
}

/// The HTTP client for a server. `said` is what its file says about TLS; flags come on top of it.
pub(crate) fn with_tls(
    fetch: &Fetch,
    url: &Uri,
    said: ServerTls,
    args: &TlsArgs,
) -> CommandResult<Fetch> {
    let mut tls = said;
    let look = |file: &Path| format!("look into {}", file.display());
    if let Some(file) = &args.ca_file {
        let hint = "--ca-file wants a file with certificates in PEM form";
        let pem = std::fs::read(file).map_err(cannot("read", file, hint))?;
        let trusting = tls.trust_pem(&pem);
        tls = trusting.map_err(|error| CommandError::of(&error).hint(look(file)))?;
    }
    if let Some(file) = &args.client_cert {
        let hint = "--client-cert and --client-key want files in PEM form";
        let key_file = args.client_key.as_ref().unwrap_or(file);
        let certificate = std::fs::read(file).map_err(cannot("read", file, hint))?;
        let key = std::fs::read(key_file).map_err(cannot("read", key_file, hint))?;
        let identity = TlsIdentity::from_pem(&certificate, &key);
        let identity = identity
            .map_err(|error| CommandError::of(&error).hint(look(file)).hint(look(key_file)))?;
        tls.identity = Some(identity);
    }
    tls.is_insecure |= args.insecure;
    if tls.is_insecure {
        let from = if args.insecure { "--insecure" } else { "\"insecure\" in the file" };
        // Commands that end soon log nothing below it.
        tracing::error!(
            "{from}: the certificate of {} is not verified, so whoever is on the way can read and change all that is sent",
            url.host().unwrap_or_default()
        );
    }
    fetch.with_tls(url, &tls).map_err(|error| CommandError::of(&error))
}

/// A command under a name of its own; like a command of ours but for its variables.
pub(crate) fn named_line(name: &str, line: &str, pass: bool) -> CommandResult<ServerTarget> {
    let args = CommandArgs { pass_environment: pass, ..CommandArgs::default() };
    NamedServer::command(command(Some(line), &[], &args)?.name(name)).checked()
}

/// Every server of a file that its user wants to be used. One that has mistakes is left out,
/// and told.
pub(crate) fn named_in(
    file: &Path,
    args: &RemoteArgs,
    network: &NetworkArgs,
    pass_environment: bool,
) -> CommandResult<Vec<(String, NamedServer)>> {
    let local = CommandArgs { pass_environment, ..CommandArgs::default() };
    let config = Config::read(file, &surroundings()?).map_err(|error| not_read(&error))?;
    for problem in &config.problems {
        tracing::warn!("{problem}; {}", problem.instead);
    }
    let wanted = config.servers.into_iter().filter(|entry| entry.enabled);
    let servers = wanted.map(|entry| {
        let Entry { options, mut plan, .. } = entry;
        let (name, oauth) = (plan.name.clone(), plan.oauth.clone());
        if let Target::Command(command) = plan.target {
            plan.target = Target::Command(command.name(&name));
        }
        let server = with_options(plan, args, network, &local)?;
        Ok((name, NamedServer { server, options, oauth }))
    });
    servers.collect()
}

/// A file that cannot be read, and what to do about it.
pub(crate) fn not_read(error: &ReadError) -> CommandError {
    let failure = CommandError::of(error).hint(error.instead());
    match error {
        ReadError::Unreadable { source, .. } if source.kind() == ErrorKind::NotFound => {
            failure.of_usage()
        }
        _ => failure,
    }
}

/// The HTTP client that the options describe.
pub(crate) fn fetch(network: &NetworkArgs) -> CommandResult<Fetch> {
    let mut options = FetchOptions::default();
    options.only_ipv4 = network.ipv4;
    if !network.direct {
        options.proxy = ProxySettings::from_vars(variables());
    }
    if let Some(seconds) = network.connect_timeout {
        options.connect_timeout = Duration::from_secs(seconds);
    }
    Fetch::new(options).map_err(|error| {
        CommandError::of(&error).hint("HTTP_PROXY, HTTPS_PROXY and ALL_PROXY take http://host:port")
    })
}

/// Reads the URL of a server; whatever a request cannot be sent to is refused.
fn url(text: &str) -> CommandResult<Uri> {
    let url: Option<Uri> = text.parse().ok();
    let url = url.filter(|url| matches!(url.scheme_str(), Some("http" | "https")));
    let Some(url) = url.filter(|url| url.host().is_some_and(|host| !host.is_empty())) else {
        return Err(no_url(text));
    };
    if url.authority().is_some_and(|authority| authority.as_str().contains('@')) {
        let hint = "send it as a header instead: --header 'Authorization: Basic ${CREDENTIALS}'";
        return wrong("the URL contains a user name or a password", hint);
    }
    Ok(url)
}

/// Why a text is no address of a server.
pub(crate) fn no_url(text: &str) -> CommandError {
    CommandError::new(format!("{:?} is not an http:// or https:// URL", shown(text)))
        .hint("write it in full, for example https://example.com/mcp")
}

/// What of a URL may be shown: neither credentials nor the query.
fn shown(text: &str) -> &str {
    let text = text.split(['?', '#']).next().unwrap_or_default();
    text.rsplit('@').next().unwrap_or_default()
}

/// The command that the user gave, as words or as one line.
fn command(line: Option<&str>, words: &[String], args: &CommandArgs) -> CommandResult<Command> {
    let command = match (line, words) {
        (Some(line), _) => Command::parse(line).map_err(|error| {
            CommandError::of(&error)
                .hint("quote the whole command once: --stdio \"npx -y some-server 'an argument'\"")
        })?,
        (None, [program, rest @ ..]) => Command::new(program).args(rest),
        (None, []) => return Err(CommandError::new("no command after --")),
    };
    Ok(with_args(command, args))
}

/// What the options say comes after what the command says itself.
fn with_args(command: Command, args: &CommandArgs) -> Command {
    let mut command = args.env.iter().fold(command, |command, it| command.env(&it.name, &it.value));
    command.pass_environment = args.pass_environment;
    args.cwd.iter().fold(command, Command::cwd)
}

/// The first server of that name in the given files, or in the usual places.
fn find_named(name: &str, files: &[PathBuf]) -> CommandResult<Entry> {
    let around = surroundings()?;
    let usual = || known(&around).into_iter().map(|(_, file)| file).collect();
    let places = if files.is_empty() { usual() } else { files.to_vec() };
    let (mut read, mut unread) = (Vec::new(), Vec::new());
    for file in &places {
        match Config::read(file, &around) {
            Ok(config) => read.push(config),
            // A file that the user named must be there and make sense.
            Err(error) if !files.is_empty() => return Err(not_read(&error)),
            // Of the others it is enough that they do not hide the name. A file of settings
            // without servers is no mistake.
            Err(error) if error.is_without_servers() => {}
            Err(error) => unread.push(error),
        }
    }
    for config in &read {
        match config.server(name) {
            Some(Ok(entry)) => {
                tell_notes(config, name);
                return Ok(entry.clone());
            }
            Some(Err(problems)) => {
                let told: Vec<_> = problems.iter().map(ToString::to_string).collect();
                let unusable = || format!("server {name:?} cannot be used");
                let text = if told.is_empty() { unusable() } else { told.join("; ") };
                let hints = problems.iter().map(|problem| &problem.instead);
                return Err(hints.fold(CommandError::new(text), CommandError::hint));
            }
            None => {}
        }
    }
    let names = || read.iter().flat_map(Config::names);
    if name.contains(['.', '/']) && !names().any(|other| other == name) {
        return Err(no_url(name));
    }
    let mut hints = Vec::new();
    hints.extend(nearest(name, names()).map(|near| format!("did you mean {near:?}?")));
    for config in read.iter().filter(|config| config.names().next().is_some()) {
        let names = config.names().collect::<Vec<_>>().join(", ");
        hints.push(format!("{} names {names}", short(&config.file, &around)));
    }
    hints.extend(unread.iter().map(|error| format!("left out: {error}; {}", error.instead())));
    let places = places.iter().map(|place| short(place, &around)).collect::<Vec<_>>().join(", ");
    hints.push(format!("looked into {places}"));
    let what = format!("no configuration file names a server {name:?}");
    let failure = hints.into_iter().fold(CommandError::new(what), CommandError::hint);
    Err(failure.hint("name another file with --config FILE, give a URL, or a command after --"))
}

/// Whether a configuration file in the usual places has a server of this name.
pub(crate) fn is_named(name: &str) -> bool {
    names(&[]).iter().any(|it| it == name)
}

/// The servers that these files name, or those in the usual places.
pub(crate) fn names(files: &[PathBuf]) -> Vec<String> {
    let Ok(around) = surroundings() else { return Vec::new() };
    let usual = || known(&around).into_iter().map(|(_, file)| file).collect();
    let files = if files.is_empty() { usual() } else { files.to_vec() };
    let configs = files.iter().filter_map(|file| Config::read(file, &around).ok());
    configs.flat_map(|config| config.names().map(str::to_owned).collect::<Vec<_>>()).collect()
}

/// The files to serve if the user names none: those of the working folder, and ours, if they
/// say something about servers or about a gateway.
pub(crate) fn nearby_files(around: &Surroundings) -> Vec<PathBuf> {
    let files = nearby(around).into_iter().map(|(_, file)| file);
    let is_meant = |file: &PathBuf| match Config::read(file, around) {
        Ok(config) => {
            config.names().next().is_some() || config.gateway != GatewaySection::default()
        }
        // Whoever serves it says what is wrong with it.
        Err(error) => !error.is_without_servers(),
    };
    files.filter(is_meant).collect()
}

/// The first file of a client of the user that names servers.
pub(crate) fn client_file(around: &Surroundings) -> Option<PathBuf> {
    let has_servers = |file: &PathBuf| {
        Config::read(file, around).is_ok_and(|config| config.names().next().is_some())
    };
    known(around).into_iter().map(|(_, file)| file).find(has_servers)
}

/// The environment and the folder, as far as they are text.
pub(crate) fn surroundings() -> CommandResult<Surroundings> {
    let folder = std::env::current_dir()?;
    Ok(Surroundings::new(variables(), folder))
}

/// A variable of our environment, if it is text.
pub(crate) fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// Our environment, as far as it is text.
fn variables() -> impl Iterator<Item = (String, String)> {
    let text = |(name, value): (OsString, OsString)| {
        Some((name.into_string().ok()?, value.into_string().ok()?))
    };
    std::env::vars_os().filter_map(text)
}

fn tell_notes(config: &Config, name: &str) {
    let is_meant = |note: &&Problem| match &note.server {
        Some(server) => server == name,
        None => note.weight == Weight::Note,
    };
    for note in config.problems.iter().filter(is_meant) {
        tracing::warn!("{note}; {}", note.instead);
    }
}

/// A path as people write it.
pub(crate) fn short(path: &Path, around: &Surroundings) -> String {
    if let Ok(rest) = path.strip_prefix(around.folder()) {
        return format!("./{}", rest.display());
    }
    let home = around.home().and_then(|home| Some(path.strip_prefix(home).ok()?.to_owned()));
    home.map_or_else(|| path.display().to_string(), |rest| format!("~/{}", rest.display()))
}

#[cfg(test)]
mod tests {
    use switchboard_gateway::plan::PlanSecret;

    use super::*;

    #[test]
    fn only_absolute_http_urls_are_taken() {
        assert_eq!(url("https://example.com/mcp?a=b").unwrap(), "https://example.com/mcp?a=b");
        for text in ["", "example.com/mcp", "ftp://example.com", "http://", "http:///mcp", "a b"] {
            assert!(url(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn credentials_are_refused_and_not_repeated() {
        for text in ["http://u:secret@host/mcp", "ftp://u:secret@host/", "x?token=secret"] {
            let failure = url(text).unwrap_err().to_string();
            assert!(!failure.contains("secret"), "{failure}");
        }
    }

    #[test]
    fn variables_of_the_options_come_after_those_of_the_line() {
        let given = CommandArgs {
            env: vec![PlanSecret { name: "A".to_owned(), value: "2".to_owned() }],
            cwd: Some("/tmp".into()),
            pass_environment: true,
        };
        let command = command(Some("A=1 npx -y 'my server'"), &[], &given).unwrap();
        assert_eq!(command.program, "npx");
        assert_eq!(command.args, ["-y", "my server"]);
        let pairs = [("A", "1"), ("A", "2")].map(|(name, value)| (name.into(), value.into()));
        assert_eq!(command.env, pairs);
        assert!(command.pass_environment && command.cwd.is_some());
    }
}
