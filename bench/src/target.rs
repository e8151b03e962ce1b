//! What is measured: ours, the least possible, and other people's. A table of targets, each with
//! its work.

use std::collections::HashMap;
use std::fmt;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::json;

use crate::Failure;
use crate::load::{Manner, Work};
use crate::process::{MEASURED, OTHERS, Process};
use crate::wire::Era::{self, Legacy, Modern};
use crate::wire::TOOL;

/// One way between a client and the echo.
#[derive(Clone)]
pub struct Target {
    pub road: Road,
    /// What `--only` selects it by.
    pub group: &'static str,
    pub name: &'static str,
    pub kind: Kind,
    pub era: Era,
    pub program: Program,
    pub cases: &'static [Case],
}

/// Targets of one road take turns, and are compared with each other.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Road {
    Server,
    Stdio,
    Http,
}

/// Whose work a target is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kind {
    Bare,
    Ours,
    Rmcp,
    Peer,
}

/// What one connection does, and how many do it at once.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Case {
    pub work: Work,
    pub connections: usize,
}

impl fmt::Display for Case {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.work {
            Work::Call(bytes) if bytes >= KIB * KIB => {
                write!(formatter, "{} MiB", bytes / KIB / KIB)
            }
            Work::Call(bytes) if bytes >= KIB => write!(formatter, "{} KiB", bytes / KIB),
            Work::Call(bytes) => write!(formatter, "{bytes} B"),
            Work::List => write!(formatter, "list"),
        }?;
        write!(formatter, ", {}", self.connections)
    }
}

/// The process that a target is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Program {
    Echo(Back),
    Ours,
    /// The same process; the client takes events alone.
    OursEvents,
    RmcpServer {
        json: bool,
    },
    Bare(Back),
    Bridge(Back),
    Gateway {
        to: Back,
        servers: usize,
        guarded: bool,
    },
    RmcpProxy(Back),
    Peer(&'static str),
}

/// The echo behind a proxy.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum Back {
    Stdio,
    /// Over HTTP, of both eras.
    Http,
    Legacy,
    Modern,
    /// Each answer is an event.
    Events,
    Tools(u32),
}

impl Back {
    fn flags(self) -> Vec<String> {
        let flags = match self {
            Self::Stdio | Self::Http => "",
            Self::Legacy => "--era legacy",
            Self::Modern => "--era modern",
            Self::Events => "--sse",
            Self::Tools(count) => &format!("--tools {count}"),
        };
        flags.split_whitespace().map(str::to_owned).collect()
    }
}

const KIB: usize = 1024;

const fn calls(bytes: usize, connections: usize) -> Case {
    Case { work: Work::Call(bytes), connections }
}

/// What everything is compared by.
pub const SMALL: Case = calls(100, 8);
pub const LARGE: Case = calls(64 * KIB, 8);
pub const HUGE: Case = calls(KIB * KIB, 8);
pub const ALONE: Case = calls(100, 1);
pub const MANY: Case = calls(100, 64);
pub const LIST: Case = Case { work: Work::List, connections: 8 };

const ALL: &[Case] = &[ALONE, SMALL, MANY, calls(100, 256), LARGE, HUGE];
const ONE: &[Case] = &[SMALL];
const TWO: &[Case] = &[SMALL, MANY];
const LISTS: &[Case] = &[SMALL, LIST];

const fn gateway(to: Back) -> Program {
    Program::Gateway { to, servers: 1, guarded: false }
}

const fn gateway_of(servers: usize) -> Program {
    Program::Gateway { to: Back::Http, servers, guarded: false }
}

const GUARDED: Program = Program::Gateway { to: Back::Http, servers: 1, guarded: true };

