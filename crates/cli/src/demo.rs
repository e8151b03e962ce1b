//! `switchboard demo`: a server with one of everything, for people who try a client,
//! and under the names that the official conformance suites ask for.

use std::future::ready;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::json;
use switchboard_gateway::gateway::{Offered, Place};
use switchboard_net::server::{
    BuildError, Builder, CompletionRequest, CompletionSubject, Content, Contents, Prompt,
    PromptArguments, PromptResult, Resource, Server, Template, Variables,
};
use switchboard_proto::client::Sharing;
use switchboard_proto::limits::Limits;
use switchboard_proto::revision::Revision;

use crate::args::{DemoArgs, WebArgs};
use crate::exit::CommandResult;
use crate::serve;
use crate::signal::StopSignal;
use tools::elicit;

mod tools;

/// The server, speaking only these revisions.
fn server(revisions: &[Revision]) -> Result<Arc<Server>, BuildError> {
    let builder = Server::builder("switchboard-demo", env!("CARGO_PKG_VERSION"))
        .title("Switchboard demo")
        .instructions(
            "A server to try MCP clients with. Begin with the tools echo, add, time and touch; \
             those that begin with test_ show one feature each.",
        )
        .only(revisions);
    let touched = Touched::default();
    let builder = tools::tools(&touched).fold(builder, Builder::tool);
    let builder = prompts().into_iter().fold(builder, Builder::prompt);
    resources(&touched)
        .into_iter()
        .fold(builder, Builder::resource)
        .template(template())
        .completion(|what, _| ready(Ok(complete_argument(&what))))
        .manifest()
        .traces()
        .build()
}

/// A picture of one red dot.
const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\x02\0\0\0\x90wS\xde\
    \0\0\0\x0cIDATx\xdac\xf8\xcf\xc0\0\0\x03\x01\x01\0\xf7\x03AC\0\0\0\0IEND\xaeB`\x82";

/// A millisecond of silence.
const WAV: &[u8] = b"RIFF,\0\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0@\x1f\0\0@\x1f\0\0\x01\0\x08\0\
    data\x08\0\0\0\x80\x80\x80\x80\x80\x80\x80\x80";

/// Serves until a signal, or until the client on our stdio is gone.
pub(crate) async fn run(args: &DemoArgs) -> CommandResult {
    let server = server(&revisions(args))?;
    let stop = StopSignal::on_signals()?;
    let limits = Arc::new(Limits::default());
    let backend = Arc::clone(&server) as _;
    let offered = Offered { place: Place::All, backend, sharing: Sharing::Alone, light: false };
    let port = args.serve.port.or(args.http.then_some(0));
    let stopped = stop.clone().asked();
    tokio::spawn(async move {
        stopped.await;
        // Listens would go on for ever.
        server.close();
    });
    serve::serve(vec![offered], limits, port, &args.serve, &WebArgs::default(), stop).await
}

/// What the server is to speak.
fn revisions(args: &DemoArgs) -> Vec<Revision> {
    if !args.revision.is_empty() {
        return args.revision.clone();
    }
    let wanted = |revision: &Revision| args.era.0.is_none_or(|era| era == revision.era());
    Revision::ALL.into_iter().filter(wanted).collect()
}

/// The one that changes.
const WATCHED: &str = "test://watched-resource";

/// How often it has changed.
type Touched = Arc<AtomicU64>;

fn resources(touched: &Touched) -> Vec<Resource> {
    let touched = Arc::clone(touched);
    let text = "This is the content of the static text resource.";
    vec![
        Resource::text("test://static-text", "static-text", "text/plain", text),
        Resource::blob("test://static-binary", "static-binary", "image/png", PNG),
        Resource::new(WATCHED, "watched-resource")
            .description("Changes with each call of the tool touch")
            .mime("text/plain")
            .read(move |uri: String, _| {
                let text = format!("Touched {} times", touched.load(Ordering::Relaxed));
                ready(Ok(vec![Contents::text(&uri, "text/plain", text)]))
            }),
    ]
}

fn template() -> Template {
    Template::new("test://template/{id}/data", "template")
        .description("Data about whatever you name")
        .mime("application/json")
        .read_each(async |uri: String, variables: Variables, _| {
            let id = &variables["id"];
            let data =
                json!({"id": id, "templateTest": true, "data": format!("Data for ID: {id}")});
            Ok(vec![Contents::text(&uri, "application/json", data.to_string())])
        })
}

fn prompts() -> Vec<Prompt> {
    vec![
        Prompt::new("test_simple_prompt")
            .description("A prompt without arguments")
            .run(async |_, _| Ok(PromptResult::new().user("This is a simple prompt for testing."))),
        Prompt::new("test_prompt_with_arguments")
            .description("A prompt with arguments, which can be completed")
            .argument("arg1", "The first")
            .argument("arg2", "The second")
            .run(async |args: PromptArguments, _| {
                let (arg1, arg2) = (&args["arg1"], &args["arg2"]);
                let text = format!("Prompt with arguments: arg1='{arg1}', arg2='{arg2}'");
                Ok(PromptResult::new().user(text))
            }),
        Prompt::new("test_prompt_with_embedded_resource")
            .description("A prompt with a resource in it")
            .argument("resourceUri", "The URI of the resource")
            .run(async |args: PromptArguments, _| {
                let text = "Embedded resource content for testing.";
                let contents = Contents::text(&args["resourceUri"], "text/plain", text);
                Ok(PromptResult::new()
                    .user(Content::resource(&contents))
                    .user("Please process the embedded resource above."))
            }),
        Prompt::new("test_prompt_with_image").description("A prompt with a picture in it").run(
            async |_, _| {
                Ok(PromptResult::new()
                    .user(Content::image(PNG, "image/png"))
                    .user("Please analyze the image above."))
            },
        ),
        Prompt::new("test_input_required_result_prompt")
            .description("A prompt that asks before it is filled in")
            .run(async |_, cx| {
                let question = "What should the prompt be about?";
                let answer = elicit(&cx, "user_context", question, ("context", "string")).await?;
                let context =
                    answer["content"]["context"].as_str().unwrap_or("anything").to_owned();
                Ok(PromptResult::new().user(format!("Tell me about {context}.")))
            }),
    ]
}

/// Words that begin with what was typed.
fn complete_argument(what: &CompletionRequest) -> Vec<String> {
    let words: &[&str] = match what.of {
        CompletionSubject::Prompt(_) => &["paris", "park", "party", "test", "testing"],
        CompletionSubject::Template(_) => &["1", "12", "123", "2"],
    };
    let fitting = words.iter().filter(|word| word.starts_with(&what.value));
    fitting.map(|word| (*word).to_owned()).collect()
}
