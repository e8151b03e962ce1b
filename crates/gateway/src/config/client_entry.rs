//! What an entry for a server looks like in the file of each client, how it is written and taken
//! out again, and the links by which some clients add one.

use std::borrow::Cow;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value as Json, json};

use super::client_table::KnownClient;
use super::text_edit::{EditError, EntryPath, entry_in, with_entry, without_entry};
use super::tree::{Node, Value};

/// What the gateway is called in the files of clients, and what this program is called.
pub const GATEWAY_NAME: &str = "switchboard";

/// Where `switchboard serve` is, unless it is told otherwise.
pub const USUAL_GATEWAY: &str = "http://127.0.0.1:3001";

/// A server at a URL, for the file of a client.
#[derive(Clone)]
pub struct NewEntry {
    /// What the client will call it.
    pub name: String,
    /// Its URL.
    pub url: String,
    /// Headers that the client is to send.
    pub headers: Vec<(String, String)>,
    /// A variable that has a key which the client is to show. Clients that know no variables get
    /// [`KEY_HERE`] in its place.
    pub key_variable: Option<String>,
    /// This program, which connects clients to the URL that only start commands.
    pub program: String,
}

/// What stands for a key in the entry of a client that knows no variables.
pub const KEY_HERE: &str = "YOUR_KEY";

/// How a client finds a key that is not in its file.
#[derive(Debug)]
enum KeyForm {
    /// It must be in the file.
    Literal,
    /// By a variable, which it writes like this.
    Variable(fn(&str) -> String),
    /// A member of its own has the name of the variable.
    Member,
}

