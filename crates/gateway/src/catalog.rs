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
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use switchboard_net::roster::{Definition, Kind};
use switchboard_proto::header::param::Annotation;
use switchboard_proto::jsonrpc::Part;

use crate::plan::ServerPlan;
use edit::Shaped;
use seek::Seek;
pub(crate) use template::Pattern;

mod edit;
mod mirror;
mod seek;
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
    /// The tools that want arguments repeated as headers.
    annotated: HashMap<String, Arc<[Annotation]>>,
    /// Made when somebody first searches.
    seek: OnceLock<Seek>,
    bytes: usize,
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
    pub fn new<'p>(
        mut definitions: Vec<Definition>,
        plan: impl Fn(&str) -> Option<&'p ServerPlan>,
    ) -> Self {
        definitions.sort_by(|one, other| one.server.cmp(&other.server));
        let mut catalog = Self::default();
        for definition in definitions {
            if let Some(shaped) = edit::shaped(plan(&definition.server), &definition) {
                catalog.add(&definition.server, definition.kind, shaped);
            }
        }
        catalog
    }

    #[cfg(test)]
    pub(crate) fn plain(definitions: Vec<Definition>) -> Self {
        Self::new(definitions, |_| None)
    }

    fn add(&mut self, server: &Arc<str>, kind: Kind, shaped: Shaped) {
        let text = match kind {
            Kind::Tools => {
                let annotations = mirror::annotations(&shaped.text);
                if !annotations.is_empty() && !self.tools.contains_key(&shaped.offered) {
                    self.annotated.insert(shaped.offered.clone(), annotations.into());
                }
                named(&mut self.tools, server, shaped)
            }
            Kind::Prompts => named(&mut self.prompts, server, shaped),
            Kind::Resources => match self.resources.entry(shaped.own) {
                Entry::Vacant(free) => {
                    free.insert(Arc::clone(server));
                    Ok(shaped.text)
                }
                Entry::Occupied(taken) => Err((taken.key().clone(), Arc::clone(taken.get()))),
            },
            Kind::Templates => {
                self.templates.push((Pattern::new(&shaped.own), Arc::clone(server)));
                Ok(shaped.text)
            }
        };
        match text {
            Ok(text) => {
                let list = &mut self.lists[kind as usize];
                let before = list.last().filter(|item| item.server == *server);
                let index = before.map_or(0, |item| item.index + 1);
                self.bytes += text.len();
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

    /// The bytes of all definitions.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
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
    server: &Arc<str>,
    shaped: Shaped,
) -> Result<Bytes, (String, Arc<str>)> {
    match table.entry(shaped.offered) {
        Entry::Occupied(taken) => Err((taken.key().clone(), Arc::clone(&taken.get().server))),
        Entry::Vacant(free) => {
            let definition = Part::new(&shaped.text);
            let named =
                definition.get(&["name"]).map(|_| definition.with_string("name", free.key()));
            free.insert(Owned { server: Arc::clone(server), name: shaped.own });
            Ok(named.flatten().unwrap_or(shaped.text))
        }
    }
}

#[cfg(test)]
mod tests;
