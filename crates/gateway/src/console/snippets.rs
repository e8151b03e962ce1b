//! How to connect each client: the command, the file or the link (C-14).
//!
//! Files are made by the table that `install` writes from, so what is shown is what `import`
//! reads. The page knows no key: a variable stands for it wherever the client knows variables.

use std::collections::HashMap;
use std::path::PathBuf;

use percent_encoding::percent_decode_str;
use serde_json::{Value, json};
use switchboard_proto::method::meta;
use switchboard_proto::revision::Revision;

use super::sign_in::Viewer;
use super::{ApiError, ApiResult, Console};
use crate::config::{KEY_HERE, KnownClient, NewEntry, Surroundings};
use crate::gateway::Place;

/// The variable that has a key.
const KEY_VARIABLE: &str = "SWITCHBOARD_KEY";

/// What the gateway is called in the files of clients.
const GATEWAY: &str = "switchboard";

/// Something to paste.
struct Snippet {
    client: &'static str,
    title: &'static str,
    text: String,
    /// Where it belongs; none for a command.
    file: Option<PathBuf>,
    link: Option<String>,
    note: Option<String>,
}

impl Snippet {
    fn command(client: &'static str, title: &'static str, text: String, note: &str) -> Self {
        let note = Some(note.to_owned()).filter(|note| !note.is_empty());
        Self { client, title, text, file: None, link: None, note }
    }

    fn row(&self) -> Value {
        let Self { client, title, text, file, link, note } = self;
        let kind = if file.is_some() { "file" } else { "command" };
        let file = file.as_ref().map(|file| file.display().to_string());
        json!({"client": client, "title": title, "kind": kind, "text": text, "file": file,
            "link": link, "note": note})
    }
}

/// A word of a command for a shell.
fn word(text: &str) -> String {
    let is_plain = |it: char| it.is_ascii_alphanumeric() || "-_./:@%+,".contains(it);
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// What is easily wrong with a client.
fn pitfall(client: &KnownClient) -> &'static str {
    match client.id {
        "claude-code" => "Without the type, Claude Code takes the entry for a command.",
        "claude-desktop" => {
            "This file is for commands, so the bridge connects to the URL. On macOS the folder is \
             ~/Library/Application Support/Claude."
        }
        "amazon-q" => "This file is for commands, so the bridge connects to the URL.",
        "vscode" => {
            "The object is called servers. On macOS the folder is ~/Library/Application \
             Support/Code/User."
        }
        "windsurf" => "The URL is called serverUrl.",
        "gemini" => "The URL is called httpUrl.",
        "zed" => "The object is called context_servers.",
        _ => "",
    }
}

/// All snippets for an endpoint. `key` says whether it wants a key.
fn snippets(entry: &NewEntry) -> Vec<Snippet> {
    let has_key = entry.key_variable.is_some();
    // The files of whoever reads this, wherever their home is.
    let around = Surroundings::new([("HOME".to_owned(), "~".to_owned())], "");
    let mut all = Vec::new();
    for client in KnownClient::all() {
        if client.id == "claude-code" {
            all.push(claude_command(client, entry));
        }
        let Some(file) = client.file(&around) else { continue };
        let Ok(text) = client.example(&file, entry) else { continue };
        let is_literal = has_key && !client.knows_variables();
        let link = client.link(entry).filter(|_| !is_literal);
        let key = match (has_key, is_literal, client.asks_for_key()) {
            (false, ..) => String::new(),
            (_, true, _) => format!("Write your key in the place of {KEY_HERE}."),
            (.., true) => format!("{} asks for the key once, and keeps it.", client.name),
            _ => format!("The variable {KEY_VARIABLE} has your key."),
        };
        let note = [pitfall(client), &key].join(" ").trim().to_owned();
        let note = Some(note).filter(|note| !note.is_empty());
        let (client, title) = (client.id, client.name);
        all.push(Snippet { client, title, text, file: Some(file), link, note });
        all.push(install_command(client, title, entry));
    }
    all.extend(programs(entry));
    all
}

fn claude_command(client: &KnownClient, entry: &NewEntry) -> Snippet {
    let [name, url] = [&entry.name, &entry.url].map(|text| word(text));
    let key = entry.key_variable.as_ref();
    let header = key.map(|key| format!(" --header 'Authorization: Bearer ${{{key}}}'"));
    let header = header.unwrap_or_default();
    let text = format!("claude mcp add --transport http {name} {url}{header}");
    let note =
        key.map(|key| format!("The variable {key} has your key whenever Claude Code starts."));
    Snippet::command(client.id, client.name, text, &note.unwrap_or_default())
}

