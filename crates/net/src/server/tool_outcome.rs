//! Results and tools in the words of our first users: every result says
//! whether it is a success, every failure has a code, every tool its nature.

use serde_json::{Map, Value, json};

use super::tool::ToolResult;

/// A tool's result with `structuredContent.success`.
///
/// A failure of the business is a result; only a wrong call is an
/// [`Error`](super::Error).
#[derive(Clone, Debug, PartialEq)]
pub struct ToolOutcome {
    summary: String,
    members: Map<String, Value>,
    failure: Option<String>,
}

impl ToolOutcome {
    /// It worked.
    pub fn success(summary: impl Into<String>) -> Self {
        Self { summary: summary.into(), members: Map::new(), failure: None }
    }

    /// It did not; `code` begins with `E_`.
    pub fn failure(code: &str, message: impl Into<String>) -> Self {
        let code = if code.starts_with("E_") { code.to_owned() } else { format!("E_{code}") };
        Self { summary: message.into(), members: Map::new(), failure: Some(code) }
    }

    /// The same with another member of the structured content.
    #[must_use]
    pub fn with(mut self, member: &str, value: impl Into<Value>) -> Self {
        self.members.insert(member.to_owned(), value.into());
        self
    }
}

impl From<ToolOutcome> for ToolResult {
    fn from(outcome: ToolOutcome) -> Self {
        let mut members = outcome.members;
        members.insert("success".to_owned(), outcome.failure.is_none().into());
        if let Some(code) = &outcome.failure {
            let error = json!({"code": code, "message": outcome.summary});
            members.insert("error".to_owned(), error);
        }
        let mut result = Self::text(outcome.summary).with_structured(members);
        result.is_error = outcome.failure.is_some();
        result
    }
}

/// What kind of tool it is: listed in `_meta`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Nature {
    /// Which layer of the product it belongs to: `core`, `advanced`, ...
    pub layer: &'static str,
    /// What it is about.
    pub category: &'static str,
    /// What it may do: `read`, `write`, `destructive`, ...
    pub safety: &'static str,
    /// Whether calling it again changes nothing.
    pub idempotent: bool,
    /// Whether it can show what it would do.
    pub supports_dry_run: bool,
}

impl Nature {
    /// Tools that tell about the server itself.
    pub(super) const DIAGNOSTIC: Self = Self {
        layer: "core",
        category: "diagnostics",
        safety: "read",
        idempotent: true,
        supports_dry_run: false,
    };

    pub(super) fn members(self) -> [(&'static str, Value); 5] {
        [
            ("layer", self.layer.into()),
            ("category", self.category.into()),
            ("safety", self.safety.into()),
            ("idempotent", self.idempotent.into()),
            ("supportsDryRun", self.supports_dry_run.into()),
        ]
    }
}
