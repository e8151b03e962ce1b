//! Where a server is, put together from its members.

use std::fmt::Write as _;
use std::path::PathBuf;

use http::{HeaderMap, HeaderName, HeaderValue, Uri};
use switchboard_net::stdio::child::Command;
use switchboard_net::upstream::{Strategy, Target};

use super::{Draft, TransportKind};
use crate::config::key::Side;
use crate::config::tree::Key;
use crate::config::{Problem, SourceLocation, expand};

impl Draft<'_> {
    /// The server's command or URL; none if it has neither, which is told.
    pub(super) fn target(&mut self, name: &Key) -> Option<Target> {
        match (self.command.take(), self.url.take()) {
            (Some(command), None) => {
                self.tell_idle(Side::Command);
                self.command(name, command)
            }
            (None, Some(url)) => {
                self.tell_idle(Side::Url);
                self.remote(url)
            }
            (Some(_), Some((place, _))) => {
                let what = "the server has a command and a URL".to_owned();
                self.reader.error(&place, what, "keep one of \"command\" and \"url\"");
                None
            }
            (None, None) => {
                // What is wrong with either was told already.
                if !self.reader.has_mistakes() {
                    let what = format!("server {:?} has neither a command nor a URL", name.text);
                    let instead = "add \"command\": \"…\" for a program, or \"url\": \"https://…\"";
                    self.reader.error(&name.place, what, instead);
                }
                None
            }
        }
    }

    fn command(
        &mut self,
        name: &Key,
        (place, words): (SourceLocation, Vec<String>),
    ) -> Option<Target> {
        if let Some((place, kind)) =
            self.kind.take().filter(|(_, kind)| *kind != TransportKind::Stdio)
            && kind != TransportKind::Auto
        {
            let what = "the transport is for URLs, but the server is a command".to_owned();
            self.reader.error(&place, what, "write \"stdio\", or leave it out");
        }
        let mut words = words.into_iter();
        let Some(program) = words.next().filter(|program| !program.trim().is_empty()) else {
            self.reader.error(&place, "the command is empty".to_owned(), "name the program to run");
            return None;
        };
        let args = self.args.take();
        if args.is_none() && words.len() == 0 && program.contains(' ') && !program.contains('/') {
            let what = "the command contains blanks, and is taken for the name of one program";
            let instead = "put what follows the program into \"args\": [\"…\"]";
            self.reader.problems.push(Problem::note(&place, what, instead));
        }
        let mut command = Command::new(self.reader.at_home(program));
        command.args = words.chain(args.into_iter().flat_map(|(_, args)| args)).collect();
        command.name.clone_from(&name.text);
        command.env = self.env_file.take().map(|file| self.file(file)).unwrap_or_default();
        command.env.append(&mut self.env);
        command.cwd = self.cwd.take().map(|cwd| self.folder(cwd));
        Some(Target::Command(command))
    }

    /// A folder may be made before the command is started.
    fn folder(&mut self, (place, path): (SourceLocation, String)) -> PathBuf {
        let path = self.reader.path(path);
        if !self.reader.is_literal() && !path.is_dir() {
            let what = format!("there is no folder {}", path.display());
            let instead = "make it before the server is started, or change \"cwd\"";
            self.reader.problems.push(Problem::note(&place, what, instead));
        }
        path
    }

    fn file(&mut self, (place, path): (SourceLocation, String)) -> Vec<(String, String)> {
        if self.reader.variables.are_left_in(&path) {
            // Nobody knows where it is; servers with other files are others.
            return vec![(path, String::new())];
        }
        let path = self.reader.path(path);
        self.reader.besides.push(path.clone());
        expand::read_env_file(&path).unwrap_or_else(|error| {
            let what = format!("cannot read {}: {error}", path.display());
            self.reader.error(&place, what, "check \"envFile\", or put the variables into \"env\"");
            Vec::new()
        })
    }

    fn remote(&mut self, (place, text): (SourceLocation, String)) -> Option<Target> {
        let strategy = match self.kind.take() {
            None | Some((_, TransportKind::Auto | TransportKind::Http)) => Strategy::HttpFirst,
            Some((_, TransportKind::StreamableHttp)) => Strategy::HttpOnly,
            Some((_, TransportKind::Sse)) => Strategy::SseOnly,
            Some((place, TransportKind::Stdio)) => {
                let what = "the transport is for commands, but the server is a URL".to_owned();
                self.reader.error(&place, what, "write \"http\", or leave it out");
                return None;
            }
        };
        if let Some((place, _)) = self.args.take() {
            let what = "a URL has no arguments".to_owned();
            self.reader.error(&place, what, "leave \"args\" out, or name a \"command\"");
        }
        let url: Option<Uri> = text.trim().parse().ok();
        let url = url.filter(|url| matches!(url.scheme_str(), Some("http" | "https")));
        let url = url.or_else(|| self.unfilled(&text));
        let Some(url) = url.filter(|url| url.host().is_some_and(|host| !host.is_empty())) else {
            let what = "the URL is not one of http:// or https://".to_owned();
            self.reader.error(&place, what, "write it in full: \"https://example.com/mcp\"");
            return None;
        };
        if url.authority().is_some_and(|authority| authority.as_str().contains('@')) {
            let what = "the URL contains a user name or a password".to_owned();
            let instead = "send it as a header: \"headers\": { \"Authorization\": \"Basic ${…}\" }";
            self.reader.error(&place, what, instead);
            return None;
        }
        let headers = self.header_map();
        Some(Target::Url { url, strategy, headers })
    }

    /// What stands for a URL whose variables stay what they are, and which is none
    /// without them: its host is the first of them.
    fn unfilled(&self, text: &str) -> Option<Uri> {
        if !self.reader.variables.are_left_in(text) {
            return None;
        }
        let name = text.split_once("${")?.1;
        let end = name.find(|c: char| c != '_' && !c.is_ascii_alphanumeric())?;
        let mut url = format!("http://{}/", &name[..end]);
        for byte in text.bytes() {
            write!(url, "{byte:02x}").expect("a string takes everything");
        }
        url.parse().ok()
    }

    fn header_map(&mut self) -> HeaderMap {
        let mut map = HeaderMap::new();
        for (key, value) in std::mem::take(&mut self.headers) {
            let Ok(name) = key.text.trim().parse::<HeaderName>() else {
                let what = format!("{:?} is no name of a header", key.text);
                self.reader.error(&key.place, what, "use letters, digits and dashes");
                continue;
            };
            let Ok(mut value) = HeaderValue::from_str(value.trim()) else {
                let what = format!("header {name} contains what no header may contain");
                self.reader.error(&key.place, what, "look for a line break, also in its variables");
                continue;
            };
            // Any of them may be a token.
            value.set_sensitive(true);
            map.insert(name, value);
        }
        map
    }
}
