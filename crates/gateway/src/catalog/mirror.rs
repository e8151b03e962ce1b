//! Arguments that clients repeat as headers, checked before a call is passed on.
//!
//! The half that faces the server learns of such arguments from lists that pass
//! by it. Here none does: lists are answered of what is known.

use http::HeaderMap;
use switchboard_proto::exchange::Said;
use switchboard_proto::header::param::{self, Annotation};
use switchboard_proto::jsonrpc::{Member, Message, Part};
use switchboard_proto::refusal::Refusal;

use super::Catalog;

/// The arguments that a tool wants repeated.
pub(super) fn annotations(definition: &[u8]) -> Vec<Annotation> {
    let schema = Part::new(definition).get(&["inputSchema"]);
    let is_annotated = |schema: &Part<'_>| {
        std::str::from_utf8(schema.text()).is_ok_and(|text| text.contains("x-mcp-header"))
    };
    let Some(schema) = schema.filter(is_annotated) else { return Vec::new() };
    param::annotations(&schema.value().unwrap_or_default()).unwrap_or_default()
}

impl Catalog {
    /// Whether the headers of a call repeat its arguments; those who have no
    /// headers need not.
    pub fn check_headers(&self, request: &Message, said: &Said) -> Result<(), Refusal> {
        let (Some(said), false) = (said, self.annotated.is_empty()) else { return Ok(()) };
        let name = request.name().unwrap_or_default();
        let Some(annotations) = self.annotated.get(&*name) else { return Ok(()) };
        let arguments = request.value(Member::Arguments);
        let said: HeaderMap = said.iter().cloned().collect();
        let checked = param::check(annotations, arguments.as_ref(), &said);
        checked.map_err(|mismatch| Refusal::HeaderMismatch { what: mismatch.to_string() })
    }
}
