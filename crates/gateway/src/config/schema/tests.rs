//! The schema and the reader must think the same of every file in `tests/files`.

use std::path::{Path, PathBuf};

use super::*;
use crate::config::{Surroundings, tree};
use crate::plan::Reading;

fn files(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/files").join(folder);
    let mut files: Vec<_> = folder.read_dir().unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    assert!(files.len() > 5, "{files:?}");
    files
}

fn around() -> Surroundings {
    let folder = env!("CARGO_MANIFEST_DIR");
    let pairs = [("HOME", folder), ("TOKEN", "s3cret"), ("LONG_TOKEN", "0123456789abcdef")];
    Surroundings::new(pairs.map(|(name, value)| (name.to_owned(), value.to_owned())), folder)
}

/// What the schema has against a file.
fn complaints(file: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(file).unwrap();
    let tree = tree::parse(file, &text).unwrap().json().unwrap();
    let validator = jsonschema::validator_for(&schema()).unwrap();
    validator.iter_errors(&tree).map(|error| error.to_string()).collect()
}

#[test]
fn what_the_reader_takes_the_schema_takes() {
    for file in files("good") {
        let reading = Reading::read(&[&file], &around());
        assert_eq!(reading.lines(), Vec::<String>::new(), "{}", file.display());
        assert_eq!(complaints(&file), Vec::<String>::new(), "{}", file.display());
    }
}

#[test]
fn what_the_reader_refuses_the_schema_refuses() {
    for file in files("broken") {
        let reading = Reading::read(&[&file], &around());
        assert!(reading.unread.is_empty(), "{:?}", reading.unread);
        assert!(!reading.is_sound(), "the reader takes {}", file.display());
        assert!(!complaints(&file).is_empty(), "the schema takes {}", file.display());
    }
}

#[test]
fn every_key_of_a_server_is_in_the_schema_with_its_purpose() {
    let schema = schema();
    let properties = schema["$defs"]["server"]["properties"].as_object().unwrap();
    for name in KEYS.iter().flat_map(|key| key.names) {
        let description = properties[*name]["description"].as_str().unwrap_or_default();
        assert!(!description.is_empty(), "{name}");
    }
    for name in ["idle_timeout", "include_tools", "env_file", "server_url"] {
        assert!(properties.contains_key(name), "{name}");
    }
}

/// `docs/config.schema.json` is what editors point at; `UPDATE=1` writes it anew.
#[test]
fn the_schema_in_the_documentation_is_this_one() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/config.schema.json");
    let text = format!("{}\n", serde_json::to_string_pretty(&schema()).unwrap());
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&file, &text).unwrap();
    }
    let known = std::fs::read_to_string(&file).unwrap_or_default();
    assert!(
        known == text,
        "docs/config.schema.json is out of date: UPDATE=1 cargo test -p switchboard-gateway schema"
    );
}