/// How a client names servers.
#[derive(Debug)]
pub(super) struct EntryShape {
    /// The members that lead to the servers. If there are several ways, the first that is there,
    /// else the last.
    sections: &'static [&'static [&'static str]],
    /// Whether the servers are a list.
    is_list: bool,
    /// The entry of a URL; none if the client only starts commands.
    remote: Option<fn(&NewEntry) -> EntryMembers>,
    /// A link that has the client add an entry.
    link: Option<fn(&NewEntry, &Json) -> String>,
    key: KeyForm,
}

/// The members of an entry, in their order.
type EntryMembers = Vec<(&'static str, Node)>;

const fn shape(remote: fn(&NewEntry) -> EntryMembers) -> EntryShape {
    EntryShape {
        sections: &[&["mcpServers"]],
        is_list: false,
        remote: Some(remote),
        link: None,
        key: KeyForm::Literal,
    }
}

const BRACES: KeyForm = KeyForm::Variable(|name| format!("${{{name}}}"));
const ENV_BRACES: KeyForm = KeyForm::Variable(|name| format!("${{env:{name}}}"));

const PLAIN_HTTP: EntryShape = shape(|it| remote(it, Some("http"), "url"));
pub(super) const HTTP: EntryShape = EntryShape { key: BRACES, ..PLAIN_HTTP };
pub(super) const ONLY_COMMANDS: EntryShape = EntryShape { remote: None, ..PLAIN_HTTP };
pub(super) const GEMINI: EntryShape =
    EntryShape { key: BRACES, ..shape(|it| remote(it, None, "httpUrl")) };
pub(super) const WINDSURF: EntryShape =
    EntryShape { key: ENV_BRACES, ..shape(|it| remote(it, None, "serverUrl")) };
pub(super) const CLINE_ENTRY: EntryShape = shape(|it| remote(it, Some("streamableHttp"), "url"));
pub(super) const VS_CODE: EntryShape = EntryShape {
    sections: &[&["servers"]],
    link: Some(|it, entry| {
        let mut entry = entry.clone();
        entry["name"] = json!(it.name);
        if let Some(inputs) = inputs(it).and_then(|inputs| inputs.json()) {
            entry["inputs"] = inputs;
        }
        format!("vscode:mcp/install?{}", escaped(&entry.to_string()))
    }),
    key: KeyForm::Variable(|name| format!("${{input:{}}}", input_id(name))),
    ..PLAIN_HTTP
};
/// An editor made from VS Code: the links are those of VS Code.
pub(super) const VS_CODE_FORK: EntryShape = EntryShape { link: None, ..VS_CODE };
pub(super) const CURSOR: EntryShape = EntryShape {
    link: Some(|it, entry| {
        encoded_link("cursor://anysphere.cursor-deeplink/mcp/install", it, entry)
    }),
    key: ENV_BRACES,
    ..shape(|it| remote(it, None, "url"))
};
pub(super) const LM_STUDIO: EntryShape = EntryShape {
    link: Some(|it, entry| encoded_link("lmstudio://add_mcp", it, entry)),
    key: KeyForm::Literal,
    ..CURSOR
};
pub(super) const ZED: EntryShape =
    EntryShape { sections: &[&["context_servers"]], ..shape(|it| remote(it, None, "url")) };
pub(super) const OPENCODE: EntryShape = EntryShape {
    sections: &[&["mcp", "servers"], &["mcp"]],
    key: KeyForm::Variable(|name| format!("{{env:{name}}}")),
    ..shape(|it| remote(it, Some("remote"), "url"))
};
pub(super) const COPILOT: EntryShape = shape(|it| {
    let tools = ("tools", Node::new(Value::List(vec![text("*")])));
    remote(it, Some("http"), "url").into_iter().chain([tools]).collect()
});
pub(super) const CODEX: EntryShape = EntryShape {
    sections: &[&["mcp_servers"]],
    key: KeyForm::Member,
    ..shape(|it| {
        let headers = headers(it).map(|headers| ("http_headers", headers));
        let key = it.key_variable.as_deref().map(|name| ("bearer_token_env_var", text(name)));
        [("url", text(&it.url))].into_iter().chain(key).chain(headers).collect()
    })
};
pub(super) const CONTINUE: EntryShape = EntryShape {
    is_list: true,
    ..shape(|it| {
        let options = headers(it).map(|all| ("requestOptions", Node::object([("headers", all)])));
        let members =
            [("name", text(&it.name)), ("type", text("streamable-http")), ("url", text(&it.url))];
        members.into_iter().chain(options).collect()
    })
};
pub(super) const GOOSE: EntryShape = EntryShape {
    sections: &[&["extensions"]],
    link: Some(|it, _| {
        let [url, name] = [&it.url, &it.name].map(|text| escaped(text));
        let about = format!("&id={name}&name={name}&description={name}");
        format!("goose://extension?type=streamable_http&url={url}{about}")
    }),
    ..shape(|it| {
        let members = [
            ("enabled", Node::new(Value::Bool(true))),
            ("type", text("streamable_http")),
            ("name", text(&it.name)),
            // Goose does not read an entry without one.
            ("description", text(&it.name)),
            ("uri", text(&it.url)),
        ];
        let timeout = ("timeout", Node::new(Value::Number("300".to_owned())));
        let headers = headers(it).map(|headers| ("headers", headers));
        members.into_iter().chain(headers).chain([timeout]).collect()
    })
};

/// What VS Code calls the question for a key.
fn input_id(variable: &str) -> String {
    variable.to_ascii_lowercase().replace('_', "-")
}

/// The questions that VS Code asks for the key, once.
fn inputs(entry: &NewEntry) -> Option<Node> {
    let id = input_id(entry.key_variable.as_deref()?);
    let members = [
        ("type", text("promptString")),
        ("id", text(&id)),
        ("description", text(&format!("Key for {}", entry.name))),
        ("password", Node::new(Value::Bool(true))),
    ];
    Some(Node::new(Value::List(vec![Node::object(members)])))
}

fn text(text: &str) -> Node {
    Node::new(Value::Text(text.to_owned()))
}

fn headers(entry: &NewEntry) -> Option<Node> {
    let all = entry.headers.iter().map(|(name, value)| (name.as_str(), text(value)));
    (!entry.headers.is_empty()).then(|| Node::object(all))
}

fn remote(entry: &NewEntry, kind: Option<&str>, url: &'static str) -> EntryMembers {
    let kind = kind.map(|kind| ("type", text(kind)));
    let headers = headers(entry).map(|headers| ("headers", headers));
    kind.into_iter().chain([(url, text(&entry.url))]).chain(headers).collect()
}

/// The bridge to the URL. Headers go through variables: others see the arguments of a process, and
/// some clients break them at spaces.
fn command(entry: &NewEntry) -> EntryMembers {
    let mut args = vec![text("bridge"), text(&entry.url)];
    let mut env = Vec::new();
    for (index, (name, value)) in entry.headers.iter().enumerate() {
        let variable = format!("HEADER_{}", index + 1);
        args.extend([text("--header"), text(&format!("{name}:${{{variable}}}"))]);
        env.push((variable, text(value)));
    }
    let env = env.iter().map(|(name, value)| (name.as_str(), value.clone()));
    let env = (!entry.headers.is_empty()).then(|| ("env", Node::object(env)));
    let program = [("command", text(&entry.program)), ("args", Node::new(Value::List(args)))];
    program.into_iter().chain(env).collect()
}

fn escaped(text: &str) -> String {
    utf8_percent_encode(text, NON_ALPHANUMERIC).to_string()
}

/// A link with the whole entry in it.
fn encoded_link(base: &str, entry: &NewEntry, members: &Json) -> String {
    let config = escaped(&STANDARD.encode(members.to_string()));
    format!("{base}?name={}&config={config}", escaped(&entry.name))
}

/// The members that say where a server is and what it is shown. What else an entry has, its user
/// chose.
const WHERE: [&str; 12] = [
    "args",
    "bearer_token_env_var",
    "command",
    "env",
    "headers",
    "httpUrl",
    "http_headers",
    "requestOptions",
    "serverUrl",
    "type",
    "uri",
    "url",
];

/// Whether an entry of a file leads where a new one does: to the same host and port. What has our
/// name is ours, wherever it leads.
fn leads_to(there: &Node, entry: &NewEntry) -> bool {
    let end = entry.url.match_indices('/').nth(2).map_or(entry.url.len(), |(at, _)| at);
    entry.name == GATEWAY_NAME || mentions(there, &entry.url[..end])
}

fn mentions(node: &Node, origin: &str) -> bool {
    match &node.value {
        Value::Text(text) => {
            text.strip_prefix(origin).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        }
        Value::List(items) => items.iter().any(|item| mentions(item, origin)),
        Value::Table(members) => members.iter().any(|(_, node)| mentions(node, origin)),
        _ => false,
    }
}

/// What becomes of a file when an entry is taken out.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Removal {
    /// There is nothing else in it: it goes.
    NoFile,
    /// It has this text.
    Text(String),
}

impl KnownClient {
    /// Whether the client connects to URLs itself.
    pub fn takes_urls(&self) -> bool {
        self.shape.as_ref().is_some_and(|shape| shape.remote.is_some())
    }

