//! The calls and the answers of a client as types: [`Client::typed`] and
//! [`Client::call_tool_as`], and in [`ClientOptions`] the `answer_` methods.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use switchboard_proto::method;
use switchboard_proto::types::{
    CallToolResult, CompleteParams, CompleteResult, ElicitForm, ElicitResult, ElicitUrl,
    GetPromptResult, Implementation, Items, ListRootsResult, ListedPrompt, ListedResource,
    ListedTemplate, ListedTool, ReadResourceResult, Root, SampleParams, SampleResult,
    ServerCapabilities, ServerNotification, TaskState, read,
};

use super::options::{AnswerCallback, boxed};
use super::{CallError, CallOptions, Client, ClientOptions, Declined, Notification, Task};

/// The methods of a [`Client`], with types in place of JSON.
///
/// Each does what the method of the same name does, and reads the result. One that cannot be
/// read is a [`CallError::Unfit`]; the method of [`Client`] gives it as it came. In a list, an
/// item that cannot be read hides no other: [`Items::unfit`] has it.
///
/// ```
/// # use switchboard_net::client::{CallError, Client};
/// use serde_json::json;
/// use switchboard_net::types::ContentBlock;
///
/// # async fn example(client: &Client) -> Result<(), CallError> {
/// for tool in client.typed().tools().await? {
///     println!("{}: {}", tool.name, tool.description.unwrap_or_default());
/// }
/// let result = client.typed().call_tool("draw", json!({"what": "a cat"})).await?;
/// for block in result.content {
///     match block {
///         ContentBlock::Text(text) => println!("{}", text.text),
///         ContentBlock::Image(image) => println!("a picture, {}", image.mime_type),
///         other => println!("something else: {other:?}"),
///     }
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct TypedClient<'a> {
    client: &'a Client,
}

impl Client {
    /// The same methods with types in place of JSON.
    pub fn typed(&self) -> TypedClient<'_> {
        TypedClient { client: self }
    }

    /// Calls a tool, and reads what it says to programs as a type of yours: its structured
    /// content or, from a server that gives none, the JSON in its only block of text.
    ///
    /// A tool that fails is [`CallError::ToolFailed`]. A result that is no `T` is
    /// [`CallError::Unfit`], which says what was there and has the reason as its source.
    ///
    /// ```
    /// # use switchboard_net::client::{CallError, Client};
    /// use serde::Deserialize;
    /// use serde_json::json;
    ///
    /// #[derive(Deserialize)]
    /// struct Weather {
    ///     temperature: f64,
    /// }
    ///
    /// # async fn example(client: &Client) -> Result<(), CallError> {
    /// let weather: Weather = client.call_tool_as("weather", json!({"city": "Oslo"})).await?;
    /// println!("{} degrees", weather.temperature);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn call_tool_as<T: DeserializeOwned>(
        &self,
        name: &str,
        args: impl Serialize,
    ) -> Result<T, CallError> {
        let result = self.typed().call_tool(name, args).await?;
        if result.failed() {
            return Err(CallError::ToolFailed { tool: name.to_owned(), message: result.text() });
        }
        Ok(result.structured()?)
    }
}

impl TypedClient<'_> {
    /// All tools.
    pub async fn tools(self) -> Result<Items<ListedTool>, CallError> {
        Ok(Items::read(self.client.tools().await?))
    }

    /// All prompts.
    pub async fn prompts(self) -> Result<Items<ListedPrompt>, CallError> {
        Ok(Items::read(self.client.prompts().await?))
    }

    /// All resources.
    pub async fn resources(self) -> Result<Items<ListedResource>, CallError> {
        Ok(Items::read(self.client.resources().await?))
    }

    /// All templates of resources.
    pub async fn templates(self) -> Result<Items<ListedTemplate>, CallError> {
        Ok(Items::read(self.client.templates().await?))
    }

    /// All tasks that a server of 2025-11-25 remembers for us.
    pub async fn tasks(self) -> Result<Items<TaskState>, CallError> {
        Ok(Items::read(self.client.tasks().await?))
    }

    /// Calls a tool; [`CallToolResult::failed`] says whether it failed.
    pub async fn call_tool(
        self,
        name: &str,
        args: impl Serialize,
    ) -> Result<CallToolResult, CallError> {
        self.call_tool_with(name, args, CallOptions::default()).await
    }

    /// The same with something different about this call.
    pub async fn call_tool_with(
        self,
        name: &str,
        args: impl Serialize,
        options: CallOptions,
    ) -> Result<CallToolResult, CallError> {
        Ok(read(&self.client.call_tool_with(name, args, options).await?)?)
    }

    /// Gets a prompt.
    pub async fn prompt(
        self,
        name: &str,
        args: impl Serialize,
    ) -> Result<GetPromptResult, CallError> {
        Ok(read(&self.client.prompt(name, args).await?)?)
    }

    /// Reads a resource.
    pub async fn read(self, uri: &str) -> Result<ReadResourceResult, CallError> {
        Ok(read(&self.client.read(uri).await?)?)
    }

    /// Completes an argument of a prompt or of a template.
    pub async fn complete(self, params: CompleteParams) -> Result<CompleteResult, CallError> {
        Ok(read(&self.client.request(method::COMPLETE, params).await?)?)
    }

    /// Who the server says it is; none if it does not say, or not in a form that fits (MOD-7).
    pub fn server(self) -> Option<Implementation> {
        read(self.client.server()).ok().flatten()
    }

    /// What the server can do; nothing if it does not say.
    pub fn capabilities(self) -> Result<ServerCapabilities, CallError> {
        let said: Option<_> = read(self.client.capabilities())?;
        Ok(said.unwrap_or_default())
    }

    /// How to use the server, for models, if it says so.
    pub fn instructions(self) -> Option<String> {
        self.client.welcome()["instructions"].as_str().map(str::to_owned)
    }
}