fn install_command(client: &'static str, title: &'static str, entry: &NewEntry) -> Snippet {
    let [name, url] = [&entry.name, &entry.url].map(|text| word(text));
    let name = if name == GATEWAY { String::new() } else { format!(" --name {name}") };
    let key = entry.key_variable.as_ref();
    let header = key.map(|key| format!(" --header \"Authorization: Bearer ${key}\""));
    let header = header.unwrap_or_default();
    let text = format!("switchboard install --client {client} --url {url}{name}{header}");
    let note = "Writes the entry for you: it shows the change, asks, and keeps a copy of the file.";
    Snippet::command(client, title, text, note)
}

/// For programs: requests by hand in both eras, and the SDKs.
fn programs(entry: &NewEntry) -> Vec<Snippet> {
    let url = &entry.url;
    let key = entry.key_variable.as_deref();
    let header = key.map(|key| format!(" \\\n  -H \"Authorization: Bearer ${key}\""));
    let header = header.unwrap_or_default();
    let curl = |more: &str, body: &Value| {
        format!(
            "curl {}{header} \\\n  -H 'Content-Type: application/json' \\\n  \
             -H 'Accept: application/json, text/event-stream'{more} \\\n  -d '{body}'",
            word(url)
        )
    };
    let about = json!({"name": "curl", "version": "1"});
    let [new, old] = [Revision::NEWEST_MODERN, Revision::NEWEST_LEGACY].map(Revision::as_str);
    let modern = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": {
        (meta::VERSION): new, (meta::CLIENT): about, (meta::CAPABILITIES): {},
    }}});
    let legacy = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": old, "capabilities": {}, "clientInfo": about,
    }});
    let revision =
        format!(" \\\n  -H 'MCP-Protocol-Version: {new}' \\\n  -H 'Mcp-Method: tools/list'");
    let quoted = Value::from(url.as_str());
    let options = key.map(|key| {
        format!(
            ", {{\n  requestInit: {{ headers: {{ Authorization: `Bearer ${{process.env.{key}}}` }} \
             }},\n}}"
        )
    });
    let typescript = format!(
        "import {{ Client }} from '@modelcontextprotocol/sdk/client/index.js';\n\
         import {{ StreamableHTTPClientTransport }} from \
         '@modelcontextprotocol/sdk/client/streamableHttp.js';\n\n\
         const client = new Client({{ name: 'example', version: '1.0.0' }});\n\
         await client.connect(new StreamableHTTPClientTransport(new URL({quoted}){}));\n\
         console.log((await client.listTools()).tools.map((tool) => tool.name));\n\
         await client.close();\n",
        options.unwrap_or_default()
    );
    let (imports, headers) = match key {
        None => ("import asyncio", String::new()),
        Some(key) => (
            "import asyncio\nimport os",
            format!(", headers={{\"Authorization\": \"Bearer \" + os.environ[\"{key}\"]}}"),
        ),
    };
    let python = format!(
        "{imports}\n\nfrom mcp import ClientSession\n\
         from mcp.client.streamable_http import streamablehttp_client\n\n\n\
         async def main():\n    \
         async with streamablehttp_client({quoted}{headers}) as (read, write, _):\n        \
         async with ClientSession(read, write) as session:\n            \
         await session.initialize()\n            \
         print([tool.name for tool in (await session.list_tools()).tools])\n\n\n\
         asyncio.run(main())\n"
    );
    let era = format!("Revision {new}: each request stands alone.");
    let hello = "Earlier revisions: the answer has the header Mcp-Session-Id, which every later \
                 request repeats.";
    vec![
        Snippet::command("curl", "curl", curl(&revision, &modern), &era),
        Snippet::command("curl", "curl", curl("", &legacy), hello),
        Snippet::command(
            "typescript",
            "TypeScript",
            typescript,
            "The package is @modelcontextprotocol/sdk.",
        ),
        Snippet::command("python", "Python", python, "The package is mcp."),
    ]
}

