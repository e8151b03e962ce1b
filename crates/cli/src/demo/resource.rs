//! Resources: a text, bytes, one that changes, and a pattern of many.

use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::json;
use switchboard_net::server::{Contents, Resource, Template, Variables};

use super::PNG;

/// The one that changes.
pub(super) const WATCHED: &str = "test://watched-resource";

static TOUCHED: AtomicU64 = AtomicU64::new(0);

/// Changes it; how often it was.
pub(super) fn touch() -> u64 {
    TOUCHED.fetch_add(1, Ordering::Relaxed) + 1
}

pub(super) fn all() -> Vec<Resource> {
    let text = "This is the content of the static text resource.";
    vec![
        Resource::text("test://static-text", "static-text", "text/plain", text),
        Resource::blob("test://static-binary", "static-binary", "image/png", PNG),
        Resource::new(WATCHED, "watched-resource")
            .description("Changes with each call of the tool touch")
            .mime("text/plain")
            .read(async |uri: String, _| {
                let text = format!("Touched {} times", TOUCHED.load(Ordering::Relaxed));
                Ok(vec![Contents::text(&uri, "text/plain", text)])
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