/// Every target, in the order of the report.
#[rustfmt::skip]
pub fn all() -> Vec<Target> {
    use Kind::{Bare, Ours, Peer, Rmcp};
    use Road::{Http, Server, Stdio};
    let row = |road, group, name, kind, era, program, cases| Target {
        road,
        group,
        name,
        kind,
        era,
        program,
        cases,
    };
    let http = Back::Http;
    vec![
        row(Server, "server", "bare server, a session", Bare, Legacy, Program::Echo(http), ALL),
        row(Server, "server", "bare server, 2026-07-28", Bare, Modern, Program::Echo(http), ALL),
        row(Server, "server", "bare server, events", Bare, Legacy, Program::Echo(Back::Events), ALL),
        row(Server, "server", "library, a session", Ours, Legacy, Program::Ours, ALL),
        row(Server, "server", "library, 2026-07-28", Ours, Modern, Program::Ours, ALL),
        row(Server, "server", "library, events", Ours, Legacy, Program::OursEvents, ALL),
        row(Server, "rmcp", "rmcp, events, a session", Rmcp, Legacy, Program::RmcpServer { json: false }, ALL),
        row(Server, "rmcp", "rmcp, JSON, no session", Rmcp, Legacy, Program::RmcpServer { json: true }, ALL),
        row(Server, "rmcp", "rmcp, JSON, 2026-07-28", Rmcp, Modern, Program::RmcpServer { json: true }, ALL),
        row(Stdio, "bridge-stdio", "bare handler, a session", Bare, Legacy, Program::Bare(Back::Stdio), ALL),
        row(Stdio, "bridge-stdio", "bare handler, 2026-07-28", Bare, Modern, Program::Bare(Back::Stdio), ALL),
        row(Stdio, "bridge-stdio", "bridge, a session", Ours, Legacy, Program::Bridge(Back::Stdio), ALL),
        row(Stdio, "bridge-stdio", "bridge, 2026-07-28", Ours, Modern, Program::Bridge(Back::Stdio), ALL),
        row(Stdio, "rmcp", "rmcp proxy", Rmcp, Legacy, Program::RmcpProxy(Back::Stdio), ALL),
        row(Stdio, "peers", "supergateway, stateful", Peer, Legacy, Program::Peer("supergateway"), ONE),
        row(Stdio, "peers", "mcp-proxy (npm)", Peer, Legacy, Program::Peer("mcp-proxy (npm)"), ONE),
        row(Stdio, "peers", "mcp-proxy (Python)", Peer, Legacy, Program::Peer("mcp-proxy (Python)"), ONE),
        row(Http, "direct", "no proxy, a session", Bare, Legacy, Program::Echo(http), &[ALONE]),
        row(Http, "direct", "no proxy, 2026-07-28", Bare, Modern, Program::Echo(http), &[ALONE]),
        row(Http, "bare", "bare proxy, a session", Bare, Legacy, Program::Bare(http), ALL),
        row(Http, "bare", "bare proxy, 2026-07-28", Bare, Modern, Program::Bare(http), ALL),
        row(Http, "bridge-http", "bridge, a session", Ours, Legacy, Program::Bridge(http), ALL),
        row(Http, "bridge-http", "bridge, 2026-07-28", Ours, Modern, Program::Bridge(http), ALL),
        row(Http, "gateway", "gateway, a session", Ours, Legacy, gateway(http), ALL),
        row(Http, "gateway", "gateway, 2026-07-28", Ours, Modern, gateway(http), ALL),
        row(Http, "rmcp", "rmcp proxy", Rmcp, Legacy, Program::RmcpProxy(http), ALL),
        row(Http, "events", "bare proxy, events", Bare, Legacy, Program::Bare(Back::Events), ONE),
        row(Http, "events", "bridge, events, a session", Ours, Legacy, Program::Bridge(Back::Events), ONE),
        row(Http, "events", "bridge, events, 2026-07-28", Ours, Modern, Program::Bridge(Back::Events), ONE),
        row(Http, "events", "gateway, events, a session", Ours, Legacy, gateway(Back::Events), ONE),
        row(Http, "events", "gateway, events, 2026-07-28", Ours, Modern, gateway(Back::Events), ONE),
        row(Http, "guarded", "gateway, guarded, a session", Ours, Legacy, GUARDED, TWO),
        row(Http, "guarded", "gateway, guarded, 2026-07-28", Ours, Modern, GUARDED, TWO),
        row(Http, "servers", "gateway, 20 servers, a session", Ours, Legacy, gateway_of(20), ONE),
        row(Http, "servers", "gateway, 20 servers, 2026-07-28", Ours, Modern, gateway_of(20), ONE),
        row(Http, "servers", "gateway, 200 servers, a session", Ours, Legacy, gateway_of(200), ONE),
        row(Http, "servers", "gateway, 200 servers, 2026-07-28", Ours, Modern, gateway_of(200), ONE),
        row(Http, "eras", "bridge, a session to 2026-07-28", Ours, Legacy, Program::Bridge(Back::Modern), ONE),
        row(Http, "eras", "bridge, 2026-07-28 to a session", Ours, Modern, Program::Bridge(Back::Legacy), ONE),
        row(Http, "eras", "gateway, a session to 2026-07-28", Ours, Legacy, gateway(Back::Modern), ONE),
        row(Http, "eras", "gateway, 2026-07-28 to a session", Ours, Modern, gateway(Back::Legacy), ONE),
        row(Http, "lists", "bare proxy, 20 tools", Bare, Legacy, Program::Bare(Back::Tools(20)), LISTS),
        row(Http, "lists", "bare proxy, 2,000 tools", Bare, Legacy, Program::Bare(Back::Tools(2000)), LISTS),
        row(Http, "lists", "gateway, 20 tools, a session", Ours, Legacy, gateway(Back::Tools(20)), LISTS),
        row(Http, "lists", "gateway, 2,000 tools, a session", Ours, Legacy, gateway(Back::Tools(2000)), LISTS),
        row(Http, "lists", "gateway, 20 tools, 2026-07-28", Ours, Modern, gateway(Back::Tools(20)), LISTS),
        row(Http, "lists", "gateway, 2,000 tools, 2026-07-28", Ours, Modern, gateway(Back::Tools(2000)), LISTS),
    ]
}