impl Console {
    /// How to connect clients to a place.
    pub(super) fn snippets(&self, viewer: &Viewer, query: &HashMap<String, String>) -> ApiResult {
        let path = query.get("place").map_or("/mcp", String::as_str);
        let unknown = || ApiError::not_found(format!("there is no endpoint {path:?}"));
        let place = self.place_at(path).filter(|place| viewer.has_place(place));
        let name = match place.ok_or_else(unknown)? {
            Place::All => GATEWAY.to_owned(),
            Place::Server(name) | Place::Group(name) => name,
        };
        let access = &self.gateway.plan().access;
        let wants_key = !access.is_open() && !access.principals.is_empty();
        let url = format!("{}{path}", self.sign_ins.gateway());
        let entry = NewEntry {
            name,
            url: url.clone(),
            headers: Vec::new(),
            key_variable: wants_key.then(|| KEY_VARIABLE.to_owned()),
            // Theirs may be elsewhere.
            program: GATEWAY.to_owned(),
        };
        let client = query.get("client");
        let all = snippets(&entry);
        let meant = all.iter().filter(|it| client.is_none_or(|client| client == it.client));
        let rows: Vec<_> = meant.map(Snippet::row).collect();
        Ok(json!({"url": url, "rows": rows}))
    }

    /// What is served at a path.
    fn place_at(&self, path: &str) -> Option<Place> {
        if path == "/mcp" {
            return Some(Place::All);
        }
        let name = |prefix: &str| {
            let name = path.strip_prefix(prefix)?.strip_suffix("/mcp")?;
            Some(percent_decode_str(name).decode_utf8().ok()?.into_owned())
        };
        let plan = self.gateway.plan();
        let server = name("/servers/").filter(|name| plan.servers.contains_key(name));
        let group = name("/groups/").filter(|name| plan.groups.contains_key(name));
        server.map(Place::Server).or_else(|| group.map(Place::Group))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use switchboard_net::upstream::Target;

    use super::*;
    use crate::config::Config;

    const URL: &str = "http://127.0.0.1:3001/servers/a%20b/mcp";

    fn entry(has_key: bool) -> NewEntry {
        NewEntry {
            name: "it's a".to_owned(),
            url: URL.to_owned(),
            headers: Vec::new(),
            key_variable: has_key.then(|| KEY_VARIABLE.to_owned()),
            program: GATEWAY.to_owned(),
        }
    }

    #[test]
    fn each_file_is_read_back_as_the_same_server() {
        // C-14
        let keys = [(KEY_VARIABLE, "k"), ("INPUT_SWITCHBOARD_KEY", "k"), ("HEADER_1", "k")];
        let variables = [("HOME", "/u")].into_iter().chain(keys);
        let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let around = Surroundings::new(variables, "/w");
        for has_key in [false, true] {
            let all = snippets(&entry(has_key));
            let mut clients = 0;
            for it in &all {
                let Some(file) = &it.file else { continue };
                clients += 1;
                let file =
                    Path::new("/u").join(file.strip_prefix("~").expect("a file of the user"));
                let config = Config::parse(&file, &it.text, &around);
                let config = config.unwrap_or_else(|error| panic!("{}: {error}", it.client));
                assert_eq!(config.problems, [], "{}", it.client);
                let [server] = &*config.servers else { panic!("{}: {}", it.client, it.text) };
                assert_eq!(server.plan.name, "it's a", "{}", it.client);
                let key = if it.text.contains(KEY_HERE) { KEY_HERE } else { "k" };
                let bearer = format!("Bearer {key}");
                match &server.plan.target {
                    Target::Url { url, headers, .. } => {
                        assert_eq!(url.to_string(), URL, "{}", it.client);
                        let shown = headers.get("authorization").map(|it| it.to_str().unwrap());
                        assert_eq!(shown, has_key.then_some(&*bearer), "{}", it.client);
                    }
                    Target::Command(command) => {
                        assert_eq!(command.program, GATEWAY);
                        assert_eq!(command.args[..2], ["bridge", URL], "{}", it.client);
                        let env = command.env.iter().map(|(_, value)| &**value);
                        assert_eq!(env.collect::<Vec<_>>().len(), usize::from(has_key));
                    }
                }
                assert_eq!(
                    it.text.contains(KEY_HERE),
                    it.note.as_ref().is_some_and(|it| it.contains(KEY_HERE))
                );
            }
            assert_eq!(clients, KnownClient::all().count());
        }
    }

    #[test]
    fn a_name_cannot_leave_its_place_in_a_command() {
        let all = snippets(&entry(true));
        let claude = &all.iter().find(|it| it.client == "claude-code").unwrap().text;
        let name = r"'it'\''s a'";
        let header = "--header 'Authorization: Bearer ${SWITCHBOARD_KEY}'";
        assert_eq!(*claude, format!("claude mcp add --transport http {name} {URL} {header}"));
        assert_eq!((word("plain-1"), word("")), ("plain-1".to_owned(), "''".to_owned()));
        for it in all.iter().filter(|it| it.link.is_some()) {
            assert!(!it.text.contains(KEY_HERE), "{} would keep the place of a key", it.client);
        }
    }
}
