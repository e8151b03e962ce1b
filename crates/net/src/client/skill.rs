//! Skills: instructions that a server offers, read only when they are wanted
//! and used only if they are what was listed (SEP-2640).
//!
//! Listing reads no file. A file that is read is held against the size and the
//! digest in the list, and the header of `SKILL.md` against the one there.
//! What differs is not handed out.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::digest::{SHA256, digest};
use serde_json::{Map, Value, json};

use super::{CallError, CallOptions, Client};

mod header;

/// The extension that skills are.
const EXTENSION: &str = "io.modelcontextprotocol/skills";

/// A skill as its server lists it.
#[derive(Clone, Debug, PartialEq)]
pub struct Skill {
    entry: Value,
}

impl Skill {
    /// What it is called.
    pub fn name(&self) -> &str {
        self.entry["frontmatter"]["name"].as_str().unwrap_or_default()
    }

    /// What it is good for.
    pub fn description(&self) -> &str {
        self.entry["frontmatter"]["description"].as_str().unwrap_or_default()
    }

    /// Where its `SKILL.md` is.
    pub fn uri(&self) -> &str {
        self.entry["uri"].as_str().unwrap_or_default()
    }

    /// Where its files are, `SKILL.md` included.
    pub fn files(&self) -> impl Iterator<Item = &str> {
        let files = self.entry["resources"].as_array().into_iter().flatten();
        files.filter_map(|file| file["uri"].as_str())
    }

    /// Whether `content` is what was listed for the file at `uri`.
    fn check(&self, uri: &str, content: &[u8]) -> Result<(), String> {
        let mut files = self.entry["resources"].as_array().into_iter().flatten();
        let listed = files.find(|file| file["uri"] == uri);
        let listed = listed.ok_or_else(|| format!("{uri} is not listed"))?;
        if listed["size"].as_u64().is_some_and(|size| size != content.len() as u64) {
            return Err(format!("{uri} has not the size that was listed"));
        }
        let found = digest(&SHA256, content)
            .as_ref()
            .iter()
            .fold(String::from("sha256:"), |text, byte| format!("{text}{byte:02x}"));
        match listed["digest"].as_str() {
            Some(expected) if expected.eq_ignore_ascii_case(&found) => Ok(()),
            Some(_) => Err(format!("{uri} has not the digest that was listed")),
            None => Err(format!("{uri} is listed without a digest")),
        }
    }
}

impl Client {
    /// All skills of the server. None of their files is read.
    pub async fn skills(&self) -> Result<Vec<Skill>, CallError> {
        if !self.may_extend(EXTENSION) {
            return Err(CallError::Unsupported { what: "skills".to_owned() });
        }
        let extensions = Map::from_iter([(EXTENSION.to_owned(), json!({}))]);
        let options = CallOptions { extensions, ..CallOptions::default() };
        let list = self.all_with("skills/list", "skills", &options).await?;
        Ok(list.into_iter().map(|entry| Skill { entry }).collect())
    }

    /// The text of a skill's `SKILL.md`, if it is what was listed.
    pub async fn load_skill(&self, skill: &Skill) -> Result<String, CallError> {
        let content = self.skill_file(skill, skill.uri()).await?;
        let text = String::from_utf8(content).map_err(|_| refused("SKILL.md is not text"))?;
        let header = header::read(&text).map_err(refused)?;
        if Value::from(header) != skill.entry["frontmatter"] {
            return Err(refused("the header of SKILL.md is not the one that was listed"));
        }
        Ok(text)
    }

    /// One of a skill's files, if it is what was listed.
    pub async fn skill_file(&self, skill: &Skill, uri: &str) -> Result<Vec<u8>, CallError> {
        let read = self.read(uri).await?;
        let content = &read["contents"][0];
        let content = match (content["text"].as_str(), content["blob"].as_str()) {
            (Some(text), _) => text.as_bytes().to_vec(),
            (None, Some(blob)) => STANDARD.decode(blob).map_err(|_| refused("no Base64"))?,
            (None, None) => return Err(refused("no content")),
        };
        skill.check(uri, &content).map_err(refused)?;
        Ok(content)
    }
}

fn refused(what: impl Into<String>) -> CallError {
    CallError::Unusable { what: what.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn skill(size: u64) -> Skill {
        let digest = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        let file = json!({"uri": "skill://a/x", "digest": digest, "size": size});
        Skill { entry: json!({"resources": [file, {"uri": "skill://a/y"}]}) }
    }

    #[test]
    fn a_file_is_what_was_listed_or_nothing() {
        assert_eq!(skill(3).check("skill://a/x", b"abc"), Ok(()));
        for (size, uri, content) in [
            (3, "skill://a/x", "abd"),
            (4, "skill://a/x", "abc"),
            (3, "skill://a/y", "abc"),
            (3, "skill://a/z", "abc"),
        ] {
            assert!(skill(size).check(uri, content.as_bytes()).is_err(), "{uri} {content}");
        }
    }
}