/// The key of the guarded gateway's client, and the one that may read its metrics.
const KEY: &str = "a-key-of-the-benchmark";
pub const ROOT_KEY: &str = "a-key-for-the-metrics";

impl Program {
    /// The echo that it is compared by.
    pub fn back(self) -> Back {
        let back = match self {
            Self::Echo(back) | Self::Bare(back) | Self::Bridge(back) | Self::RmcpProxy(back) => {
                back
            }
            Self::Gateway { to, .. } => to,
            Self::Ours | Self::RmcpServer { json: true } => Back::Http,
            Self::OursEvents | Self::RmcpServer { json: false } => Back::Events,
            Self::Peer(_) => Back::Stdio,
        };
        if matches!(back, Back::Legacy | Back::Modern) { Back::Http } else { back }
    }

    /// How its clients speak.
    pub fn manner(self, era: Era) -> Manner {
        let tools: Vec<_> = match self {
            Self::Gateway { servers, .. } => {
                (0..servers).map(|n| format!("s{n}__{TOOL}")).collect()
            }
            _ => vec![TOOL.to_owned()],
        };
        let key = matches!(self, Self::Gateway { guarded: true, .. }).then_some(KEY);
        // The echo lists a tool that changes the list, too.
        let listed = match self.back() {
            Back::Tools(count) => count as usize + 1,
            _ => 2 * tools.len(),
        };
        Manner { era, events_only: self == Self::OursEvents, key, tools: Arc::from(tools), listed }
    }
}

/// Starts programs, and the echoes behind them.
pub struct Starter {
    bench: String,
    switchboard: String,
    peers: PathBuf,
    folder: PathBuf,
    backs: HashMap<Back, Process>,
    files: u32,
}

impl Starter {
    pub fn new(switchboard: &Path, peers: Option<&Path>) -> Result<Self, Failure> {
        let found = switchboard.canonicalize().map_err(|error| {
            format!("{}: {error}; build it with cargo build --profile dist", switchboard.display())
        })?;
        let folder = std::env::temp_dir().join(format!("bench-{}", std::process::id()));
        std::fs::create_dir_all(&folder)?;
        Ok(Self {
            bench: text(&std::env::current_exe()?)?,
            switchboard: text(&found)?,
            peers: peers.map(Path::canonicalize).transpose()?.unwrap_or_default(),
            folder,
            backs: HashMap::new(),
            files: 0,
        })
    }

    /// Starts `program` on the core that is measured.
    pub async fn start(&mut self, program: Program) -> Result<Process, Failure> {
        let (words, port) = match program {
            Program::Echo(back) => (self.ours(&["echo-http"], &back.flags()), None),
            Program::Ours | Program::OursEvents => (self.ours(&["ours"], &[]), None),
            Program::RmcpServer { json: true } => {
                (self.ours(&["rmcp-server", "--json"], &[]), None)
            }
            Program::RmcpServer { json: false } => (self.ours(&["rmcp-server"], &[]), None),
            Program::Bare(Back::Stdio) => (self.ours(&["bare-bridge", "--"], &self.child()), None),
            Program::RmcpProxy(Back::Stdio) => {
                (self.ours(&["rmcp-proxy", "--"], &self.child()), None)
            }
            Program::Bare(to) => {
                let url = self.url(to).await?;
                (self.ours(&["bare-proxy", &url], &[]), None)
            }
            Program::RmcpProxy(to) => {
                let url = self.url(to).await?;
                (self.ours(&["rmcp-proxy", &url], &[]), None)
            }
            Program::Bridge(to) => {
                let flags = ["bridge", "--log-level", "warn", "--port", "0"];
                let server = match to {
                    Back::Stdio => [vec!["--".to_owned()], self.child()].concat(),
                    to => vec![self.url(to).await?],
                };
                ([vec![self.switchboard.clone()], words(&flags), server].concat(), None)
            }
            Program::Gateway { to, servers, guarded } => {
                (self.gateway(to, servers, guarded).await?, None)
            }
            Program::Peer(name) => {
                let port = free_port()?;
                (self.peer(name, port)?, Some(port))
            }
        };
        let mut process = Process::start(MEASURED, &words, port).await?;
        process.shared_back = self.shared_back(program)?;
        Ok(process)
    }

