//! What is measured: ours, the least possible, and other people's.

use std::net::TcpListener;
use std::path::Path;

use crate::Failure;
use crate::process::OTHERS;
use crate::wire::Era;

/// One way between a client and the echo server.
pub struct Target {
    pub name: &'static str,
    pub road: Road,
    pub kind: Kind,
    pub era: Era,
    /// The command, and the port it was told to use, if it announces none.
    pub words: Vec<String>,
    pub port: Option<u16>,
}

/// What the echo server is behind the target.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Road {
    Stdio,
    Http,
}

/// Whose work a target is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kind {
    /// The yardstick of its road.
    Bare,
    Ours,
    Rmcp,
    /// The same, tuned beyond what its SDK shows.
    RmcpTuned,
    /// Another tool that people use.
    Peer,
}

/// Everything that can run here. `bench` is our own program, `switchboard` the
/// one under test, `peers` a folder with other people's, `upstream` the echo over HTTP,
/// `gateway` a configuration file that names it.
pub fn all(
    bench: &str,
    switchboard: &str,
    peers: &Path,
    upstream: &str,
    gateway: &str,
) -> Result<Vec<Target>, Failure> {
    let child = ["taskset", "-c", OTHERS, bench, "echo-stdio"];
    let stdio = |name, kind, era, front: &[&str], back: &[&str]| Target {
        name,
        road: Road::Stdio,
        kind,
        era,
        words: words(&[front, back].concat()),
        port: None,
    };
    let http = |name, kind, era, front: &[&str]| Target {
        name,
        road: Road::Http,
        kind,
        era,
        words: words(&[front, &[upstream]].concat()),
        port: None,
    };
    let ours = [switchboard, "bridge", "--log-level", "warn", "--port", "0"];
    let ours_stdio = [&ours[..], &["--"]].concat();
    let serve = [switchboard, "serve", "--log-level", "warn", "--no-cache", "--port", "0"];
    let serve = [&serve[..], &["--config", gateway]].concat();
    let served = |name, era| Target { words: words(&serve), ..http(name, Kind::Ours, era, &[]) };
    let tuned = [bench, "rmcp-proxy", "--nodelay"];
    let tuned_stdio = [&tuned[..], &["--"]].concat();
    let mut targets = vec![
        stdio("bare handler", Kind::Bare, Era::Legacy, &[bench, "bare-bridge", "--"], &child),
        stdio("switchboard bridge, a session", Kind::Ours, Era::Legacy, &ours_stdio, &child),
        stdio("switchboard bridge, 2026-07-28", Kind::Ours, Era::Modern, &ours_stdio, &child),
        stdio("rmcp proxy", Kind::Rmcp, Era::Legacy, &[bench, "rmcp-proxy", "--"], &child),
        stdio("rmcp proxy, TCP_NODELAY", Kind::RmcpTuned, Era::Legacy, &tuned_stdio, &child),
        http("bare proxy", Kind::Bare, Era::Legacy, &[bench, "bare-proxy"]),
        http("switchboard bridge, a session", Kind::Ours, Era::Legacy, &ours),
        http("switchboard bridge, 2026-07-28", Kind::Ours, Era::Modern, &ours),
        served("switchboard gateway, a session", Era::Legacy),
        served("switchboard gateway, 2026-07-28", Era::Modern),
        http("rmcp proxy", Kind::Rmcp, Era::Legacy, &[bench, "rmcp-proxy"]),
        http("rmcp proxy, TCP_NODELAY", Kind::RmcpTuned, Era::Legacy, &tuned),
    ];
    targets.extend(installed(&child.join(" "), peers)?);
    Ok(targets)
}

/// Other people's bridges, as far as they are installed in `peers`.
fn installed(child: &str, peers: &Path) -> Result<Vec<Target>, Failure> {
    let mut found = Vec::new();
    let peer = |name, words, port| Target {
        name,
        road: Road::Stdio,
        kind: Kind::Peer,
        era: Era::Legacy,
        words,
        port: Some(port),
    };
    let supergateway = peers.join("node_modules/.bin/supergateway");
    if supergateway.exists() {
        let port = free_port()?;
        let flags = ["--outputTransport", "streamableHttp", "--stateful", "--logLevel", "none"];
        let mut command = vec![text(&supergateway)?, "--stdio".into(), child.to_owned()];
        command.extend(words(&flags));
        command.extend(["--port".into(), port.to_string()]);
        found.push(peer("supergateway, stateful", command, port));
    }
    let npm = peers.join("node_modules/.bin/mcp-proxy");
    if npm.exists() {
        let port = free_port()?;
        let mut command = vec![text(&npm)?, "--port".into(), port.to_string(), "--host".into()];
        command.extend(words(&["127.0.0.1", "--server", "stream", "--"]));
        command.extend(child.split(' ').map(str::to_owned));
        found.push(peer("mcp-proxy (npm)", command, port));
    }
    let python = peers.join("venv/bin/mcp-proxy");
    if python.exists() {
        let port = free_port()?;
        let mut command = vec![text(&python)?, "--port".into(), port.to_string(), "--".into()];
        command.extend(child.split(' ').map(str::to_owned));
        found.push(peer("mcp-proxy (Python)", command, port));
    }
    Ok(found)
}

fn words(parts: &[&str]) -> Vec<String> {
    parts.iter().map(|&part| part.to_owned()).collect()
}

fn text(path: &Path) -> Result<String, Failure> {
    Ok(path.to_str().ok_or("a path that is no text")?.to_owned())
}

/// A port that was free a moment ago, for programs that cannot pick one.
fn free_port() -> Result<u16, Failure> {
    Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}
