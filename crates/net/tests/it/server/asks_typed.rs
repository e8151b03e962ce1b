//! Questions and calls as types, between a real server and a real client, in both eras.

use std::error::Error as _;

use http::HeaderMap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use switchboard_net::client::{CallError, Client, ClientOptions, Declined};
use switchboard_net::server::{
    Builder, Content, Context, Elicited, Error, Prompt, PromptArguments, PromptResult, Resource,
    Server, Tool, ToolResult,
};
use switchboard_net::types::{
    CompleteParams, CompletedArgument, CompletionReference, ContentBlock, ElicitResult, FormField,
    ListedTool, ResourceContents, Role, Root, SampleParams, SampleResult, SamplingMessage,
    StopReason,
};
use switchboard_net::upstream::{ServerTarget, Strategy};
use switchboard_proto::revision::Era;

use super::web::Web;
use crate::client_lib::modern;
use crate::upstream::fetch;
use switchboard_testkit::http::HttpServer;
use switchboard_testkit::within;

const ERAS: [Era; 2] = [Era::Legacy, Era::Modern];

#[derive(Debug, Deserialize, JsonSchema)]
struct Booking {
    /// How many people come.
    people: u8,
    table: Option<Table>,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Table {
    /// At the window
    Window,
    Garden,
}

#[derive(Debug, Deserialize, JsonSchema, PartialEq, Serialize)]
struct Sum {
    sum: i64,
}

async fn book(cx: Context) -> Result<String, Error> {
    let who = cx.typed().client().expect("it says who it is").name;
    let booking = match cx.typed().elicit::<Booking>("How many?").await? {
        Elicited::Accept(booking) => booking,
        Elicited::Decline | Elicited::Cancel => return Ok(format!("{who} stays at home")),
    };
    let question = SamplingMessage::user(format!("Greet {} people", booking.people));
    let said = cx.typed().sample(SampleParams::new([question], 50).temperature(0.5)).await?;
    let roots = cx.typed().roots().await?;
    Ok(format!("{:?} {} {}", booking.table, said.content.text(), roots[0].uri))
}

fn restaurant() -> Builder {
    let sum = Tool::new("sum")
        .output::<Sum>()
        .run(async |_: Value, _| ToolResult::structured(Sum { sum: 5 }));
    let old = Tool::new("old").run(async |_: Value, _| r#"{"sum": 6}"#);
    let words = Tool::new("words").run(async |_: Value, _| "six");
    let broken = Tool::new("broken").run(async |_: Value, _| ToolResult::error("out of order"));
    let picture = Tool::new("picture")
        .title("Picture")
        .run(async |_: Value, _| ToolResult::text("a dot").with(Content::image([1], "image/png")));
    let hello =
        Prompt::new("hello").argument("name", "whom").run(async |arguments: PromptArguments, _| {
            Ok(PromptResult::new().user(format!("Hello, {}!", arguments["name"])))
        });
    Server::builder("restaurant", "1.2.3")
        .instructions("Eat.")
        .tool(Tool::new("book").run(async |_: Value, cx: Context| book(cx).await))
        .tool(sum)
        .tool(old)
        .tool(words)
        .tool(broken)
        .tool(picture)
        .prompt(hello)
        .resource(Resource::text("a://menu", "menu", "text/plain", "soup"))
        .completion(async |what, _| Ok(vec![format!("{}!", what.value)]))
}

async fn connect(web: &Web, era: Era, options: ClientOptions) -> Client {
    let url = format!("http://{}/mcp", web.address).parse().unwrap();
    let server = ServerTarget::url(url, Strategy::default(), HeaderMap::new(), fetch());
    within(options.era(era).connect(server)).await.unwrap()
}

/// wire: MRTR-14, UTL-7
#[tokio::test]
async fn a_tool_asks_with_types_and_a_client_answers_with_types() {
    let web = Web::of(restaurant()).await;
    for era in ERAS {
        let options = ClientOptions::default()
            .answer_elicitation(async |form| {
                assert_eq!(form.message, "How many?");
                assert!(form.requested_schema.requires("people"));
                assert!(!form.requested_schema.requires("table"));
                let FormField::Integer(people) = &form.requested_schema.properties["people"] else {
                    return Err(Declined("people are counted".to_owned()));
                };
                assert_eq!(people.description.as_deref(), Some("How many people come."));
                let options = form.requested_schema.properties["table"].options();
                let shown: Vec<_> = options.iter().map(|option| option.title.as_str()).collect();
                assert!(shown.contains(&"At the window"), "{shown:?}");
                // An integer may be written so.
                Ok(ElicitResult::accept(json!({"people": 4.0, "table": "garden"}))?)
            })
            .answer_sampling(async |request| {
                assert_eq!((request.max_tokens, request.temperature), (50, Some(0.5.into())));
                let asked = request.messages[0].content.text();
                let answer = SampleResult::new(Role::Assistant, format!("<{asked}>"), "m");
                Ok(answer.stop_reason(StopReason::EndTurn))
            })
            .answer_roots(async || Ok(vec![Root::new("file:///kitchen")]));
        let client = connect(&web, era, options).await;
        let said = within(client.typed().call_tool("book", json!({}))).await.unwrap();
        assert_eq!(said.text(), "Some(Garden) <Greet 4 people> file:///kitchen", "{era:?}");
        client.close().await;
    }
    web.stopped().await;
}

#[tokio::test]
async fn a_person_who_declines_is_no_error() {
    let web = Web::of(restaurant()).await;
    for era in ERAS {
        let options =
            ClientOptions::default().answer_elicitation(async |_| Ok(ElicitResult::decline()));
        let client = connect(&web, era, options).await;
        let said = within(client.typed().call_tool("book", json!({}))).await.unwrap();
        assert_eq!(said.text(), "switchboard stays at home", "{era:?}");
        client.close().await;
    }
    web.stopped().await;
}

#[tokio::test]
async fn a_result_becomes_a_type_of_the_caller_or_says_what_was_there() {
    let web = Web::of(restaurant()).await;
    for era in ERAS {
        let client = connect(&web, era, ClientOptions::default()).await;
        let sum = async |tool| within(client.call_tool_as::<Sum>(tool, json!({}))).await;
        assert_eq!(sum("sum").await, Ok(Sum { sum: 5 }));
        assert_eq!(sum("old").await, Ok(Sum { sum: 6 }));
        let words = sum("words").await.unwrap_err();
        assert_eq!(words.to_string(), r#""six" is no Sum"#);
        assert_eq!(words.source().unwrap().to_string(), "expected value at line 1 column 1");
        let broken = sum("broken").await.unwrap_err();
        assert_eq!(broken.to_string(), r#"tool "broken" failed: out of order"#);
        let unfit = within(client.call_tool_as::<u8>("sum", json!({}))).await.unwrap_err();
        assert!(matches!(&unfit, CallError::Unfit(unfit) if unfit.found == r#"{"sum":5}"#));
        let picture = sum("picture").await.unwrap_err();
        assert!(picture.source().unwrap().to_string().contains("single block"), "{picture}");
        client.close().await;
    }
    web.stopped().await;
}

#[tokio::test]
async fn every_method_has_a_typed_result() {
    let web = Web::of(restaurant()).await;
    for era in ERAS {
        let client = connect(&web, era, ClientOptions::default()).await;
        let typed = client.typed();
        assert_eq!(typed.server().unwrap().name, "restaurant");
        assert_eq!(typed.instructions().as_deref(), Some("Eat."));
        let capabilities = typed.capabilities().unwrap();
        assert_eq!(capabilities.tools.unwrap().list_changed, Some(true));
        assert_eq!(capabilities.resources.unwrap().subscribe, Some(true));
        let tools = within(typed.tools()).await.unwrap();
        let labels: Vec<_> = tools.iter().map(ListedTool::label).collect();
        assert_eq!(labels, ["book", "sum", "old", "words", "broken", "Picture"]);
        assert!(tools[1].output_schema.is_some());
        let prompts = within(typed.prompts()).await.unwrap();
        assert_eq!(prompts[0].arguments.as_ref().unwrap()[0].required, Some(true));
        let filled = within(typed.prompt("hello", json!({"name": "Ann"}))).await.unwrap();
        assert_eq!(filled.messages[0].content.as_text(), Some("Hello, Ann!"));
        assert_eq!(within(typed.resources()).await.unwrap()[0].uri, "a://menu");
        assert!(within(typed.templates()).await.unwrap().is_empty());
        let menu = within(typed.read("a://menu")).await.unwrap();
        assert!(matches!(&menu.contents[0], ResourceContents::Text(menu) if menu.text == "soup"));
        let argument = CompletedArgument::new("name", "A");
        let wanted = CompleteParams::new(CompletionReference::prompt("hello"), argument);
        assert_eq!(within(typed.complete(wanted)).await.unwrap().completion.values, ["A!"]);
        let picture = within(typed.call_tool("picture", json!({}))).await.unwrap();
        let ContentBlock::Image(image) = &picture.content[1] else { panic!("{picture:?}") };
        assert_eq!(image.bytes().unwrap(), [1]);
        client.close().await;
    }
    web.stopped().await;
}

/// Its schema is wider than the type.
#[derive(Debug, Deserialize, JsonSchema)]
struct Port {
    #[schemars(with = "String")]
    #[expect(dead_code, reason = "no answer fits")]
    port: u16,
}

fn questions() -> Builder {
    let port = Tool::new("port").run(async |_: Value, cx: Context| {
        cx.typed().elicit::<Port>("Which?").await.map(|_| "a port")
    });
    let visit = Tool::new("visit").run(async |_: Value, cx: Context| {
        let visited = cx.elicit_url("Sign in", "https://a.test/in").await?;
        Ok::<_, Error>(format!("{visited:?}"))
    });
    let think = Tool::new("think").run(async |_: Value, cx: Context| {
        let tool = ListedTool::new("add", serde_json::Map::new());
        let request = SampleParams::new([SamplingMessage::user("2+2?")], 5).tools(vec![tool]);
        let said = cx.typed().sample(request).await?;
        Ok::<_, Error>(format!("{:?}", said.stop_reason))
    });
    let roots = Tool::new("roots").run(async |_: Value, cx: Context| {
        let roots = cx.typed().roots().await?;
        Ok::<_, Error>(format!("{} {}", roots[0].uri, roots.unfit().count()))
    });
    Server::builder("questions", "0").tool(port).tool(visit).tool(think).tool(roots)
}

#[tokio::test]
async fn an_answer_that_is_not_the_type_says_why_and_no_more() {
    let web = Web::of(questions()).await;
    for era in ERAS {
        let options = ClientOptions::default()
            .answer_elicitation(async |_| Ok(ElicitResult::accept(json!({"port": "secret"}))?));
        let client = connect(&web, era, options).await;
        let failed = within(client.call_tool("port", json!({}))).await.unwrap_err().to_string();
        let why = "the answer does not fit the form: invalid type: string \"secret\", expected u16";
        assert!(failed.contains(why), "{era:?}: {failed}");
        assert!(!failed.contains("Port") && !failed.contains('{'), "{failed}");
        client.close().await;
    }
    web.stopped().await;
}

/// wire: MRTR-13, UTL-8
#[tokio::test]
async fn pages_models_with_tools_and_roots_are_answered_with_types() {
    let web = Web::of(questions()).await;
    for era in ERAS {
        let options = ClientOptions::default()
            .answer_url_elicitation(async |page| {
                assert_eq!((&*page.message, &*page.url), ("Sign in", "https://a.test/in"));
                Ok(ElicitResult::accept_page())
            })
            .answer_sampling_with_tools(async |request| {
                assert_eq!(request.tools.unwrap()[0].name, "add");
                let answer = SampleResult::new(Role::Assistant, "4", "m");
                Ok(answer.stop_reason(StopReason::ToolUse))
            })
            .on_roots(async |_| Ok(json!({"roots": [{"name": "no URI"}, {"uri": "file:///a"}]})));
        let client = connect(&web, era, options).await;
        for (tool, expected) in
            [("visit", "Accept(Null)"), ("think", "Some(ToolUse)"), ("roots", "file:///a 1")]
        {
            let said = within(client.typed().call_tool(tool, json!({}))).await.unwrap();
            assert_eq!(said.text(), expected, "{era:?}");
        }
        client.close().await;
    }
    web.stopped().await;
}

#[tokio::test]
async fn an_item_that_does_not_fit_hides_no_other() {
    let mut server = HttpServer::start().await;
    let client = modern(&mut server, ClientOptions::default()).await;
    let tools = json!([{"name": "bad"}, {"name": "good", "inputSchema": {}}]);
    let (listed, ()) = tokio::join!(client.typed().tools(), async {
        let hit = server.post("tools/list").await;
        hit.result(json!({"tools": tools, "resultType": "complete"})).await;
    });
    let listed = listed.unwrap();
    assert_eq!((listed.len(), &*listed[0].name), (1, "good"));
    assert_eq!(listed.unfit().collect::<Vec<_>>(), [&tools[0]]);
}
