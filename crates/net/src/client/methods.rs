//! The methods of a client: one for each thing that a server can do, with results as
//! values or, for those who pass them on, as the bytes they came in.

use std::time::Duration;

use bytes::Bytes;
use serde::Serialize;
use serde_json::{Map, Value, json};
use switchboard_proto::jsonrpc::Part;
use switchboard_proto::method;
use switchboard_proto::refusal::code;
use switchboard_proto::revision::Era;

use super::call::{self, take_member};
use super::{CallError, CallOptions, Client, Inner, Task, cache, client_tasks};

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
        let Inner { options, connection, .. } = &*self.inner;
        let read = self.all_with(method, member, plain).await;
        match (&options.cache, &read) {
            (Some(cache), Err(CallError::Server { code: code::INVALID_PARAMS, .. }))
                if cache.forget_list(&connection.inbox.place, method) =>
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
            if let Value::Array(more) = take_member(&mut page, member) {
                items.extend(more);
            }
            let next = take_member(&mut page, "nextCursor");
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
        let params = client_tasks::tool_params(name, args)?;
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

impl Client {
    /// Calls a method; the result as the bytes it came in.
    pub async fn request_raw(
        &self,
        method: &str,
        params: impl Serialize,
        options: CallOptions,
    ) -> Result<Bytes, CallError> {
        let params = call::to_params(&params)?;
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
    ) -> Result<RawList, CallError> {
        let mut list = RawList::default();
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
pub(crate) struct RawList {
    pub(crate) items: Vec<Bytes>,
    /// The shortest time that any page names.
    pub(crate) ttl: Duration,
    /// Whether every page says that anybody may share it.
    pub(crate) is_public: bool,
}

impl RawList {
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
            let mut list = RawList::default();
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
