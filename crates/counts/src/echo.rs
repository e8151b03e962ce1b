//! What the server behind a bridge or a gateway says: as little work as an answer takes.
//!
//! Needs the standard library alone, so that the program on stdio links in a second.

/// The revisions of the two kinds of server.
const LEGACY: &str = "2025-11-25";
const MODERN: &str = "2026-07-28";

/// A server of one era that has a tool `echo`, and others that nobody calls.
#[derive(Clone, Debug)]
pub(crate) struct EchoServer {
    is_modern: bool,
    tools: String,
}

impl EchoServer {
    /// A server with so many tools.
    pub(crate) fn new(is_modern: bool, tools: usize) -> Self {
        let tools: Vec<_> = (0..tools).map(definition).collect();
        Self { is_modern, tools: tools.join(",") }
    }

    /// What to say to a message, if it wants an answer.
    pub(crate) fn answer(&self, message: &str) -> Option<String> {
        let id = between(message, r#""id":"#, [',', '}'])?;
        let method = between(message, r#""method":""#, ['"'])?;
        let result = match (method, self.is_modern) {
            ("tools/call", _) => {
                let text = between(message, r#""text":""#, ['"']).unwrap_or_default();
                self.result(&format!(r#""content":[{{"type":"text","text":"{text}"}}]"#), false)
            }
            ("tools/list", _) => self.result(&format!(r#""tools":[{}]"#, self.tools), true),
            ("initialize", false) => format!(
                r#""result":{{"protocolVersion":"{LEGACY}","capabilities":{{"tools":{{}}}},"serverInfo":{{"name":"echo","version":"1"}}}}"#
            ),
            ("server/discover", true) => {
                let found =
                    format!(r#""supportedVersions":["{MODERN}"],"capabilities":{{"tools":{{}}}}"#);
                self.result(&found, true)
            }
            ("ping", false) => r#""result":{}"#.to_owned(),
            _ => r#""error":{"code":-32601,"message":"no such method"}"#.to_owned(),
        };
        Some(format!(r#"{{"jsonrpc":"2.0","id":{id},{result}}}"#))
    }

    /// A result, with what a modern one has besides; `is_cached` if it says how long it holds.
    fn result(&self, members: &str, is_cached: bool) -> String {
        let more = match (self.is_modern, is_cached) {
            (false, _) => "",
            (true, false) => r#""resultType":"complete","#,
            // Hours: else the gateway would read lists again each second. What is left of
            // them has seven digits throughout, so that all answers have one length.
            (true, true) => r#""resultType":"complete","ttlMs":8000000,"cacheScope":"public","#,
        };
        format!(r#""result":{{{more}{members}}}"#)
    }
}

/// The definition of a tool: `echo`, and then tools of other names.
pub(crate) fn definition(number: usize) -> String {
    let name = if number == 0 { "echo".to_owned() } else { format!("tool_{number}") };
    format!(
        r#"{{"name":"{name}","description":"gives back its text","inputSchema":{{"type":"object","properties":{{"text":{{"type":"string"}}}}}}}}"#
    )
}

/// What is between `start` and the first of `ends` after it.
pub(crate) fn between<'t, const N: usize>(
    text: &'t str,
    start: &str,
    ends: [char; N],
) -> Option<&'t str> {
    let (_, rest) = text.split_once(start)?;
    rest.split(ends).next()
}
