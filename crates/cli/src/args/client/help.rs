//! How each command is used, and examples to copy.

/// How a command is used: with a TARGET, or with a command; `rest` is what it is about.
pub(crate) fn usage(command: &str, rest: &str) -> String {
    let line = format!("switchboard {command} [OPTIONS]");
    format!("{line} TARGET{rest}\n       {line}{rest} -- CMD [ARG]...")
}

/// What the commands that call a server have in common.
macro_rules! with_common {
    ($examples:literal) => {
        concat!(
            "Examples:\n",
            $examples,
            "
A TARGET is a URL, or the name of a server in ./.mcp.json, ./mcp.json, or the files of
VS Code, Cursor, Claude, Codex and other clients; or leave it out, and write the server's
command after --.
Exit status: 0 done, 1 wrong usage or another failure, 3 not let in, 4 not reached, 5 the
tool failed; with one line of JSON on stderr, or sentences if that is a terminal."
        )
    };
}

pub(crate) const TOOLS: &str = with_common!(
    "  switchboard tools https://example.com/mcp
  switchboard tools github
  switchboard tools github --config ~/.cursor/mcp.json --output json
  switchboard tools -- npx -y @modelcontextprotocol/server-everything
"
);
pub(crate) const CALL: &str = with_common!(
    "  switchboard call https://example.com/mcp add a:=1 b:=2
  switchboard call https://example.com/mcp search --json '{\"query\": \"x\", \"limit\": 5}'
  switchboard call echo message='hello there' -- npx -y @modelcontextprotocol/server-everything

Arguments: k=v is text, k:=json is JSON; --json has all of them in one object.
"
);
pub(crate) const PROMPTS: &str = with_common!(
    "  switchboard prompts https://example.com/mcp
  switchboard prompts -- npx -y @modelcontextprotocol/server-everything
"
);
pub(crate) const PROMPT: &str = with_common!(
    "  switchboard prompt https://example.com/mcp review language=rust
  switchboard prompt https://example.com/mcp review --json '{\"code\": \"…\"}'
"
);
pub(crate) const RESOURCES: &str = with_common!(
    "  switchboard resources https://example.com/mcp
  switchboard resources github --output json
"
);
pub(crate) const READ: &str = with_common!(
    "  switchboard read https://example.com/mcp file:///a/b
  switchboard read docs://intro -- npx -y some-server
"
);
pub(crate) const COMPLETE: &str = with_common!(
    "  switchboard complete https://example.com/mcp prompt:review language py
  switchboard complete https://example.com/mcp 'file:///{path}' path src/ owner=me

What is completed is prompt:NAME or the template of a resource; then the name of its
argument, what is typed so far, and what is filled in already.
"
);
pub(crate) const DISCOVER: &str = with_common!(
    "  switchboard discover https://example.com/mcp
  switchboard discover --era legacy -- npx -y some-server
"
);
pub(crate) const LISTEN: &str = with_common!(
    "  switchboard listen https://example.com/mcp
  switchboard listen https://example.com/mcp tools file:///a/b --output json
"
);
pub(crate) const PING: &str = with_common!(
    "  switchboard ping https://example.com/mcp
  switchboard ping github && echo it is there
"
);
