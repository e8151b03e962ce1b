//! `switchboard bridge`: one server, served on another transport.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use switchboard_gateway::gateway::{Offered, Place};
use switchboard_net::auth::Authorizer;
use switchboard_net::bridge::{Bridge, Hidden};
use switchboard_net::upstream::{ServerTarget, Target};
use switchboard_proto::client::Sharing;
use switchboard_proto::limits::Limits;

use crate::args::{BridgeArgs, LoginChoice};
use crate::exit::{CommandError, CommandResult, ExitStatus, wrong};
use crate::sign_in::AskUser;
use crate::signal::StopSignal;
use crate::target::NamedServer;
use crate::{serve, sign_in, target};

/// Serves until a signal, or until the client on our stdio is gone.
pub(crate) async fn run(args: &BridgeArgs) -> CommandResult {
    let (servers, authorizers) = servers(args)?;
    let limits = Arc::new(limits(args));
    let stop = StopSignal::on_signals()?;
    let on_stdio = args.serve.port.is_none();
    let ancestry = serve::bridge_ancestry(on_stdio);
    if ancestry.is_loop() {
        return serve::refuse_loop(&ancestry, on_stdio, stop).await;
    }
    let (mut bridges, mut offers) = (Vec::new(), Vec::new());
    for (name, server) in servers {
        let can_start = match server.target() {
            Target::Command(command) => command.check(&target::environment()).is_ok(),
            Target::Url { .. } => true,
        };
        if can_start {
            tracing::info!(
                server = server.name(),
                "ready for clients; the first one reaches the server"
            );
        }
        let hidden = Hidden::new(&args.ignore_tool);
        let server = server.named_by(&ancestry);
        let bridge = Bridge::hiding(hidden, server, args.children, Arc::clone(&limits));
        let (backend, sharing) = (Arc::clone(&bridge) as _, bridge.sharing());
        let place = name.map_or(Place::All, Place::Server);
        offers.push(Offered { place, backend, sharing, light: sharing == Sharing::Shared });
        bridges.push(bridge);
    }
    let port = args.serve.port;
    let ended = serve::serve(offers, limits, port, &args.serve, &args.web, stop).await;
    for bridge in bridges {
        bridge.close().await;
    }
    if authorizers.iter().any(Authorizer::lacks_person) {
        return wrong("nobody has signed in", "sign in with: switchboard login TARGET")
            .map_err(|error| error.for_scripts(ExitStatus::Auth, "auth"));
    }
    ended
}

/// Servers by their names; the one without a name is first.
type Servers = Vec<(Option<String>, ServerTarget)>;

/// The servers, after the checks that are possible before the first call, and the accounts
/// that are used at them.
fn servers(args: &BridgeArgs) -> CommandResult<(Servers, Vec<Authorizer>)> {
    let (mut servers, mut authorizers) = (Vec::new(), Vec::new());
    let mut with_tokens = |found: &NamedServer| -> CommandResult<ServerTarget> {
        let (server, authorizer) = with_tokens(found, args)?;
        authorizers.extend(authorizer);
        Ok(server)
    };
    if let Some(url) = &args.url {
        let BridgeArgs { config, remote, network, local, .. } = args;
        let found = target::remote(url, config, remote, network, local);
        let found = found.map_err(CommandError::of_usage)?;
        found.checked()?;
        servers.push((None, with_tokens(&found)?));
    } else if args.stdio.is_some() || !args.words.is_empty() {
        let server = target::local(args.stdio.as_deref(), &args.words, &args.local);
        let server = server.map_err(CommandError::of_usage)?;
        servers.push((None, server.checked()?));
    }
    let pass = args.local.pass_environment;
    for pair in args.named_server.chunks(2) {
        if let [name, line] = pair {
            servers.push((Some(name.clone()), target::named_line(name, line, pass)?));
        }
    }
    if let Some(file) = &args.named_server_config {
        let named = target::named_in(file, &args.remote, &args.network, pass)?;
        let (mut is_any_sound, mut first_failure) = (!servers.is_empty(), None);
        for (name, found) in named {
            // The others are served, and this one as soon as its command can be started.
            match found.checked() {
                Ok(_) => is_any_sound = true,
                Err(failure) => {
                    tracing::error!(server = name, "cannot be started: {}", failure.line());
                    first_failure.get_or_insert(failure);
                }
            }
            servers.push((Some(name), with_tokens(&found)?));
        }
        if let Some(failure) = first_failure.filter(|_| !is_any_sound) {
            return Err(failure);
        }
    }
    if servers.is_empty() {
        let hint = "give a command or a URL, or a file that names servers";
        return wrong("there is no server to serve", hint);
    }
    // Each name is a path of its own.
    let mut seen = HashSet::new();
    for name in servers.iter().filter_map(|(name, _)| name.as_deref()) {
        if name.is_empty() {
            return wrong("a named server has no name", "write --named-server NAME 'COMMAND ARG'")
                .map_err(CommandError::of_usage);
        }
        if !seen.insert(name) {
            let hint = "give each a name of its own, for it is served at /servers/NAME";
            return wrong(format!("two servers are called {name:?}"), hint)
                .map_err(CommandError::of_usage);
        }
    }
    Ok((servers, authorizers))
}

/// The server with the token of its account, where it wants one.
fn with_tokens(
    found: &NamedServer,
    args: &BridgeArgs,
) -> CommandResult<(ServerTarget, Option<Authorizer>)> {
    let is_on_stdio = args.serve.port.is_none();
    // Hosts wait 30 to 60 seconds for the servers that they start.
    let usual = if is_on_stdio { LoginChoice::Defer } else { LoginChoice::Wait };
    let asking = AskUser { login: args.login.unwrap_or(usual), owns_stdin: !is_on_stdio };
    sign_in::with_tokens(found, &args.oauth, asking)
}

fn limits(args: &BridgeArgs) -> Limits {
    let defaults = Limits::default();
    let size = |number: u32| usize::try_from(number).unwrap_or(usize::MAX);
    let message = size(args.max_message);
    Limits {
        message,
        history: args.history.unwrap_or(defaults.history),
        events: args.history_events.map_or(defaults.events, size),
        greeting: args.start_timeout.map(Duration::from_secs),
        ping: args.ping.map_or(defaults.ping, Duration::from_secs),
        quiet: Duration::from_secs(args.timeout),
        // A client must be able to have one message on the way while it reads another.
        backlog: defaults.backlog.max(message.saturating_mul(2)),
        ..defaults
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::args::{Cli, Command};

    #[test]
    fn patience_and_the_size_of_messages_are_the_users_to_set() {
        let limits = |line: &str| {
            let command = Cli::try_parse_from(line.split(' ')).unwrap().command;
            let Command::Bridge(args) = command else { panic!("{line}") };
            limits(&args)
        };
        let given = limits("switchboard bridge --timeout 7 --max-message 50000000 -- true");
        assert_eq!((given.quiet, given.message), (Duration::from_secs(7), 50_000_000));
        assert_eq!(given.backlog, 100_000_000, "room for two");
        let given = limits("switchboard bridge --history 9 --history-events 5 http://a.example");
        assert_eq!((given.history, given.events), (9, 5));
        let given = limits("switchboard bridge --start-timeout 3 --ping 4 http://a.example");
        assert_eq!(given.greeting, Some(Duration::from_secs(3)));
        assert_eq!(given.ping, Duration::from_secs(4));
        let (plain, defaults) = (limits("switchboard bridge -- true"), Limits::default());
        assert_eq!((plain.quiet, plain.message), (defaults.quiet, defaults.message));
        assert_eq!(plain.backlog, defaults.backlog);
    }
}