impl Task {
    /// All that was last seen of it, as a type.
    pub fn typed(&self) -> Result<TaskState, CallError> {
        Ok(read(self.state())?)
    }
}

impl Notification {
    /// What it says, as a type. One that is not known is
    /// [`ServerNotification::Other`].
    pub fn typed(&self) -> ServerNotification {
        ServerNotification::read(&self.method, &self.params)
    }
}

/// The answers to a server's questions as types; `on_` methods do the same with JSON.
///
/// ```
/// use serde_json::json;
/// use switchboard_net::client::{ClientOptions, Declined};
/// use switchboard_net::types::{ElicitResult, Role, Root, SampleResult};
///
/// let options = ClientOptions::default()
///     .answer_roots(async || Ok(vec![Root::new("file:///project").name("project")]))
///     .answer_elicitation(async |form| match form.message.as_str() {
///         "Are you sure?" => Ok(ElicitResult::accept(json!({"sure": true}))?),
///         _ => Ok(ElicitResult::decline()),
///     })
///     .answer_sampling(async |request| match request.messages.last() {
///         Some(last) => Ok(SampleResult::new(Role::Assistant, last.content.text(), "echo")),
///         None => Err(Declined("nothing was asked".to_owned())),
///     });
/// ```
impl ClientOptions {
    /// Fills in forms that the server shows.
    pub fn answer_elicitation<F, W>(mut self, answer: F) -> Self
    where
        F: Fn(ElicitForm) -> W + Send + Sync + 'static,
        W: Future<Output = Result<ElicitResult, Declined>> + Send + 'static,
    {
        self.callbacks.answers.form = Some(typed_answer(answer));
        self
    }

    /// Sends the user to pages that the server names.
    pub fn answer_url_elicitation<F, W>(mut self, answer: F) -> Self
    where
        F: Fn(ElicitUrl) -> W + Send + Sync + 'static,
        W: Future<Output = Result<ElicitResult, Declined>> + Send + 'static,
    {
        self.callbacks.answers.url = Some(typed_answer(answer));
        self
    }

    /// Asks a model for the server. The server is told that the model takes no tools.
    pub fn answer_sampling<F, W>(mut self, answer: F) -> Self
    where
        F: Fn(SampleParams) -> W + Send + Sync + 'static,
        W: Future<Output = Result<SampleResult, Declined>> + Send + 'static,
    {
        self.callbacks.answers.sampling = Some(typed_answer(answer));
        self.callbacks.answers.sampling_tools = false;
        self
    }

    /// The same for a model that may be given tools.
    pub fn answer_sampling_with_tools<F, W>(self, answer: F) -> Self
    where
        F: Fn(SampleParams) -> W + Send + Sync + 'static,
        W: Future<Output = Result<SampleResult, Declined>> + Send + 'static,
    {
        let mut options = self.answer_sampling(answer);
        options.callbacks.answers.sampling_tools = true;
        options
    }

    /// Says where the server may look.
    pub fn answer_roots<F, W>(mut self, answer: F) -> Self
    where
        F: Fn() -> W + Send + Sync + 'static,
        W: Future<Output = Result<Vec<Root>, Declined>> + Send + 'static,
    {
        let answer = move |_: Value| {
            let roots = answer();
            async move { roots.await.map(ListRootsResult::new) }
        };
        self.callbacks.answers.roots = Some(typed_answer(answer));
        self
    }
}

/// An answer of types to a question of JSON. A question that cannot be read is declined.
fn typed_answer<Q, R, W>(answer: impl Fn(Q) -> W + Send + Sync + 'static) -> AnswerCallback
where
    Q: DeserializeOwned,
    R: Serialize,
    W: Future<Output = Result<R, Declined>> + Send + 'static,
{
    boxed(move |params: Value| {
        let answering = read(&params).map(&answer);
        async move {
            let answer = answering.map_err(|why| Declined(why.to_string()))?.await?;
            serde_json::to_value(answer).map_err(|why| Declined(why.to_string()))
        }
    })
}
