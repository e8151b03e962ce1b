//! The server that the user named: a command, or a URL.

use std::ffi::OsString;

use http::Uri;
use switchboard_net::http::fetch::{Fetch, FetchOptions, ProxySettings};
use switchboard_net::stdio::child::Command;
use switchboard_net::upstream::Server;

use crate::args::{CommandArgs, RemoteArgs};
use crate::exit::Failure;
use crate::header;

/// A server that is a command, after checking that it can be run.
pub(crate) fn local(
    line: Option<&str>,
    words: &[String],
    args: &CommandArgs,
) -> Result<Server, Failure> {
    let command = command(line, words, args)?;
    let environment: Vec<(OsString, OsString)> = std::env::vars_os().collect();
    command.check(&environment).map_err(|error| {
        Failure::of(&error).hint(format!("try it by itself first: {} --help", command.program))
    })?;
    Ok(Server::command(command, environment))
}

/// A server at a URL.
pub(crate) fn remote(text: &str, args: &RemoteArgs) -> Result<Server, Failure> {
    let url = url(text)?;
    let headers = header::merge(&args.header, |name| std::env::var(name).ok())
        .map_err(|error| Failure::of(&error).hint(error.hint()))?;
    let fetch = fetch(args)?;
    Ok(Server::url(url, args.transport, headers, fetch))
}

fn fetch(args: &RemoteArgs) -> Result<Fetch, Failure> {
    let vars = std::env::vars_os();
    let vars = vars
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    let mut options =
        FetchOptions { proxy: ProxySettings::from_vars(vars), ..FetchOptions::default() };
    if let Some(file) = &args.ca_file {
        let pem = std::fs::read(file).map_err(|error| {
            Failure::new(format!("cannot read {}: {error}", file.display()))
                .hint("--ca-file wants a file with certificates in PEM form")
        })?;
        options
            .trust_pem(&pem)
            .map_err(|error| Failure::of(&error).hint(format!("look into {}", file.display())))?;
    }
    Fetch::new(options).map_err(|error| {
        Failure::of(&error).hint("HTTP_PROXY, HTTPS_PROXY and ALL_PROXY take http://host:port")
    })
}

/// Reads the URL of a server; whatever a request cannot be sent to is refused.
fn url(text: &str) -> Result<Uri, Failure> {
    let looks_like_command = !text.contains("://") && !text.contains('.');
    let url: Option<Uri> = text.parse().ok();
    let url = url.filter(|url| matches!(url.scheme_str(), Some("http" | "https")));
    let Some(url) = url.filter(|url| url.host().is_some_and(|host| !host.is_empty())) else {
        let failure = Failure::new(format!("{:?} is not an http:// or https:// URL", shown(text)));
        return Err(if looks_like_command {
            failure.hint(format!("to run a command, write: switchboard bridge -- {}", shown(text)))
        } else {
            failure.hint("write it in full, for example https://example.com/mcp")
        });
    };
    if url.authority().is_some_and(|authority| authority.as_str().contains('@')) {
        return Err(Failure::new("the URL contains a user name or a password")
            .hint("send it as a header instead: --header 'Authorization: Basic ${CREDENTIALS}'"));
    }
    Ok(url)
}

/// What of a URL may be shown: neither credentials nor the query.
fn shown(text: &str) -> &str {
    let text = text.split(['?', '#']).next().unwrap_or_default();
    text.rsplit('@').next().unwrap_or_default()
}

/// The command that the user gave, as words or as one line.
fn command(line: Option<&str>, words: &[String], args: &CommandArgs) -> Result<Command, Failure> {
    let command = match (line, words) {
        (Some(line), _) => Command::parse(line).map_err(|error| {
            Failure::of(&error)
                .hint("quote the whole command once: --stdio \"npx -y some-server 'an argument'\"")
        })?,
        (None, [program, rest @ ..]) => Command::new(program).args(rest),
        (None, []) => return Err(Failure::new("no command after --")),
    };
    let command = args.env.iter().fold(command, |command, assignment| {
        let (name, value) = (&assignment.name, &assignment.value);
        command.env(name, value)
    });
    let command = command.pass_environment(args.pass_environment);
    Ok(match &args.cwd {
        Some(cwd) => command.cwd(cwd),
        None => command,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_absolute_http_urls_are_taken() {
        assert_eq!(url("https://example.com/mcp?a=b").unwrap(), "https://example.com/mcp?a=b");
        for text in ["", "example.com/mcp", "ftp://example.com", "http://", "http:///mcp", "a b"] {
            assert!(url(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_word_is_taken_for_a_forgotten_command() {
        let failure = url("npx").unwrap_err().to_string();
        assert!(failure.contains("switchboard bridge -- npx"), "{failure}");
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
            env: vec!["A=2".parse().unwrap()],
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
