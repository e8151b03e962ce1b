//! Results as the bytes they came in, for whoever passes them on.

use std::time::Duration;

use bytes::Bytes;
use serde::Serialize;
use serde_json::json;
use switchboard_proto::jsonrpc::Part;
use switchboard_proto::revision::Era;

use super::list::PAGES;
use super::{CallError, CallOptions, Client, cache, call};

impl Client {
    /// Calls a method; the result as the bytes it came in.
    pub async fn request_raw(
        &self,
        method: &str,
        params: impl Serialize,
        options: CallOptions,
    ) -> Result<Bytes, CallError> {
        let params = call::text_of(&params)?;
        self.inner.call(method, params, &options).await
    }

    /// Every item of a list, in order, of at most `most` bytes in all.
    ///
    /// wire: CACHE-4, PAG-1, UTL-5
    pub(crate) async fn list_raw(
        &self,
        method: &str,
        member: &str,
        most: usize,
    ) -> Result<Listed, CallError> {
        let mut list = Listed::default();
        let mut size = 0;
        let mut cursor: Option<String> = None;
        for _ in 0..PAGES {
            let params = cursor.as_ref().map_or(json!({}), |cursor| json!({ "cursor": cursor }));
            let page = self.request_raw(method, params, CallOptions::default()).await?;
            size += page.len();
            if size > most {
                return Err(unusable(method, "is too long"));
            }
            list.items.extend(elements(&page, member).unwrap_or_default());
            list.narrow(Part::new(&page), cursor.is_none());
            let next = Part::new(&page).string("nextCursor");
            // An empty cursor is one only where the revision says so.
            let next = next.filter(|next| !next.is_empty() || self.era() == Era::Modern);
            let Some(next) = next else { return Ok(list) };
            if cursor.as_deref() == Some(&*next) {
                return Err(unusable(method, "gives the same cursor again and again"));
            }
            cursor = Some(next.into_owned());
        }
        Err(unusable(method, "has no end"))
    }
}

/// A whole list, and how long it may be kept.
#[derive(Clone, Debug, Default)]
pub(crate) struct Listed {
    pub(crate) items: Vec<Bytes>,
    /// The shortest time that any page names.
    pub(crate) ttl: Duration,
    /// Whether every page says that anybody may share it.
    pub(crate) is_public: bool,
}

impl Listed {
    /// Another page, which may say less.
    fn narrow(&mut self, page: Part<'_>, is_first: bool) {
        let ttl = page.get(&["ttlMs"]).and_then(|ttl| ttl.read().ok());
        let ttl = Duration::from_millis(ttl.unwrap_or(0)).min(cache::LONGEST);
        let is_public = page.string("cacheScope").as_deref() == Some("public");
        self.ttl = if is_first { ttl } else { self.ttl.min(ttl) };
        self.is_public = is_public && (is_first || self.is_public);
    }
}

fn unusable(method: &str, why: &str) -> CallError {
    CallError::Unusable { what: format!("{method} {why}") }
}

/// The elements of the array `member`; none if there is no such array.
pub(crate) fn elements(text: &Bytes, member: &str) -> Option<Vec<Bytes>> {
    let list = Part::new(text).get(&[member]).filter(|it| it.is_list())?;
    Some(list.items().map(|item| text.slice_ref(item.text())).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// wire: CACHE-2, CACHE-4
    #[test]
    fn a_list_is_kept_as_its_strictest_page_says() {
        let listed = |pages: &[&str]| {
            let mut list = Listed::default();
            for (number, page) in pages.iter().enumerate() {
                list.narrow(Part::new(page.as_bytes()), number == 0);
            }
            (list.ttl.as_millis(), list.is_public)
        };
        let public = r#"{"ttlMs":9000,"cacheScope":"public"}"#;
        assert_eq!(listed(&[public, public]), (9000, true));
        assert_eq!(listed(&[public, r#"{"ttlMs":5,"cacheScope":"private"}"#]), (5, false));
        assert_eq!(listed(&[r#"{"cacheScope":"public"}"#, public]), (0, true));
        assert_eq!(listed(&[public, "{}"]), (0, false));
        assert_eq!(listed(&[r#"{"ttlMs":-1,"cacheScope":7}"#]), (0, false));
    }
}
