//! Resources: a text, bytes, one that changes, and a pattern of many.

use std::future::ready;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::json;
use switchboard_net::server::{Contents, Resource, Template, Variables};

use super::PNG;

/// The one that changes.
pub(super) const WATCHED: &str = "test://watched-resource";

/// How often it has changed.
#[derive(Clone, Debug, Default)]
pub(super) struct Touched(Arc<AtomicU64>);

impl Touched {
    /// Once more; how often that makes.
    pub(super) fn touch(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed) + 1
    }

    fn to_text(&self) -> String {
        format!("Touched {} times", self.0.load(Ordering::Relaxed))
    }
}

pub(super) fn all(touched: &Touched) -> Vec<Resource> {
    let touched = touched.clone();
    let text = "This is the content of the static text resource.";
    vec![
        Resource::text("test://static-text", "static-text", "text/plain", text),
        Resource::blob("test://static-binary", "static-binary", "image/png", PNG),
        Resource::new(WATCHED, "watched-resource")
            .description("Changes with each call of the tool touch")
            .mime("text/plain")
            .read(move |uri: String, _| {
                let text = touched.to_text();
                ready(Ok(vec![Contents::text(&uri, "text/plain", text)]))
            }),
    ]
}

pub(super) fn template() -> Template {
    Template::new("test://template/{id}/data", "template")
        .description("Data about whatever you name")
        .mime("application/json")
        .read_each(async |uri: String, variables: Variables, _| {
            let id = &variables["id"];
            let data =
                json!({"id": id, "templateTest": true, "data": format!("Data for ID: {id}")});
            Ok(vec![Contents::text(&uri, "application/json", data.to_string())])
        })
}
