//! The client that the official conformance suites judge: a scenario by its
//! name, on the public API alone.
//!
//! The suite says what it wants in the environment, and appends the URL of its
//! server: `MCP_CONFORMANCE_SCENARIO=tools_call conformance_client URL`. With a
//! bridge in `CONFORMANCE_BRIDGE` it speaks the other era than the suite's
//! server does, and the bridge translates: on a pipe, or over HTTP if
//! `CONFORMANCE_OVER` says so.

mod oauth;

use std::env;
use std::error::Error;
use std::process::Stdio;

use serde_json::{Map, Value, json};
use switchboard_net::client::{CallError, Client, ClientOptions, form_defaults};
use switchboard_net::http::fetch::{Fetch, FetchOptions};
use switchboard_net::stdio::child::Command;
use switchboard_net::upstream::{ServerTarget, Strategy};
use switchboard_proto::revision::{Era, era_of};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Child;

type Checked = Result<(), Box<dyn Error>>;

#[tokio::main]
async fn main() -> Checked {
    let url = env::args().next_back().ok_or("no URL is given")?;
    let scenario = env::var("MCP_CONFORMANCE_SCENARIO")?;
    let context = env::var("MCP_CONFORMANCE_CONTEXT").unwrap_or_else(|_| "null".to_owned());
    let context: Value = serde_json::from_str(&context)?;
    // The client finds out by itself what to speak. The newer suite says what that should be.
    let wanted = env::var("MCP_CONFORMANCE_PROTOCOL_VERSION").ok();
    let wanted = wanted.map(|name| era_of(&name));
    let options = answering().name("conformance");
    let mut beside = None;
    let (server, options, wanted) = if let Ok(bridge) = env::var("CONFORMANCE_BRIDGE") {
        let era = match wanted.unwrap_or(Era::Legacy) {
            Era::Legacy => Era::Modern,
            Era::Modern => Era::Legacy,
        };
        let server = if env::var("CONFORMANCE_OVER").is_ok_and(|it| it == "http") {
            let (child, near) = begin(&bridge, &url).await?;
            beside = Some(child);
            at(&near)?
        } else {
            let bridge = Command::new(bridge).args(["bridge", &url]);
            ServerTarget::command(bridge, env::vars_os().collect())
        };
        (server, options.era(era), Some(era))
    } else {
        let fetch = Fetch::new(FetchOptions::default())?;
        let credential = oauth::oauth_context(&scenario, &context).credential(&url, fetch);
        (at(&url)?.showing(credential), options, wanted)
    };
    let client = options.connect(server).await?;
    if wanted.is_some_and(|era| era != client.era()) {
        return Err(format!("the client speaks {}", client.revision()).into());
    }
    let done = play(&client, &scenario, &context).await;
    client.close().await;
    if let Some(mut bridge) = beside {
        bridge.kill().await?;
    }
    done
}

fn at(url: &str) -> Result<ServerTarget, Box<dyn Error>> {
    let fetch = Fetch::new(FetchOptions::default())?;
    Ok(ServerTarget::url(url.parse()?, Strategy::HttpFirst, http::HeaderMap::new(), fetch))
}

/// A bridge to `url` on a port of its own, and the URL there.
async fn begin(bridge: &str, url: &str) -> Result<(Child, String), Box<dyn Error>> {
    let mut command = tokio::process::Command::new(bridge);
    command.args(["bridge", "--port", "0", url]).stdout(Stdio::piped()).kill_on_drop(true);
    let mut child = command.spawn()?;
    let said = child.stdout.take().ok_or("the bridge has no stdout")?;
    let mut lines = BufReader::new(said).lines();
    while let Some(line) = lines.next_line().await? {
        if let Some(start) = line.find("http://") {
            let near = line[start..].split_whitespace().next().unwrap_or_default();
            return Ok((child, near.to_owned()));
        }
    }
    Err("the bridge names no URL".into())
}

