//! Questions that a server asks, and who answers them.
//!
//! The same answers serve both eras: a legacy server sends requests, a modern
//! one names its questions in a result (MRTR-3). What we say we can do follows
//! from what there is an answer for.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use serde_json::{Map, Value, json};
use switchboard_proto::method;
use switchboard_proto::revision::Era;

/// Why a question has no answer: the user does not want to, or it failed.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{0}")]
pub struct Declined(pub String);

pub(super) type Answering = Pin<Box<dyn Future<Output = Result<Value, Declined>> + Send>>;
pub(super) type Answer = Arc<dyn Fn(Value) -> Answering + Send + Sync>;

/// Who answers what.
#[derive(Clone, Default)]
pub(super) struct Answers {
    pub(super) form: Option<Answer>,
    pub(super) url: Option<Answer>,
    pub(super) sampling: Option<Answer>,
    pub(super) sampling_tools: bool,
    pub(super) roots: Option<Answer>,
}

/// A closure as an answer.
pub(super) fn boxed<F, A>(answer: F) -> Answer
where
    F: Fn(Value) -> A + Send + Sync + 'static,
    A: Future<Output = Result<Value, Declined>> + Send + 'static,
{
    Arc::new(move |params| Box::pin(answer(params)))
}

/// What a form says if everything is left as it stands: the defaults of its
/// fields, to begin with or to accept as they are.
pub fn form_defaults(params: &Value) -> Map<String, Value> {
    let fields = params["requestedSchema"]["properties"].as_object().into_iter().flatten();
    let given =
        fields.filter_map(|(name, field)| Some((name.clone(), field.get("default")?.clone())));
    given.collect()
}

impl Answers {
    /// Who answers a question, if anybody does.
    pub(super) fn find(&self, method: &str, params: &Value) -> Option<Answer> {
        match method {
            method::ELICIT if params["mode"] == "url" => self.url.clone(),
            method::ELICIT => self.form.clone(),
            method::SAMPLE => self.sampling.clone(),
            method::ROOTS => self.roots.clone(),
            _ => None,
        }
    }

    /// Whether the method is known here, though not what was asked of it (UTL-7).
    pub(super) fn knows(&self, method: &str) -> bool {
        method == method::ELICIT && (self.form.is_some() || self.url.is_some())
    }

    /// What we can do, for the server to know.
    ///
    /// wire: META-5
    pub(super) fn capabilities(&self, era: Era, more: &Map<String, Value>) -> Value {
        let mut capabilities = more.clone();
        if self.form.is_some() || self.url.is_some() {
            let mut modes = Map::new();
            let given = [("form", &self.form), ("url", &self.url)];
            for (mode, _) in given.into_iter().filter(|(_, answer)| answer.is_some()) {
                modes.insert(mode.to_owned(), json!({}));
            }
            capabilities.insert("elicitation".to_owned(), modes.into());
        }
        if self.sampling.is_some() {
            let tools = if self.sampling_tools { json!({"tools": {}}) } else { json!({}) };
            capabilities.insert("sampling".to_owned(), tools);
        }
        if self.roots.is_some() {
            let changes = match era {
                Era::Legacy => json!({"listChanged": true}),
                Era::Modern => json!({}),
            };
            capabilities.insert("roots".to_owned(), changes);
        }
        capabilities.into()
    }
}

impl fmt::Debug for Answers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.capabilities(Era::Modern, &Map::new()).to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// wire: MRTR-14
    #[test]
    fn a_form_that_is_left_alone_says_its_defaults() {
        let properties = json!({"name": {"type": "string"}, "age": {"default": 30}});
        let params = json!({"requestedSchema": {"type": "object", "properties": properties}});
        assert_eq!(Value::from(form_defaults(&params)), json!({"age": 30}));
        assert!(form_defaults(&json!({"message": "no form"})).is_empty());
    }

    /// wire: META-5
    #[test]
    fn what_we_can_do_follows_from_who_answers() {
        let mut answers = Answers::default();
        let says = |answers: &Answers, era| answers.capabilities(era, &Map::new());
        assert_eq!(says(&answers, Era::Modern), json!({}));
        answers.form = Some(boxed(|_| async { Ok(json!({"action": "decline"})) }));
        answers.roots = Some(boxed(|_| async { Ok(json!({"roots": []})) }));
        assert_eq!(says(&answers, Era::Modern), json!({"elicitation": {"form": {}}, "roots": {}}));
        assert_eq!(says(&answers, Era::Legacy)["roots"], json!({"listChanged": true}));
        assert!(answers.find("elicitation/create", &json!({"mode": "url"})).is_none());
        assert!(answers.find("elicitation/create", &json!({})).is_some());
    }
}
