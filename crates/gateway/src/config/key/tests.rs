//! Keys as the documentation has them, and as they are mistyped.

use std::path::Path;

use super::*;
use crate::config::{Config, Surroundings};

#[test]
fn a_slip_of_the_pen_leads_to_the_key_that_was_meant() {
    let check = |name: &str| similar(name).unwrap_or("nothing");
    assert_eq!(check("comand"), "command");
    assert_eq!(check("Command"), "command");
    assert_eq!(check("agrs"), "args");
    assert_eq!(check("arguments"), "args");
    assert_eq!(check("header"), "headers");
    assert_eq!(check("URL"), "url");
    assert_eq!(check("enviroment"), "environment");
    assert_eq!(check("startup-timeout-sec"), "startup_timeout_sec");
    assert_eq!(check("colour"), "nothing");
    assert_eq!(check("x"), "nothing");
}

/// The keys in the first column of the tables below a line of `docs/configuration.md`,
/// up to the next heading.
fn documented(below: &str) -> Vec<String> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/configuration.md");
    let text = std::fs::read_to_string(file).unwrap();
    let rows = text.lines().skip_while(|line| !line.starts_with(below)).skip(1);
    let rows = rows.skip_while(|line| !line.starts_with('|'));
    // The first two are its head.
    let rows: Vec<_> = rows.take_while(|line| line.starts_with('|')).skip(2).collect();
    let cells = rows.iter().map(|row| row.split('|').nth(1).unwrap_or_default());
    let keys: Vec<_> =
        cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).map(ToOwned::to_owned).collect();
    assert!(keys.len() > 4, "{below}: {rows:?}");
    keys
}

fn snake(name: &str) -> String {
    let letters = name.chars().map(|letter| match letter {
        'A'..='Z' => format!("_{}", letter.to_ascii_lowercase()),
        _ => letter.to_string(),
    });
    letters.collect()
}

/// What a file of TOML is told about its keys; what their values should be is not
/// asked here.
fn unknown(text: &str) -> Vec<String> {
    let config = Config::parse(Path::new("m.toml"), text, &Surroundings::default()).unwrap();
    let told = config.problems.iter().map(ToString::to_string);
    told.filter(|line| line.contains("unknown key") || line.contains("there is no key")).collect()
}

#[test]
fn every_documented_key_may_be_written_in_snake_case() {
    let server = "[mcp_servers.b]\n";
    let prompts = ["includePrompts", "excludePrompts", "includeResources", "excludeResources"];
    let tables = [
        (server, documented("### Keys of a server")),
        (server, prompts.map(ToOwned::to_owned).to_vec()),
        ("[mcp_servers.b.oauth]\n", documented("### Keys of `oauth`")),
        ("[switchboard]\n", documented("### Keys of the section `switchboard`")),
        ("[switchboard.keys.ada]\n", documented("### Keys of a person")),
        ("[switchboard.limits]\n", documented("### Limits")),
    ];
    for (table, keys) in tables {
        for key in keys {
            for name in [snake(&key), key] {
                let text = format!("{table}{name} = 1\n[mcp_servers.a]\ncommand = \"c\"\n");
                assert_eq!(unknown(&text), Vec::<String>::new(), "{name} in {table}");
            }
        }
    }
    assert_eq!(unknown("[switchboard]\nprot = 1\n").len(), 1, "it can fail");
}

#[test]
fn keys_in_snake_case_mean_the_same() {
    for key in KEYS {
        for name in key.names {
            let found = find(KEYS, &snake(name)).map(|found| found.names);
            assert_eq!(found, Some(key.names), "{name}");
        }
    }
    let text = "[mcp_servers.b]\ncommand = \"c\"\ninclude_tools = [\"get_*\"]\n\
                exclude_tools = [\"get_x\"]\nworking_directory = \"/\"\n";
    let config = Config::parse(Path::new("m.toml"), text, &Surroundings::default()).unwrap();
    assert_eq!(config.problems, []);
    let tools = &config.servers[0].plan.tools;
    assert!(tools.lets("get_a") && !tools.lets("get_x") && !tools.lets("put"), "{tools:?}");
}