    /// Whether the client finds a key by the name of a variable.
    pub fn knows_variables(&self) -> bool {
        self.shape.as_ref().is_some_and(|shape| !matches!(shape.key, KeyForm::Literal))
    }

    fn entry(&self, entry: &NewEntry) -> Node {
        let remote = self.shape.as_ref().and_then(|shape| shape.remote);
        let entry = &self.with_key(entry);
        Node::object(remote.map_or_else(|| command(entry), |remote| remote(entry)))
    }

    /// The entry with the header that shows the key.
    fn with_key<'e>(&self, entry: &'e NewEntry) -> Cow<'e, NewEntry> {
        let key = match (&entry.key_variable, self.shape.as_ref().map(|shape| &shape.key)) {
            (None, _) | (_, Some(KeyForm::Member)) => return Cow::Borrowed(entry),
            (Some(name), Some(KeyForm::Variable(written))) => written(name),
            (Some(_), _) => KEY_HERE.to_owned(),
        };
        let mut entry = entry.clone();
        entry.headers.push(("Authorization".to_owned(), format!("Bearer {key}")));
        Cow::Owned(entry)
    }

    /// Whether the client itself asks for a key, once.
    pub fn asks_for_key(&self) -> bool {
        matches!(self.id, "vscode" | "vscode-insiders" | "vscodium")
    }

    /// A file that has nothing but the entry, to be copied from.
    pub fn example(&self, file: &Path, entry: &NewEntry) -> Result<String, EditError> {
        let text = self.install(file, "", entry)?;
        match inputs(entry).filter(|_| self.asks_for_key()) {
            None => Ok(text),
            Some(inputs) => {
                let at = EntryPath { section: &[], is_list: false, name: "inputs" };
                with_entry(file, &text, &at, &inputs)
            }
        }
    }

    /// Where an entry is, or belongs, in a text.
    fn path<'n>(&self, file: &Path, text: &str, name: &'n str) -> Result<EntryPath<'n>, EditError> {
        let Some(shape) = &self.shape else { return Err(EditError::NoObject) };
        let (usual, others) = shape.sections.split_last().ok_or(EditError::NoObject)?;
        let path =
            |section: &'static [&'static str]| EntryPath { section, is_list: shape.is_list, name };
        for section in others {
            let (last, before) = section.split_last().ok_or(EditError::NoObject)?;
            let parent = EntryPath { section: before, is_list: false, name: last };
            // A server may be called so, too.
            let is_section = |node: &Node| node.get("type").and_then(Node::text).is_none();
            if entry_in(file, text, &parent)?.is_some_and(|node| is_section(&node)) {
                return Ok(path(section));
            }
        }
        Ok(path(usual))
    }

    /// The text of the file with the entry in it. What is there under its name gives way, but
    /// for what its user said of a server that leads to the same place.
    pub fn install(&self, file: &Path, text: &str, entry: &NewEntry) -> Result<String, EditError> {
        let at = self.path(file, text, &entry.name)?;
        let mut new = self.entry(entry);
        let there = entry_in(file, text, &at)?.filter(|there| leads_to(there, entry));
        if let (Value::Table(new), Some(Value::Table(old))) =
            (&mut new.value, there.map(|there| there.value))
        {
            let is_choice = |key: &str| !WHERE.contains(&key);
            for (key, value) in old.into_iter().filter(|(key, _)| is_choice(&key.value)) {
                match new.iter_mut().find(|(other, _)| other.value == key.value) {
                    Some((_, other)) => *other = value,
                    None => new.push((key, value)),
                }
            }
        }
        with_entry(file, text, &at, &new)
    }

    /// Whether the file has another server under the name of the entry.
    pub fn has_another(
        &self,
        file: &Path,
        text: &str,
        entry: &NewEntry,
    ) -> Result<bool, EditError> {
        let there = entry_in(file, text, &self.path(file, text, &entry.name)?)?;
        Ok(there.is_some_and(|there| !leads_to(&there, entry)))
    }

    /// Whether the file has an entry of this name.
    pub fn has_entry(&self, file: &Path, text: &str, name: &str) -> Result<bool, EditError> {
        Ok(entry_in(file, text, &self.path(file, text, name)?)?.is_some())
    }

    /// The file without the entry; none if it has none of that name. `copy` is the file as it was
    /// before the entry came: if nothing has changed since, it is that again.
    pub fn remove(
        &self,
        file: &Path,
        text: &str,
        copy: Option<&str>,
        name: &str,
    ) -> Result<Option<Removal>, EditError> {
        let at = self.path(file, text, name)?;
        let Some(entry) = entry_in(file, text, &at)? else { return Ok(None) };
        let leads_here = |before: &str| {
            let is_new = self.has_entry(file, before, name) == Ok(false);
            is_new && with_entry(file, before, &at, &entry).as_deref() == Ok(text)
        };
        Ok(Some(match copy {
            Some(copy) if leads_here(copy) => Removal::Text(copy.to_owned()),
            None if leads_here("") => Removal::NoFile,
            _ => Removal::Text(without_entry(file, text, &at)?),
        }))
    }

    /// A link that has the client add the entry, if it knows such links.
    pub fn link(&self, entry: &NewEntry) -> Option<String> {
        let link = self.shape.as_ref()?.link?;
        Some(link(entry, &self.entry(entry).json()?))
    }
}
