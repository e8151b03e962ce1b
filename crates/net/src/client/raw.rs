//! Results as the bytes they came in, for whoever passes them on.

use bytes::Bytes;
use serde::Serialize;
use serde_json::json;
use switchboard_proto::json::{Fault, Walker};
use switchboard_proto::patch;
use switchboard_proto::revision::Era;

use super::list::PAGES;
use super::{CallError, CallOptions, Client, call};

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
    /// wire: PAG-1, UTL-5
    pub(crate) async fn list_raw(
        &self,
        method: &str,
        member: &str,
        most: usize,
    ) -> Result<Vec<Bytes>, CallError> {
        let mut items = Vec::new();
        let mut size = 0;
        let mut cursor: Option<String> = None;
        for _ in 0..PAGES {
            let params = cursor.as_ref().map_or(json!({}), |cursor| json!({ "cursor": cursor }));
            let page = self.request_raw(method, params, CallOptions::default()).await?;
            size += page.len();
            if size > most {
                return Err(unusable(method, "is too long"));
            }
            items.extend(elements(&page, member).unwrap_or_default());
            let next = patch::string(&page, &["nextCursor"]);
            // An empty cursor is one only where the revision says so.
            let next = next.filter(|next| !next.is_empty() || self.era() == Era::Modern);
            let Some(next) = next else { return Ok(items) };
            if cursor.as_deref() == Some(&*next) {
                return Err(unusable(method, "gives the same cursor again and again"));
            }
            cursor = Some(next.into_owned());
        }
        Err(unusable(method, "has no end"))
    }
}

fn unusable(method: &str, why: &str) -> CallError {
    CallError::Unusable { what: format!("{method} {why}") }
}

/// The elements of the array `member`; none if there is no such array.
pub(crate) fn elements(text: &Bytes, member: &str) -> Option<Vec<Bytes>> {
    let array = text.slice_ref(patch::get(text, &[member])?);
    let mut found = Vec::new();
    let each = |place| {
        found.push(array.slice(place));
        Ok::<_, Fault>(())
    };
    Walker::new(&array).elements(each).ok()?;
    Some(found)
}
