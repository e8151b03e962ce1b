//! Texts before and after, in all three formats.

use super::*;

const JSON: EntryPath<'_> = EntryPath { section: &["mcpServers"], is_list: false, name: "new" };
const TOML: EntryPath<'_> = EntryPath { section: &["mcp_servers"], is_list: false, name: "new" };
const TABLE: EntryPath<'_> = EntryPath { section: &["extensions"], is_list: false, name: "new" };
const LIST: EntryPath<'_> = EntryPath { section: &["mcpServers"], is_list: true, name: "new" };

fn entry(url: &str) -> Node {
    let url = Node::new(Value::Text(url.to_owned()));
    let name = Node::new(Value::Text("new".to_owned()));
    Node::object([("name", name), ("url", url)])
}

/// The text with the entry is this, and is the old one again without it.
#[track_caller]
fn check(file: &str, at: &EntryPath<'_>, before: &str, expected: &str) {
    let file = Path::new(file);
    let after = with_entry(file, before, at, &entry("u:1")).unwrap();
    assert_eq!(after, expected);
    assert_eq!(with_entry(file, &after, at, &entry("u:1")).unwrap(), after, "a second time");
    assert_eq!(without_entry(file, &after, at).unwrap(), before);
    let other = with_entry(file, &after, at, &entry("v:2")).unwrap();
    assert_eq!(other, expected.replace("u:1", "v:2"));
}

#[test]
fn json_keeps_its_layout_and_its_comments() {
    let check = |before: &str, expected: &str| check("m.json", &JSON, before, expected);
    check(
        "{\n  // mine\n  \"mcpServers\": {\n    \"a\": { \"command\": \"x\" } // why\n  },\n  \"x\": 1\n}\n",
        "{\n  // mine\n  \"mcpServers\": {\n    \"a\": { \"command\": \"x\" }, // why\n    \"new\": {\n      \
         \"name\": \"new\",\n      \"url\": \"u:1\"\n    }\n  },\n  \"x\": 1\n}\n",
    );
    check(
        "{\r\n\t\"mcpServers\": {\r\n\t\t\"a\": 1,\r\n\t},\r\n}",
        "{\r\n\t\"mcpServers\": {\r\n\t\t\"a\": 1,\r\n\t\t\"new\": {\r\n\t\t\t\"name\": \"new\",\r\n\t\t\t\
         \"url\": \"u:1\"\r\n\t\t},\r\n\t},\r\n}",
    );
    check(
        r#"{"mcpServers": {"a": {"env": {"T": "s"}}}}"#,
        r#"{"mcpServers": {"a": {"env": {"T": "s"}}, "new": { "name": "new", "url": "u:1" }}}"#,
    );
    check(
        "{ \"mcpServers\": {} }",
        "{ \"mcpServers\": {\n  \"new\": {\n    \"name\": \"new\",\n    \"url\": \"u:1\"\n  }\n} }",
    );
    check(
        "\u{feff}{\n    \"mcpServers\": {\n        /* none */\n    }\n}\n",
        "\u{feff}{\n    \"mcpServers\": {\n        /* none */\n        \"new\": {\n            \
         \"name\": \"new\",\n            \"url\": \"u:1\"\n        }\n    }\n}\n",
    );
}

#[test]
fn json_without_servers_gets_a_section() {
    let file = Path::new("m.json");
    let section = "\"mcpServers\": {\n    \"new\": {\n      \"name\": \"new\",\n      \"url\": \"u:1\"\n    }\n  }\n}\n";
    for (before, start) in [
        ("", "{\n  "),
        ("{}\n", "{\n  "),
        ("{\n  \"theme\": \"dark\"\n}\n", "{\n  \"theme\": \"dark\",\n  "),
    ] {
        let after = with_entry(file, before, &JSON, &entry("u:1")).unwrap();
        assert_eq!(after, format!("{start}{section}"));
        let without = without_entry(file, &after, &JSON).unwrap();
        assert_eq!(entry_in(file, &without, &JSON), Ok(None));
    }
}

