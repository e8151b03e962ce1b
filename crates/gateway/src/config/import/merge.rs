//! Puts servers into a file, and leaves everything else in it as it is.

use jsonc_parser::cst::{CstInputValue, CstObject, CstRootNode};

use super::{Fate, Import, Node, Value};
use crate::config::shape::SECTIONS;
use crate::config::tree;

/// Why servers cannot be put into a file.
#[non_exhaustive]
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum MergeError {
    /// It is not JSON.
    #[error("this is not JSON: {0}")]
    Syntax(String),
    /// Its servers are no object, so that there is no place for names.
    #[error("the file has no object to put servers into")]
    NoObject,
}

impl Import {
    /// `text` with what is added. Comments, order and the way it is written stay.
    /// The section that has servers gets them, else `mcpServers`.
    pub fn merge(&self, text: &str) -> Result<String, MergeError> {
        let text = if text.trim().is_empty() { "{}\n" } else { text };
        let root = CstRootNode::parse(text, &tree::options());
        let root = root.map_err(|error| MergeError::Syntax(error.to_string()))?;
        let file = root.object_value().ok_or(MergeError::NoObject)?;
        let section = section(&file).ok_or(MergeError::NoObject)?;
        section.ensure_multiline();
        for candidate in &self.candidates {
            if let Fate::Added(name) = &candidate.fate {
                section.append(name, input(&candidate.node));
            }
        }
        Ok(root.to_string())
    }
}

fn section(file: &CstObject) -> Option<CstObject> {
    let present = SECTIONS.iter().find(|name| file.get(name).is_some());
    file.ensure_multiline();
    file.object_value_or_create(present.unwrap_or(&SECTIONS[0]))
}

fn input(node: &Node) -> CstInputValue {
    match &node.value {
        Value::Null => CstInputValue::Null,
        Value::Bool(bool) => CstInputValue::Bool(*bool),
        Value::Number(number) => CstInputValue::Number(number.clone()),
        Value::Text(text) => CstInputValue::String(text.clone()),
        Value::List(items) => CstInputValue::Array(items.iter().map(input).collect()),
        Value::Table(members) => {
            let members = members.iter().map(|(key, node)| (key.text.clone(), input(node)));
            CstInputValue::Object(members.collect())
        }
    }
}
