//! A method for each thing that a server can do.

use bytes::Bytes;
use serde::Serialize;
use serde_json::{Map, Value, json};
use switchboard_proto::method;
use switchboard_proto::refusal::code;
use switchboard_proto::revision::Era;

use super::call::taken;
use super::{CallError, CallOptions, Client, Inner, Task, task};

/// Pages of one list. A server that has more has no end.
pub(super) const PAGES: usize = 1000;

impl Client {
    /// All tools.
    pub async fn tools(&self) -> Result<Vec<Value>, CallError> {
        self.all(method::LIST_TOOLS, "tools").await
    }

    /// All prompts.
    pub async fn prompts(&self) -> Result<Vec<Value>, CallError> {
        self.all(method::LIST_PROMPTS, "prompts").await
    }

    /// All resources.
    pub async fn resources(&self) -> Result<Vec<Value>, CallError> {
        self.all(method::LIST_RESOURCES, "resources").await
    }

    /// All templates of resources.
    pub async fn templates(&self) -> Result<Vec<Value>, CallError> {
        self.all(method::LIST_TEMPLATES, "resourceTemplates").await
    }

    /// Every page of a list, in order. A cursor that was kept may lead nowhere
    /// any more: then the list is read anew.
    ///
    /// wire: CACHE-4
    pub(super) async fn all(&self, method: &str, member: &str) -> Result<Vec<Value>, CallError> {
        let plain = &CallOptions::default();
        let Inner { options, line, .. } = &*self.inner;
        let read = self.all_with(method, member, plain).await;
        match (&options.cache, &read) {
            (Some(cache), Err(CallError::Server { code: code::INVALID_PARAMS, .. }))
                if cache.forget_list(&line.desk.place, method) =>
            {
                self.all_with(method, member, plain).await
            }
            _ => read,
        }
    }

    /// wire: PAG-1, UTL-5
    pub(super) async fn all_with(
        &self,
        method: &str,
        member: &str,
        options: &CallOptions,
    ) -> Result<Vec<Value>, CallError> {
        let mut items = Vec::new();
        let mut params = json!({});
        for _ in 0..PAGES {
            let mut page = self.request_with(method, &params, options.clone()).await?;
            if let Value::Array(more) = taken(&mut page, member) {
                items.extend(more);
            }
            let next = taken(&mut page, "nextCursor");
            let over = match &next {
                // An empty cursor is one only where the revision says so.
                Value::String(cursor) => cursor.is_empty() && self.era() == Era::Legacy,
                _ => true,
            };
            if over {
                return Ok(items);
            }
            if params["cursor"] == next {
                let what = format!("{method} gives the same cursor again and again");
                return Err(CallError::Unusable { what });
            }
            params["cursor"] = next;
        }
        Err(CallError::Unusable { what: format!("{method} has no end") })
    }

    /// Calls a tool; the result may say `isError`. A call that goes on as a task
    /// is waited for, and a tool that runs only as a task is called as one.
    pub async fn call_tool(&self, name: &str, args: impl Serialize) -> Result<Value, CallError> {
        self.call_tool_with(name, args, CallOptions::default()).await
    }

    /// The same with something different about this call.
    pub async fn call_tool_with(
        &self,
        name: &str,
        args: impl Serialize,
        options: CallOptions,
    ) -> Result<Value, CallError> {
        let params = task::tool_params(name, args)?;
        match self.request_with(method::CALL_TOOL, &params, options.clone()).await {
            // Only for who says that tasks are welcome on this connection.
            Ok(result) if self.era() == Era::Modern => match Task::created(self, &result) {
                Some(mut task) => task.result().await,
                None => Ok(result),
            },
            // Nobody has acted on it.
            Err(why) if self.must_be_task(&why) => {
                self.begin(params, None, options).await?.result().await
            }
            called => called,
        }
    }

    /// Gets a prompt.
    pub async fn prompt(&self, name: &str, args: impl Serialize) -> Result<Value, CallError> {
        let args = serde_json::to_value(args).map_err(|_| CallError::BadParams)?;
        let mut params = json!({ "name": name });
        if !args.is_null() {
            params["arguments"] = args;
        }
        self.request(method::GET_PROMPT, params).await
    }

    /// Reads a resource.
    pub async fn read(&self, uri: &str) -> Result<Value, CallError> {
        self.request(method::READ_RESOURCE, json!({ "uri": uri })).await
    }

    /// Completes the argument `name` of a prompt (`{"type": "ref/prompt", "name"}`)
    /// or of a template (`{"type": "ref/resource", "uri"}`); `context` is what is
    /// filled in already.
    pub async fn complete(
        &self,
        of: Value,
        name: &str,
        value: &str,
        context: Map<String, Value>,
    ) -> Result<Value, CallError> {
        let mut params = json!({"ref": of, "argument": {"name": name, "value": value}});
        if !context.is_empty() {
            params["context"] = json!({ "arguments": context });
        }
        self.request(method::COMPLETE, params).await
    }

    /// Whether the server is there. A modern one is asked what it speaks.
    pub async fn ping(&self) -> Result<(), CallError> {
        let method = match self.era() {
            Era::Legacy => method::PING,
            Era::Modern => method::DISCOVER,
        };
        // What was kept would say nothing.
        let none = Bytes::from_static(b"{}");
        self.inner.converse(method, none, &CallOptions::default()).await.map(drop)
    }

    /// Tells a legacy server that the roots have changed, if it was told of any.
    /// A modern one asks when it wants to know.
    pub async fn roots_changed(&self) -> Result<(), CallError> {
        match self.era() {
            Era::Legacy if self.inner.options.callbacks.answers.roots.is_some() => {
                self.notify("notifications/roots/list_changed", json!({})).await
            }
            Era::Legacy | Era::Modern => Ok(()),
        }
    }
}
