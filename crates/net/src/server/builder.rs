//! The builder of a [`Server`].

use std::future::Future;
use std::sync::{Arc, Weak};

use serde_json::{Value, json};
use switchboard_proto::method::meta;
use switchboard_proto::revision::Revision;

use super::builtin_tools::{self, Traces};
use super::catalog::{BuildError, CompletionRequest, Prompt, Resource, Template};
use super::context::Context;
use super::handler::{Error, Handler, Notice};
use super::tool::Tool;
use super::{CacheHints, Server};

/// A server on its way.
///
/// What is wrong with any part (a name twice, a schema that is none) is told by
/// [`build`](Self::build), so that the parts can be put together in one go.
/// Capabilities follow from what there is.
pub struct Builder {
    pub(super) server: Server,
    /// The first thing that was wrong; told at the end.
    pub(super) flaw: Option<BuildError>,
}

impl Builder {
    /// A name for people.
    #[must_use]
    pub fn title(self, title: &str) -> Self {
        self.info("title", title)
    }

    /// Any other member of our identity: `description`, `icons`, `websiteUrl`.
    #[must_use]
    pub fn info(mut self, member: &str, value: impl Into<Value>) -> Self {
        self.server.identity.info.insert(member.to_owned(), value.into());
        self
    }

    /// How to use the server, for models.
    #[must_use]
    pub fn instructions(mut self, text: impl Into<String>) -> Self {
        self.server.identity.instructions = Some(text.into());
        self
    }

    /// A tool.
    #[must_use]
    pub fn tool(self, tool: Tool) -> Self {
        let added = self.server.add_tool(tool);
        self.note(added)
    }

    /// A prompt.
    #[must_use]
    pub fn prompt(self, prompt: Prompt) -> Self {
        let added = self.server.add_prompt(prompt);
        self.note(added)
    }

    /// A resource.
    #[must_use]
    pub fn resource(self, resource: Resource) -> Self {
        let added = self.server.add_resource(resource);
        self.note(added)
    }

    /// A pattern of resources.
    #[must_use]
    pub fn template(self, template: Template) -> Self {
        let added = self.server.change("resources", |catalog| catalog.templates.add(template));
        self.note(added)
    }

    fn note(mut self, added: Result<(), BuildError>) -> Self {
        self.flaw = self.flaw.or(added.err());
        self
    }

    /// What an argument of a prompt or a template could be; the first hundred are sent.
    #[must_use]
    pub fn completion<F, W>(mut self, function: F) -> Self
    where
        F: Fn(CompletionRequest, Context) -> W + Send + Sync + 'static,
        W: Future<Output = Result<Vec<String>, Error>> + Send + 'static,
    {
        self.server.completion =
            Some(Box::new(move |completing, cx| Box::pin(function(completing, cx))));
        self
    }

    /// Answers every method that neither the library nor a list of this server
    /// answers. Say with [`capability`](Self::capability) what it can do.
    #[must_use]
    pub fn handler(mut self, handler: impl Handler) -> Self {
        self.server.handler = Some(Arc::new(handler));
        self
    }

    /// Hears what clients say without wanting an answer, such as
    /// `notifications/roots/list_changed`.
    #[must_use]
    pub fn on_notification<F, W>(mut self, function: F) -> Self
    where
        F: Fn(Notice) -> W + Send + Sync + 'static,
        W: Future<Output = ()> + Send + 'static,
    {
        self.server.on_notification = Some(Box::new(move |notice| Box::pin(function(notice))));
        self
    }

    /// Declares a capability, or replaces the one that would be derived.
    #[must_use]
    pub fn capability(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.server.identity.capabilities.insert(name.to_owned(), value.into());
        self
    }

    /// Declares an extension, `prefix/name`, with its settings: an object, if
    /// only an empty one. Clients say on their side whether they have it, see
    /// [`Context::extension`] (EXT-1).
    #[must_use]
    pub fn extension(mut self, id: &str, settings: impl Into<Value>) -> Self {
        let settings = settings.into();
        if !meta::is_extension(id) || !settings.is_object() {
            return self.note(Err(BuildError::Extension { id: id.to_owned() }));
        }
        self.server.identity.extensions.insert(id.to_owned(), settings);
        self
    }

    /// Does not declare that the server logs to its clients.
    #[must_use]
    pub fn without_logging(mut self) -> Self {
        self.server.identity.logging = false;
        self
    }

    /// Speaks only these revisions.
    #[must_use]
    pub fn only(mut self, revisions: &[Revision]) -> Self {
        self.server.identity.speaks = revisions.to_vec();
        self
    }

    /// Entries on one page of a list.
    #[must_use]
    pub fn page_size(mut self, size: usize) -> Self {
        self.server.page = size.max(1);
        self
    }

    /// How long lists and resources may be kept, unless a result says otherwise (CACHE-1).
    #[must_use]
    pub fn cache(mut self, cache: CacheHints) -> Self {
        self.server.cache = cache;
        self
    }

    /// Adds the tool `get_tool_manifest`: all tools with their schemas and examples.
    #[must_use]
    pub fn manifest(self) -> Self {
        self.tool(builtin_tools::manifest_tool())
    }

    /// Remembers the last calls of tools (never their arguments), and adds the
    /// tool `get_trace_by_id`.
    #[must_use]
    pub fn traces(mut self) -> Self {
        self.server.trace = Some(Traces::default());
        self.tool(builtin_tools::trace_tool())
    }

    /// The server, or what is wrong with it.
    pub fn build(mut self) -> Result<Arc<Server>, BuildError> {
        if let Some(flaw) = self.flaw {
            return Err(flaw);
        }
        let identity = &mut self.server.identity;
        identity.text = json!(identity.info).to_string().into();
        Ok(Arc::new_cyclic(|this| Server { this: Weak::clone(this), ..self.server }))
    }
}

impl std::fmt::Debug for Builder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Builder").field("server", &self.server).finish_non_exhaustive()
    }
}
