//! The builder of a [`Server`].

use std::future::Future;
use std::sync::{Arc, RwLock, Weak};

use serde_json::{Map, Value, json};
use switchboard_proto::method::meta;
use switchboard_proto::revision::Revision;

use super::Server;
use super::builtin_tools::{self, Traces};
use super::catalog::{BuildError, Catalog, CompletionRequest};
use super::context::Context;
use super::dispatch::CacheHints;
use super::handler::{DynMethods, Error, Handler, Notice, NoticeCallback};
use super::prompt::Prompt;
use super::resource::{Resource, Template};
use super::session::Identity;
use super::tool::Tool;

/// Entries on one page of a list, unless the server says otherwise.
const PAGE: usize = 1000;

/// A server on its way.
///
/// What is wrong with any part (a name twice, a schema that is none) is told by
/// [`build`](Self::build), so that the parts can be put together in one go.
/// Capabilities follow from what there is.
pub struct Builder {
    info: Map<String, Value>,
    instructions: Option<String>,
    logging: bool,
    capabilities: Map<String, Value>,
    extensions: Map<String, Value>,
    speaks: Vec<Revision>,
    catalog: Catalog,
    /// The first thing that was wrong; told at the end.
    flaw: Option<BuildError>,
    raw: Option<Arc<dyn DynMethods>>,
    heard: Option<Arc<NoticeCallback>>,
    page: usize,
    cache: CacheHints,
    trace: Option<Traces>,
}

impl Builder {
    pub(super) fn new(name: &str, version: &str) -> Self {
        let mut info = Map::new();
        info.insert("name".to_owned(), name.into());
        info.insert("version".to_owned(), version.into());
        Self {
            info,
            instructions: None,
            logging: true,
            capabilities: Map::new(),
            extensions: Map::new(),
            speaks: Revision::ALL.to_vec(),
            catalog: Catalog::default(),
            flaw: None,
            raw: None,
            heard: None,
            page: PAGE,
            cache: CacheHints::default(),
            trace: None,
        }
    }

    /// A name for people.
    #[must_use]
    pub fn title(self, title: &str) -> Self {
        self.info("title", title)
    }

    /// Any other member of our identity: `description`, `icons`, `websiteUrl`.
    #[must_use]
    pub fn info(mut self, member: &str, value: impl Into<Value>) -> Self {
        self.info.insert(member.to_owned(), value.into());
        self
    }

    /// How to use the server, for models.
    #[must_use]
    pub fn instructions(mut self, text: impl Into<String>) -> Self {
        self.instructions = Some(text.into());
        self
    }

    /// A tool.
    #[must_use]
    pub fn tool(mut self, tool: Tool) -> Self {
        let added = self.catalog.tools.add(tool);
        self.note(added)
    }

    /// A prompt.
    #[must_use]
    pub fn prompt(mut self, prompt: Prompt) -> Self {
        let added = self.catalog.prompts.add(prompt);
        self.note(added)
    }

    /// A resource.
    #[must_use]
    pub fn resource(mut self, resource: Resource) -> Self {
        let added = self.catalog.resources.add(resource);
        self.note(added)
    }

    /// A pattern of resources.
    #[must_use]
    pub fn template(mut self, template: Template) -> Self {
        let added = self.catalog.templates.add(template);
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
        self.catalog.completion =
            Some(Arc::new(move |completing, cx| Box::pin(function(completing, cx))));
        self
    }

    /// Answers every method that neither the library nor a list of this server
    /// answers. Say with [`capability`](Self::capability) what it can do.
    #[must_use]
    pub fn handler(mut self, handler: impl Handler) -> Self {
        self.raw = Some(Arc::new(handler));
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
        self.heard = Some(Arc::new(move |notice| Box::pin(function(notice))));
        self
    }

    /// Declares a capability, or replaces the one that would be derived.
    #[must_use]
    pub fn capability(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.capabilities.insert(name.to_owned(), value.into());
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
        self.extensions.insert(id.to_owned(), settings);
        self
    }

    /// Does not declare that the server logs to its clients.
    #[must_use]
    pub fn without_logging(mut self) -> Self {
        self.logging = false;
        self
    }

    /// Speaks only these revisions.
    #[must_use]
    pub fn only(mut self, revisions: &[Revision]) -> Self {
        self.speaks = revisions.to_vec();
        self
    }

    /// Entries on one page of a list.
    #[must_use]
    pub fn page_size(mut self, size: usize) -> Self {
        self.page = size.max(1);
        self
    }

    /// How long lists and resources may be kept, unless a result says otherwise (CACHE-1).
    #[must_use]
    pub fn cache(mut self, cache: CacheHints) -> Self {
        self.cache = cache;
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
        self.trace = Some(Traces::default());
        self.tool(builtin_tools::trace_tool())
    }

    /// The server, or what is wrong with it.
    pub fn build(self) -> Result<Arc<Server>, BuildError> {
        if let Some(flaw) = self.flaw {
            return Err(flaw);
        }
        let identity = Identity {
            text: json!(self.info).to_string().into_bytes().into(),
            info: self.info,
            instructions: self.instructions,
            logging: self.logging,
            capabilities: self.capabilities,
            extensions: self.extensions,
            speaks: self.speaks,
        };
        Ok(Arc::new_cyclic(|this: &Weak<Server>| Server {
            identity,
            catalog: RwLock::new(Arc::new(self.catalog)),
            raw: self.raw,
            heard: self.heard,
            notices: super::handler::NoticeCount::default(),
            page: self.page,
            cache: self.cache,
            sessions: super::session::Sessions::default(),
            asks: super::ask::OpenQuestions::default(),
            listens: super::subscriptions::Listens::default(),
            tasks: super::server_tasks::Tasks::default(),
            trace: self.trace,
            this: Weak::clone(this),
        }))
    }
}

impl std::fmt::Debug for Builder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Builder").field("info", &self.info).finish_non_exhaustive()
    }
}
