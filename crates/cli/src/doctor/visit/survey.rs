//! A look at all that a server has.

use std::collections::HashSet;
use std::time::Instant;

use serde_json::{Value, json};
use switchboard_proto::method;
use switchboard_proto::revision::Era;

use super::Talk;
use crate::doctor::evidence::{End, ExchangeResult, List};

/// Pages of one list; more than anybody should have to fetch.
const PAGES: usize = 100;

/// Method, member, capability.
const LISTS: [(&str, &str, &str); 4] = [
    (method::LIST_TOOLS, "tools", "tools"),
    (method::LIST_PROMPTS, "prompts", "prompts"),
    (method::LIST_RESOURCES, "resources", "resources"),
    (method::LIST_TEMPLATES, "resourceTemplates", "resources"),
];

/// A method that no server has.
pub(in crate::doctor) const NO_METHOD: &str = "switchboard/no-such-method";

impl Talk<'_> {
    pub(super) async fn survey(&mut self) {
        if self.evidence.era == Some(Era::Legacy) {
            let started = Instant::now();
            self.ask(method::PING, json!({})).await;
            self.evidence.step(method::PING, started.elapsed());
        }
        for (method, member, capability) in LISTS {
            if self.is_over {
                return;
            }
            let announced = self.evidence.welcome["capabilities"].get(capability).is_some();
            let list =
                List { method, member, capability, announced, pages: vec![], end: End::Whole };
            self.list(list).await;
        }
        // With an id of the other kind, to see whether it comes back as it went.
        if !self.is_over {
            let id = json!(format!("doctor-{}", self.next_id));
            self.ask_as(id, NO_METHOD, json!({}), self.plan.patience).await;
        }
    }

    async fn list(&mut self, mut list: List) {
        let started = Instant::now();
        let mut seen = HashSet::new();
        let mut params = json!({});
        loop {
            let page = self.ask(list.method, params.clone()).await;
            let next = page.result().and_then(|result| result.get("nextCursor")).cloned();
            let is_page = page.result().is_some_and(|result| result[list.member].is_array());
            list.pages.push(page);
            list.end = match &next {
                _ if !is_page => End::Broken,
                None | Some(Value::Null) => End::Whole,
                Some(_) if !list.announced => End::Whole,
                Some(cursor) if !seen.insert(cursor.to_string()) => End::Loop,
                Some(_) if list.pages.len() >= PAGES => End::Endless,
                Some(_) => {
                    params["cursor"] = next.unwrap_or_default();
                    continue;
                }
            };
            break;
        }
        let pages = match list.pages.len() {
            1 => String::new(),
            count => format!(" ({count} pages)"),
        };
        let was_served = list.pages.iter().any(|page| page.result().is_some());
        if list.announced || was_served {
            self.evidence.step(format!("{}{pages}", list.method), started.elapsed());
        }
        if matches!(list.pages.last(), Some(ExchangeResult::Lost(_))) {
            self.is_over = true;
        }
        self.evidence.lists.push(list);
    }
}