#[test]
fn a_member_in_the_middle_leaves_the_others_as_they_are() {
    let check = |before: &str, expected: &str| {
        assert_eq!(without_entry(Path::new("m.json"), before, &JSON).unwrap(), expected);
    };
    check(r#"{"mcpServers": {"a": 1, "new": {}, "b": 2}}"#, r#"{"mcpServers": {"a": 1, "b": 2}}"#);
    check(r#"{"mcpServers": {"new": {"x": 1}, "b": 2}}"#, r#"{"mcpServers": {"b": 2}}"#);
    check(
        "{\"mcpServers\": {\n  \"new\": { \"x\": 1 }, // gone\n  // kept\n  \"b\": 2\n}}",
        "{\"mcpServers\": {\n  // gone\n  // kept\n  \"b\": 2\n}}",
    );
}

#[test]
fn toml_gets_a_table_at_its_end() {
    let check = |before: &str, expected: &str| check("c.toml", &TOML, before, expected);
    let table = "[mcp_servers.new]\nname = \"new\"\nurl = \"u:1\"\n";
    check("", table);
    check(
        "# mine\nmodel = \"x\" # why\n\n[mcp_servers.a]\ncommand = \"c\"\n",
        &format!("# mine\nmodel = \"x\" # why\n\n[mcp_servers.a]\ncommand = \"c\"\n\n{table}"),
    );
    let after =
        "[mcp_servers.new]\nurl = \"u\"\n[mcp_servers.new.env]\nA = \"b\"\n\n# other\n[b]\nx = 1\n";
    let without = without_entry(Path::new("c.toml"), after, &TOML).unwrap();
    assert_eq!(without, "\n# other\n[b]\nx = 1\n");
    let inline = "[mcp_servers]\nnew = { url = \"u\" }\na = { url = \"b\" }\n";
    let without = without_entry(Path::new("c.toml"), inline, &TOML).unwrap();
    assert_eq!(without, "[mcp_servers]\na = { url = \"b\" }\n");
    let closed = "mcp_servers = { a = { url = \"u\" } }\n";
    let refused = with_entry(Path::new("c.toml"), closed, &TOML, &entry("u:1"));
    assert_eq!(refused, Err(EditError::Unusual));
}

#[test]
fn yaml_gets_lines_behind_its_other_servers() {
    let table = "  new:\n    name: new\n    url: u:1\n";
    check(
        "config.yaml",
        &TABLE,
        "# mine\nextensions:\n  # git\n  git:\n    cmd: uvx # why\n\n# provider\nGOOSE_PROVIDER: x\n",
        &format!(
            "# mine\nextensions:\n  # git\n  git:\n    cmd: uvx # why\n{table}\n# provider\nGOOSE_PROVIDER: x\n"
        ),
    );
    check(
        "config.yaml",
        &TABLE,
        "a: 1\nextensions: {}\nb: 2\n",
        &format!("a: 1\nextensions:\n{table}b: 2\n"),
    );
    check(
        "config.yaml",
        &TABLE,
        "extensions: {} # mine\nb: 2\n",
        &format!("extensions: # mine\n{table}b: 2\n"),
    );
    let list = "- name: new\n  url: u:1\n";
    check(
        "config.yaml",
        &LIST,
        "name: x\nmcpServers:\n- name: a\n  command: |\n    b\n",
        &format!("name: x\nmcpServers:\n- name: a\n  command: |\n    b\n{list}"),
    );
    let file = Path::new("config.yaml");
    let after = with_entry(file, "name: x # no line end", &LIST, &entry("u:1")).unwrap();
    assert_eq!(after, "name: x # no line end\nmcpServers:\n  - name: new\n    url: u:1\n");
    let empty = without_entry(file, &after, &LIST).unwrap();
    assert_eq!(empty, "name: x # no line end\nmcpServers: []\n");
    for flow in ["extensions: {git: {cmd: x}}\n", "{extensions: {}}\n", "a: 1\n...\n"] {
        let refused = with_entry(file, flow, &TABLE, &entry("u:1"));
        assert_eq!(refused, Err(EditError::Unusual), "{flow}");
    }
}

#[test]
fn a_file_that_makes_no_sense_is_refused_with_the_place() {
    for (file, text) in [("m.json", "{\n"), ("c.toml", "a =\n"), ("c.yaml", "a: 1\n  b: 2\n")] {
        let refused = with_entry(Path::new(file), text, &JSON, &entry("u:1")).unwrap_err();
        assert!(refused.to_string().starts_with(&format!("{file}:")), "{refused}");
        assert!(refused.instead().contains("left as it is"), "{}", refused.instead());
    }
}