    /// The server behind `program`, if it is a process that others use too.
    fn shared_back(&self, program: Program) -> Result<Option<u32>, Failure> {
        match program {
            Program::Bare(to)
            | Program::Bridge(to)
            | Program::RmcpProxy(to)
            | Program::Gateway { to, .. } => self.backs.get(&to).map(Process::pid).transpose(),
            _ => Ok(None),
        }
    }

    /// Whether it can be started here.
    pub fn has(&self, program: Program) -> bool {
        !matches!(program, Program::Peer(_)) || !self.peers.as_os_str().is_empty()
    }

    fn ours(&self, part: &[&str], rest: &[String]) -> Vec<String> {
        [vec![self.bench.clone()], words(part), rest.to_vec()].concat()
    }

    /// The command of the echo on stdio.
    fn child(&self) -> Vec<String> {
        self.ours(&["--core", &OTHERS.to_string(), "echo-stdio"], &[])
    }

    /// The URL of an echo, which is started if it does not run yet.
    async fn url(&mut self, back: Back) -> Result<String, Failure> {
        if !self.backs.contains_key(&back) {
            let words = self.ours(&["echo-http"], &back.flags());
            self.backs.insert(back, Process::start(OTHERS, &words, None).await?);
        }
        Ok(self.backs[&back].url.clone())
    }

    /// A gateway with prefixes, as it is by default. The echo does not look at its path, so that
    /// one process is many servers. A guarded one has keys, grants and a rate, and sends traces.
    async fn gateway(
        &mut self,
        to: Back,
        servers: usize,
        guarded: bool,
    ) -> Result<Vec<String>, Failure> {
        let url = self.url(to).await?;
        let names: Vec<_> = (0..servers).map(|number| format!("s{number}")).collect();
        let list: serde_json::Map<_, _> = names
            .iter()
            .map(|name| {
                (name.clone(), json!({ "url": url.replace("/mcp", &format!("/{name}/mcp")) }))
            })
            .collect();
        let many = json!(40_000);
        let limits = json!({ "maxSessions": many, "maxConnections": many, "maxConnectionsPerAddress": many });
        let mut section = json!({ "limits": limits });
        let mut command = vec![self.switchboard.clone()];
        if guarded {
            section["groups"] = json!({ "all": names });
            section["keys"] = json!({ "ada": {
                "key": KEY, "groups": ["all"], "includeTools": [format!("*__{TOOL}")], "rateLimit": "1000000/s",
            }, "root": { "key": ROOT_KEY } });
            let collector = self.url(Back::Http).await?.replace("/mcp", "");
            let variable = format!("OTEL_EXPORTER_OTLP_ENDPOINT={collector}");
            command = vec!["env".to_owned(), variable, self.switchboard.clone()];
        }
        self.files += 1;
        let file = self.folder.join(format!("{}.json", self.files));
        std::fs::write(&file, json!({ "mcpServers": list, "switchboard": section }).to_string())?;
        command.extend(words(&[
            "serve",
            "--log-level",
            "warn",
            "--no-cache",
            "--port",
            "0",
            "--config",
        ]));
        command.push(text(&file)?);
        Ok(command)
    }

    fn peer(&self, name: &str, port: u16) -> Result<Vec<String>, Failure> {
        let child = self.child();
        let port = port.to_string();
        let program = |path: &str| text(&self.peers.join(path));
        Ok(match name {
            "supergateway" => {
                let flags =
                    ["--outputTransport", "streamableHttp", "--stateful", "--logLevel", "none"];
                let front = vec![
                    program("node_modules/.bin/supergateway")?,
                    "--stdio".into(),
                    child.join(" "),
                ];
                [front, words(&flags), words(&["--port", &port])].concat()
            }
            "mcp-proxy (npm)" => {
                let flags = ["--port", &port, "--host", "127.0.0.1", "--server", "stream", "--"];
                [vec![program("node_modules/.bin/mcp-proxy")?], words(&flags), child].concat()
            }
            _ => [vec![program("venv/bin/mcp-proxy")?], words(&["--port", &port, "--"]), child]
                .concat(),
        })
    }
}

impl Drop for Starter {
    fn drop(&mut self) {
        // What is left there are a few small files.
        _ = std::fs::remove_dir_all(&self.folder);
    }
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
