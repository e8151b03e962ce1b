//! What all servers offer, as one list of each kind.
//!
//! ```text
//!   definitions of each server ──▶ names made unique, nothing else touched ──▶ lists, pages
//!                                └▶ tables: whose is this tool, prompt, resource
//! ```
//!
//! Tools and prompts get a name with their server in front ([`crate::name`]).
//! Resources keep their URI, for others refer to it; the first server that has
//! one is the one that is asked for it.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value;
use switchboard_net::roster::{Definition, Kind};
use switchboard_proto::patch;

use crate::name;
use template::Pattern;

mod template;

/// Definitions on one page. Many clients read the first page only, so it is a large one.
pub const PAGE: usize = 1000;

/// What is offered, and whose it is.
#[derive(Debug, Default)]
pub struct Catalog {
    lists: [Vec<Item>; 4],
    tools: HashMap<String, Owned>,
    prompts: HashMap<String, Owned>,
    resources: HashMap<String, Arc<str>>,
    templates: Vec<(Pattern, Arc<str>)>,
    collisions: Vec<Collision>,
}

/// Whose something is, and what its server calls it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Owned {
    /// The server.
    pub server: Arc<str>,
    /// The name there.
    pub name: String,
}

/// Something that two servers offer under one URI, or one server twice.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Collision {
    /// Its URI or name.
    pub name: String,
    /// The server that keeps it.
    pub kept: Arc<str>,
    /// The server whose it is not.
    pub lost: Arc<str>,
}

/// A part of a list.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Page {
    /// The definitions.
    pub items: Vec<Bytes>,
    /// Where the next page begins, if there is one.
    pub next: Option<String>,
}

/// A cursor that was not made here.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error("params.cursor is none of ours")]
pub struct BadCursor;

#[derive(Clone, Debug, Eq, PartialEq)]
struct Item {
    server: Arc<str>,
    /// Which one of its server it is.
    index: usize,
    text: Bytes,
}

impl Catalog {
    /// What these are together. The order of the servers is that of their names,
    /// and each has its own within.
    pub fn new(mut definitions: Vec<Definition>) -> Self {
        definitions.sort_by(|one, other| one.server.cmp(&other.server));
        let mut catalog = Self::default();
        for definition in definitions {
            catalog.add(&definition);
        }
        catalog
    }

    fn add(&mut self, definition: &Definition) {
        let Definition { server, kind, .. } = definition;
        let own = definition.name().into_owned();
        let text = match kind {
            Kind::Tools => named(&mut self.tools, definition, own),
            Kind::Prompts => named(&mut self.prompts, definition, own),
            Kind::Resources => match self.resources.entry(own) {
                Entry::Vacant(free) => {
                    free.insert(Arc::clone(server));
                    Ok(definition.text.clone())
                }
                Entry::Occupied(taken) => Err((taken.key().clone(), Arc::clone(taken.get()))),
            },
            Kind::Templates => {
                self.templates.push((Pattern::new(&own), Arc::clone(server)));
                Ok(definition.text.clone())
            }
        };
        match text {
            Ok(text) => {
                let list = &mut self.lists[*kind as usize];
                let index = list.iter().rev().take_while(|item| item.server == *server).count();
                list.push(Item { server: Arc::clone(server), index, text });
            }
            Err((name, kept)) => {
                self.collisions.push(Collision { name, kept, lost: Arc::clone(server) });
            }
        }
    }

    /// Whether two offer the same of one kind.
    pub fn is_same(&self, other: &Self, kind: Kind) -> bool {
        self.lists[kind as usize] == other.lists[kind as usize]
    }

    /// How many of a kind there are.
    pub fn count(&self, kind: Kind) -> usize {
        self.lists[kind as usize].len()
    }

    /// What is not offered because something else has its place.
    pub fn collisions(&self) -> &[Collision] {
        &self.collisions
    }

    /// A page of a list: a cursor says which server's turn it is, and how far it was read.
    pub fn page(&self, kind: Kind, cursor: Option<&str>, size: usize) -> Result<Page, BadCursor> {
        let list = &self.lists[kind as usize];
        let start = match cursor {
            None => 0,
            Some(cursor) => {
                let (index, server) = cursor.split_once(':').ok_or(BadCursor)?;
                let index: usize = index.parse().map_err(|_| BadCursor)?;
                list.partition_point(|item| (&*item.server, item.index) < (server, index))
            }
        };
        let items = list[start..].iter().take(size).map(|item| item.text.clone()).collect();
        let next = list.get(start.saturating_add(size));
        Ok(Page { items, next: next.map(|item| format!("{}:{}", item.index, item.server)) })
    }

    /// Whose tool this is.
    pub fn tool(&self, offered: &str) -> Option<&Owned> {
        self.tools.get(offered)
    }

    /// Whose prompt this is.
    pub fn prompt(&self, offered: &str) -> Option<&Owned> {
        self.prompts.get(offered)
    }

    /// Whose resource this is: the one that lists it, else the one whose template fits best.
    pub fn resource(&self, uri: &str) -> Option<&Arc<str>> {
        self.resources.get(uri).or_else(|| {
            let fitting = self.templates.iter().filter(|(pattern, _)| pattern.fits(uri));
            // Of equals the first.
            let best = fitting.rev().max_by_key(|(pattern, _)| pattern.literal());
            best.map(|(_, server)| server)
        })
    }

    /// Whose template this is, or whose resource.
    pub fn template(&self, text: &str) -> Option<&Arc<str>> {
        let named = self.templates.iter().find(|(pattern, _)| pattern.text() == text);
        named.map(|(_, server)| server).or_else(|| self.resource(text))
    }
}

/// The definition under its offered name; whose that name is, if it is taken.
fn named(
    table: &mut HashMap<String, Owned>,
    definition: &Definition,
    own: String,
) -> Result<Bytes, (String, Arc<str>)> {
    let offered = name::offered(&definition.server, &own);
    match table.entry(offered) {
        Entry::Occupied(taken) => Err((taken.key().clone(), Arc::clone(&taken.get().server))),
        Entry::Vacant(free) => {
            let name = Value::from(free.key().as_str()).to_string();
            free.insert(Owned { server: Arc::clone(&definition.server), name: own });
            let text = patch::replace(&definition.text, &["name"], name.as_bytes());
            Ok(text.unwrap_or_else(|| definition.text.clone()))
        }
    }
}

#[cfg(test)]
mod tests;