/// Accepts every form as it is, has an opinion and a place to work.
fn answering() -> ClientOptions {
    ClientOptions::default()
        .on_elicitation(|params| async move {
            Ok(json!({"action": "accept", "content": form_defaults(&params)}))
        })
        .on_sampling(|_| async {
            let content = json!({"type": "text", "text": "yes"});
            Ok(json!({"role": "assistant", "content": content, "model": "none"}))
        })
        .on_roots(|_| async { Ok(json!({"roots": []})) })
}

async fn play(client: &Client, scenario: &str, context: &Value) -> Checked {
    match scenario {
        "initialize" | "request-metadata" | "json-schema-ref-no-deref" => {
            client.tools().await?;
        }
        "tools_call" => call(client, "add_numbers", json!({"a": 5, "b": 3})).await?,
        "elicitation-sep1034-client-defaults"
        | "sse-retry"
        | "sep-2322-client-request-state"
        | "http-invalid-tool-headers" => every_tool(client).await?,
        "json-schema-2020-12-preservation" => echo_schema(client).await?,
        "http-standard-headers" => everything(client).await?,
        "http-custom-headers" => {
            client.tools().await?;
            for one in context["toolCalls"].as_array().into_iter().flatten() {
                let name = one["name"].as_str().unwrap_or_default();
                call(client, name, one["arguments"].clone()).await?;
            }
        }
        "sep-2640-client-no-prefetch" => {
            client.skills().await?;
        }
        "sep-2640-client-verify-digest"
        | "sep-2640-client-verify-size"
        | "sep-2640-client-verify-frontmatter" => every_skill(client).await?,
        // A list and a call: some servers want a token, or more scope, for the call alone.
        name if name.starts_with("auth/") => every_tool(client).await?,
        _ => return Err(format!("scenario {scenario:?} is not known here").into()),
    }
    Ok(())
}

async fn call(client: &Client, tool: &str, arguments: Value) -> Checked {
    let result = client.call_tool(tool, arguments).await?;
    if result["isError"] == true {
        return Err(format!("{tool} failed: {}", result["content"]).into());
    }
    Ok(())
}

/// Lists the tools and calls each, with something for each argument.
async fn every_tool(client: &Client) -> Checked {
    for tool in client.tools().await? {
        let name = tool["name"].as_str().unwrap_or_default();
        let properties = tool["inputSchema"]["properties"].as_object();
        let arguments: Map<_, _> = properties
            .into_iter()
            .flatten()
            .map(|(name, schema)| (name.clone(), any(schema)))
            .collect();
        call(client, name, arguments.into()).await?;
    }
    Ok(())
}

/// A value that fits the schema of an argument.
fn any(schema: &Value) -> Value {
    match schema["type"].as_str() {
        Some("integer" | "number") => json!(1),
        Some("boolean") => json!(true),
        Some("array") => json!([]),
        Some("object") => json!({}),
        Some("null") => Value::Null,
        _ => json!("text"),
    }
}

/// Sends the schema of one tool to another, as it came.
async fn echo_schema(client: &Client) -> Checked {
    let tools = client.tools().await?;
    let tool = tools.iter().find(|tool| tool["name"] == "json_schema_2020_12_tool");
    let schema = tool.map(|tool| tool["inputSchema"].clone()).ok_or("the tool is not listed")?;
    call(client, "json_schema_echo", json!({ "schema": schema })).await
}

/// Every method that names what it is about.
async fn everything(client: &Client) -> Checked {
    every_tool(client).await?;
    for resource in client.resources().await? {
        client.read(resource["uri"].as_str().unwrap_or_default()).await?;
    }
    for prompt in client.prompts().await? {
        client.prompt(prompt["name"].as_str().unwrap_or_default(), Value::Null).await?;
    }
    Ok(())
}

/// Loads every skill, and all its files if it is sound.
async fn every_skill(client: &Client) -> Checked {
    for skill in client.skills().await? {
        match client.load_skill(&skill).await {
            Err(CallError::Unusable { .. }) => {}
            loaded => {
                loaded?;
                for file in skill.files() {
                    client.skill_file(&skill, file).await?;
                }
            }
        }
    }
    Ok(())
}
