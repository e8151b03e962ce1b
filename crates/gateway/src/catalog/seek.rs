//! Finds tools of the catalog by plain words.

use std::collections::HashMap;

use bytes::Bytes;
use serde_json::Value;
use switchboard_net::roster::Kind;
use switchboard_proto::jsonrpc::Part;

use super::Catalog;
use crate::search::{Document, Index};

/// An index of the tools, and where in the list each is.
#[derive(Debug)]
pub(super) struct Seek {
    index: Index,
    places: HashMap<String, usize>,
}

impl Catalog {
    /// The tools that fit `question` best, as they are listed; `limit` at most.
    pub fn find(&self, question: &str, limit: usize) -> Vec<Bytes> {
        let list = &self.lists[Kind::Tools as usize];
        let seek = self.seek.get_or_init(|| self.index());
        let found = seek.index.find(question, limit);
        let places = found.iter().filter_map(|found| seek.places.get(found.name));
        places.filter_map(|place| list.get(*place)).map(|item| item.text.clone()).collect()
    }

    fn index(&self) -> Seek {
        let list = &self.lists[Kind::Tools as usize];
        let value = |text| Part::new(text).value().unwrap_or_default();
        let tools: Vec<Value> = list.iter().map(|item| value(&item.text)).collect();
        let names = |tool: &Value| -> Vec<String> {
            let properties = tool["inputSchema"]["properties"].as_object();
            properties.into_iter().flatten().map(|(name, _)| name.clone()).collect()
        };
        let arguments: Vec<_> = tools.iter().map(names).collect();
        let arguments: Vec<Vec<&str>> =
            arguments.iter().map(|names| names.iter().map(String::as_str).collect()).collect();
        let documents =
            tools.iter().zip(&arguments).zip(list).map(|((tool, arguments), item)| Document {
                name: tool["name"].as_str().unwrap_or_default(),
                title: tool["title"].as_str().unwrap_or_default(),
                description: tool["description"].as_str().unwrap_or_default(),
                arguments,
                server: &item.server,
            });
        let index = Index::new(documents);
        let name = |tool: &Value| tool["name"].as_str().unwrap_or_default().to_owned();
        let places = tools.iter().enumerate().map(|(place, tool)| (name(tool), place)).collect();
        Seek { index, places }
    }
}
