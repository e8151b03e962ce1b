//! What people change in the console: servers, sessions, calls, the file and keys.

use std::sync::Arc;

use serde_json::{Value, json};
use switchboard_testkit::within;

use crate::browser::{Browser, OWN, ask, keys, two_servers};
use crate::served::{ADA, BOB, ERAS, Served, eventually, key, names, pid, rude_with};

#[tokio::test]
async fn a_server_is_restarted_stopped_and_started_by_those_who_may() {
    // C-2, C-33, B-9
    let gateway = two_servers().await;
    let client = gateway.client_as(ADA, "/mcp", ERAS[0]).await;
    let first = pid(&client, "small__pid").await;
    let bob = Browser::sign_in(&gateway, json!({"key": BOB})).await;
    let ada = Browser::sign_in(&gateway, json!({"key": ADA})).await;
    let refused = bob.change("POST", "servers/small/restart", "{}").await;
    assert_eq!((refused.status, &*refused.code()), (403, "not_granted"));
    let hidden = bob.change("POST", "servers/withheld/restart", "{}").await;
    assert_eq!((hidden.status, &*hidden.code()), (404, "not_found"));
    let missing = bob.change("POST", "servers/nowhere/restart", "{}").await;
    assert_eq!(hidden.body.replace("withheld", "nowhere"), missing.body);
    let cookie = [("cookie", &*ada.cookie), OWN[0]];
    let target = ("POST", "/console/api/servers/small/restart");
    assert_eq!(ask(ada.address, target, &cookie, "{}").await.status, 403, "no mark of ours");
    assert_eq!(ask(ada.address, target, &OWN, "{}").await.status, 401, "no cookie");

    let done = ada.change("POST", "servers/small/restart", "{}").await;
    assert_eq!(done.status, 200, "{}", done.body);
    assert_ne!(pid(&client, "small__pid").await, first, "another process, the same session");
    let stopped = ada.change("POST", "servers/small/stop", "{}").await.json();
    assert_eq!(stopped["undo"]["path"], "servers/small/start");
    assert!(client.call_tool("small__pid", json!({})).await.is_err());
    let server = ada.read("servers/small").await;
    assert_eq!((&server["state"], &server["actions"]), (&json!("stopped"), &json!(["start"])));
    assert_eq!(ada.read("servers").await["rows"].as_array().unwrap().len(), 2);
    let started = ada.change("POST", "servers/small/start", "{}").await;
    assert_eq!(started.status, 200);
    pid(&client, "small__pid").await;
    let servers = json!({"small": rude_with(&["pid"], &json!({}))});
    let mut section = keys();
    section["console"] = "read".into();
    gateway.rewrite(&servers, &section);
    let read_only = ada.change("POST", "servers/small/stop", "{}").await;
    assert_eq!((read_only.status, &*read_only.code()), (403, "read_only"));
    for path in ["accounts/small/disconnect", "accounts/small/connect", "safety/approve"] {
        let refused = ada.change("POST", path, "{}").await;
        assert_eq!((refused.status, &*refused.code()), (403, "read_only"), "{path}");
    }
}

#[tokio::test]
async fn a_session_is_ended_by_its_owner_or_by_those_who_may_use_everything() {
    // C-9, C-38
    let gateway = two_servers().await;
    let client = gateway.client_as(ADA, "/mcp", ERAS[0]).await;
    client.tools().await.unwrap();
    let bob = Browser::sign_in(&gateway, json!({"key": BOB})).await;
    let ada = Browser::sign_in(&gateway, json!({"key": ADA})).await;
    let sessions = ada.read("sessions").await;
    assert_eq!(sessions["count"], 1, "{sessions}");
    let id = sessions["rows"][0]["id"].as_str().unwrap().to_owned();
    assert!(id.len() <= 8, "only the beginning of an id is told: {id}");
    let path = format!("sessions/{id}");
    assert_eq!(bob.change("DELETE", &path, "").await.status, 404, "not for bob to know");
    let done = ada.change("DELETE", &path, "").await;
    assert_eq!(done.status, 200, "{}", done.body);
    assert_eq!(ada.read("sessions").await["count"], 0);
}

#[tokio::test]
async fn the_file_is_checked_written_and_brought_back_and_its_secrets_stay() {
    // C-10, C-36, B-10
    let secret = "canary-env-1234";
    let servers = json!({"one": rude_with(&[], &json!({"env": {"TOKEN": secret}}))});
    let less = json!({"servers": ["*"], "includeTools": ["none"]});
    let section = json!({"keys": {"ada": key(ADA, json!({})), "bob": key(BOB, less)}});
    let gateway = Served::start(&servers, &section).await;
    let bob = Browser::sign_in(&gateway, json!({"key": BOB})).await;
    assert_eq!(bob.get("config").await.status, 403);
    let ada = Browser::sign_in(&gateway, json!({"key": ADA})).await;
    let config = ada.read("config").await;
    let (text, digest) = (config["text"].as_str().unwrap(), config["digest"].as_str().unwrap());
    assert!(!text.contains(secret) && text.contains("\"${…"), "{text}");
    assert_eq!(config["isWritable"], true);
    let broken = ada.post_text("check", digest, "{").await.json();
    assert_eq!(broken["problems"][0]["level"], "error", "{broken}");
    let other = text.replace("\"one\"", "\"two\"");
    let checked = ada.post_text("check", digest, &other).await.json();
    assert_eq!(checked["problems"], json!([]), "{checked}");
    let kinds: Vec<_> =
        checked["changes"].as_array().unwrap().iter().map(|it| &it["kind"]).collect();
    assert_eq!(kinds, ["added", "removed"], "{checked}");
    assert!(checked["changes"][0]["command"].is_array());
    let late = ada.post_text("apply", "0000", &other).await;
    assert_eq!((late.status, &*late.code()), (412, "changed"));
    let done = ada.post_text("apply", digest, &other).await;
    assert_eq!(done.status, 200, "{}", done.body);
    let file = gateway.folder.join("servers.json");
    let written = std::fs::read_to_string(&file).unwrap();
    assert!(written.contains("\"two\"") && written.contains(secret), "{written}");
    let (digest, undo) = (done.json()["digest"].take(), done.json()["undo"]["path"].take());
    let (digest, undo) = (digest.as_str().unwrap(), undo.as_str().unwrap());
    let versions = ada.read("config/versions").await;
    assert_eq!((&versions["rows"][0]["n"], &versions["rows"][0]["by"]), (&json!(1), &json!("ada")));
    let headers = [("cookie", &*ada.cookie), OWN[0], OWN[1], ("if-match", digest)];
    let target = format!("/console/api/{undo}");
    let back = ask(ada.address, ("POST", &target), &headers, "{}").await;
    assert_eq!(back.status, 200, "{}", back.body);
    assert!(std::fs::read_to_string(&file).unwrap().contains("\"one\""));
    let said = [broken.to_string(), checked.to_string(), done.body, back.body].join("\n");
    let one = ada.get("config/versions/1").await.body + &ada.get("config").await.body;
    assert!(!said.contains(secret) && !one.contains(secret), "{said} {one}");
}

#[tokio::test]
async fn a_mask_keeps_its_value_when_the_file_is_changed_by_another() {
    // C-10, C-36
    let server = |token: &str| rude_with(&[], &json!({"env": {"TOKEN": token}}));
    let before = json!({"a": server("canary-of-a-1"), "b": server("canary-of-b-2")});
    let section = json!({"keys": {"ada": key(ADA, json!({}))}});
    let gateway = Served::start(&before, &section).await;
    let ada = Browser::sign_in(&gateway, json!({"key": ADA})).await;
    let seen = ada.read("config").await["text"].as_str().unwrap().to_owned();
    // An editor exchanges the tokens; the page keeps its text.
    let after = json!({"a": server("canary-of-b-2"), "b": server("canary-of-a-1")});
    gateway.rewrite(&after, &section);
    let digest = ada.read("config").await["digest"].as_str().unwrap().to_owned();
    let done = ada.post_text("apply", &digest, &seen).await;
    assert_eq!(done.status, 200, "{}", done.body);
    let file = gateway.folder.join("servers.json");
    let text = std::fs::read_to_string(&file).unwrap();
    let written: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(written["mcpServers"], before, "what the page has shown");
    // A token that is gone cannot be brought back by its mask.
    gateway.rewrite(&json!({"a": server("canary-of-a-1")}), &section);
    let left = std::fs::read_to_string(&file).unwrap();
    let digest = ada.read("config").await["digest"].as_str().unwrap().to_owned();
    for path in ["check", "apply", "trial"] {
        let refused = ada.post_text(path, &digest, &seen).await;
        assert_eq!((refused.status, &*refused.code()), (400, "bad_request"), "{path}");
        assert!(refused.body.contains("mask"), "{path}: {}", refused.body);
    }
    assert_eq!(std::fs::read_to_string(&file).unwrap(), left);
}

#[tokio::test]
async fn answers_about_servers_and_texts_have_no_values_of_variables_and_masks() {
    // C-36
    let path = std::env::var("PATH").unwrap();
    let (url, token) = ("postgresql://u:canary-pw@db/x", "canary-token-1");
    let more = ["${PATH}".to_owned(), url.to_owned()];
    let mut server = rude_with(&[], &json!({"env": {"TOKEN": token}}));
    server["args"].as_array_mut().unwrap().extend(more.map(Value::from));
    let section = json!({"keys": {"ada": key(ADA, json!({}))}});
    let gateway = Served::start(&json!({"a": server}), &section).await;
    let ada = Browser::sign_in(&gateway, json!({"key": ADA})).await;
    let entry = ada.read("servers/a").await["entry"].take();
    let args = entry["args"].as_array().unwrap();
    assert_eq!(args[args.len() - 2..], [json!("${PATH}"), json!("${url}")], "{entry}");
    let config = ada.read("config").await;
    let digest = config["digest"].as_str().unwrap();
    let text = config["text"].as_str().unwrap();
    let same = ada.post_text("check", digest, text).await.json();
    assert_eq!((&same["changes"], &same["problems"]), (&json!([]), &json!([])), "{same}");
    let file: Value = serde_json::from_str(text).unwrap();
    let mask = &file["mcpServers"]["a"]["env"]["TOKEN"];
    let mut asked = Vec::new();
    for member in [
        json!({"command": "true", "args": ["${PATH}", "x${PATH}", mask]}),
        json!({"command": "true", "cwd": mask}),
        json!({"command": "true", "cwd": "/none/${PATH}"}),
        json!({"url": mask}),
    ] {
        let mut file = file.clone();
        file["mcpServers"]["b"] = member;
        file["switchboard"]["groups"] = json!({"all": {"servers": ["b"]}});
        asked.push(file.to_string());
    }
    let mut grouped = file.clone();
    grouped["switchboard"]["groups"] = json!({"all": {"servers": [mask, "${PATH}"]}});
    asked.push(grouped.to_string());
    for text in asked {
        let said = ada.post_text("check", digest, &text).await;
        assert_eq!(said.status, 200, "{}", said.body);
        assert!(!said.body.contains("canary") && !said.body.contains(&path), "{}", said.body);
    }
}

#[tokio::test]
async fn a_key_is_made_once_seen_through_and_removed() {
    // C-12, C-36
    let servers =
        json!({"small": rude_with(&["pid"], &json!({})), "withheld": rude_with(&[], &json!({}))});
    let gateway = Served::start(&servers, &keys()).await;
    let bob = Browser::sign_in(&gateway, json!({"key": BOB})).await;
    assert_eq!(bob.get("keys").await.status, 403);
    assert_eq!(bob.get("as/ada/servers").await.status, 403);
    assert_eq!(bob.change("POST", "keys/eve", "{}").await.status, 403);
    let ada = Browser::sign_in(&gateway, json!({"key": ADA})).await;
    let seen = ada.read("as/bob/servers").await;
    assert_eq!(seen, bob.read("servers").await, "as bob sees it");
    let deep = format!("{}me", "as/bob/".repeat(4000));
    assert_eq!(ada.get(&deep).await.status, 404, "and the gateway goes on");
    let made = ada.change("POST", "keys/cy", r#"{"servers": ["small"]}"#).await;
    assert_eq!(made.status, 200, "{}", made.body);
    let key = made.json()["key"].as_str().unwrap().to_owned();
    let file = gateway.folder.join("servers.json");
    let text = std::fs::read_to_string(&file).unwrap();
    assert!(!text.contains(&key) && text.contains("\"cy\""), "{text}");
    gateway.follow_file();
    let cy = Browser::sign_in(&gateway, json!({"key": key})).await;
    assert_eq!(names(cy.read("servers").await["rows"].as_array().unwrap()), ["small"]);
    let more = ada.change("POST", "keys/cy", "{}").await.json();
    gateway.follow_file();
    assert_eq!(cy.get("me").await.status, 200, "both keys count");
    Browser::sign_in(&gateway, json!({"key": more["key"]})).await;
    let rows = ada.read("keys").await;
    assert_eq!(rows["rows"].as_array().unwrap().len(), 3, "{rows}");
    assert!(!rows.to_string().contains("sha256:"), "{rows}");
    assert_eq!(ada.change("DELETE", "keys/cy", "").await.status, 200);
    gateway.follow_file();
    assert_eq!(cy.get("me").await.status, 401);
    assert_eq!(ada.change("DELETE", "keys/cy", "").await.status, 404);
    assert_eq!(ada.change("POST", "keys/a%2Fb", "{}").await.status, 400);
}

#[tokio::test]
async fn keys_that_are_made_at_once_all_count() {
    // C-12
    let gateway = two_servers().await;
    let ada = Arc::new(Browser::sign_in(&gateway, json!({"key": ADA})).await);
    let names = ["zoe", "zoe", "k1", "k2", "k3", "k4", "k5", "k6"];
    let making = names.map(|name| {
        let ada = Arc::clone(&ada);
        tokio::spawn(async move { ada.change("POST", &format!("keys/{name}"), "{}").await })
    });
    let mut made = Vec::new();
    for making in making {
        let reply = within(making).await.unwrap();
        assert_eq!(reply.status, 200, "{}", reply.body);
        made.push(reply.json()["key"].take());
    }
    // The gateway has not read the file between any of them.
    gateway.follow_file();
    for key in made {
        Browser::sign_in(&gateway, json!({"key": key})).await;
    }
    let files = std::fs::read_dir(&gateway.folder).unwrap();
    let drafts = files.filter(|it| it.as_ref().unwrap().path().to_string_lossy().ends_with('~'));
    assert_eq!(drafts.count(), 0, "no draft is left");
}

#[tokio::test]
async fn a_call_is_cancelled_by_its_owner_or_by_those_who_may_use_everything() {
    // C-9, C-38
    let gateway = two_servers().await;
    for (before, era) in ERAS.into_iter().enumerate() {
        let client = gateway.client_as(ADA, "/mcp", era).await;
        let file = gateway.folder.join(format!("{era:?}-never"));
        let (calling, argument) = (client.clone(), json!({"file": file}));
        let call = tokio::spawn(async move { calling.call_tool("withheld__wait", argument).await });
        let bob = Browser::sign_in(&gateway, json!({"key": BOB})).await;
        let ada = Browser::sign_in(&gateway, json!({"key": ADA})).await;
        let logs = gateway.gateway.fleet().stderr().unwrap();
        let heard = |word: &str| {
            let lines = logs.after("withheld", 0).lines;
            lines.iter().filter(|line| line.text.contains(word)).count()
        };
        eventually("the server has the call", || heard(&format!("{era:?}-never")) == 1).await;
        let open = ada.read("calls/open").await;
        assert_eq!(open["count"], 1, "{open}");
        let row = &open["rows"][0];
        let said = (&row["server"], &row["name"], &row["principal"]);
        assert_eq!(said, (&json!("withheld"), &json!("withheld__wait"), &json!("ada")));
        assert_eq!(bob.read("calls/open").await["rows"], json!([]));
        let path = format!("calls/open/{}", row["id"].as_str().unwrap());
        assert_eq!(bob.change("DELETE", &path, "").await.status, 404, "not for bob to know");
        let done = ada.change("DELETE", &path, "").await;
        assert_eq!(done.status, 200, "{}", done.body);
        let error = within(call).await.unwrap().unwrap_err().to_string();
        assert!(error.contains("an operator of the gateway has cancelled this call"), "{error}");
        // The server reads what it is told once it is done with the call.
        std::fs::write(&file, "").unwrap();
        eventually("the server is told", || heard("told to give up") > before).await;
        assert_eq!(ada.change("DELETE", &path, "").await.status, 404, "it is over");
        assert_eq!(ada.read("calls/open").await["count"], 0);
        // The session goes on.
        client.call_tool("small__pid", json!({})).await.unwrap();
    }
}

#[tokio::test]
async fn a_server_is_tried_before_it_is_kept() {
    // C-11, C-36, C-37
    let gateway = two_servers().await;
    let ada = Browser::sign_in(&gateway, json!({"key": ADA})).await;
    let bob = Browser::sign_in(&gateway, json!({"key": BOB})).await;
    let before = std::fs::read_to_string(gateway.folder.join("servers.json")).unwrap();
    let secret = "canary-env-1234";
    let script =
        "import os, sys; print('I have', os.environ['TOKEN'], file=sys.stderr); sys.exit(3)";
    let broken = json!({"command": "python3", "args": ["-c", script], "env": {"TOKEN": secret}});
    let mut file: Value =
        serde_json::from_str(ada.read("config").await["text"].as_str().unwrap()).unwrap();
    file["mcpServers"]["fresh"] = rude_with(&["pid"], &json!({}));
    file["mcpServers"]["broken"] = broken;
    let body = |server: &str| json!({"text": file.to_string(), "server": server}).to_string();
    let refused = bob.change("POST", "config/trial", &body("fresh")).await;
    assert_eq!((refused.status, &*refused.code()), (403, "not_granted"));
    let tried = ada.change("POST", "config/trial", &body("fresh")).await;
    assert_eq!(tried.status, 200, "{}", tried.body);
    let tried = tried.json();
    assert_eq!((&tried["outcome"], &tried["count"]), (&json!("ok"), &json!(2)), "{tried}");
    assert_eq!(names(tried["tools"].as_array().unwrap()), ["echo", "pid"]);
    let failed = ada.change("POST", "config/trial", &body("broken")).await;
    assert!(!failed.body.contains(secret), "{}", failed.body);
    let failed = failed.json();
    assert_eq!(failed["outcome"], "failed", "{failed}");
    let said = failed["stderr"].as_array().unwrap();
    assert!(!said.is_empty() && said.iter().all(|line| line == "I have ${TOKEN}"), "{failed}");
    let unknown = ada.change("POST", "config/trial", &body("other")).await;
    assert_eq!(unknown.status, 404);
    let after = std::fs::read_to_string(gateway.folder.join("servers.json")).unwrap();
    assert_eq!(before, after, "nothing is written");
    assert_eq!(ada.read("servers").await["rows"].as_array().unwrap().len(), 2);
}

#[tokio::test]
async fn clients_are_told_how_to_connect_to_what_a_key_may_use() {
    // C-14, C-38
    let gateway = two_servers().await;
    let bob = Browser::sign_in(&gateway, json!({"key": BOB})).await;
    let told = bob.read("snippets").await;
    let base = format!("http://{}", gateway.address);
    assert_eq!(told["url"], format!("{base}/mcp"));
    let rows = told["rows"].as_array().unwrap();
    assert!(rows.len() > 30, "{}", rows.len());
    assert!(rows.iter().all(|row| row["text"].as_str().unwrap().contains(&base)), "{told}");
    let one = bob.read("snippets?place=/servers/small/mcp&client=codex").await;
    let text = one["rows"][0]["text"].as_str().unwrap();
    assert!(text.contains("[mcp_servers.small]"), "{text}");
    assert!(text.contains("bearer_token_env_var = \"SWITCHBOARD_KEY\""), "{text}");
    for place in ["/servers/withheld/mcp", "/servers/none/mcp", "/groups/none/mcp", "/status"] {
        assert_eq!(bob.get(&format!("snippets?place={place}")).await.status, 404, "{place}");
    }
}

#[tokio::test]
async fn requests_and_answers_are_kept_while_that_is_switched_on_and_everybody_sees_so() {
    // C-7, C-36, C-38
    let gateway = two_servers().await;
    let ada = Browser::sign_in(&gateway, json!({"key": ADA})).await;
    let bob = Browser::sign_in(&gateway, json!({"key": BOB})).await;
    let client = gateway.client_as(BOB, "/mcp", ERAS[0]).await;
    let secret = "canary-argument-1234";
    let argument = json!({"text": "hello", "token": secret});
    client.call_tool("small__echo", argument.clone()).await.unwrap();
    let last = async |browser: &Browser| {
        let rows = browser.read("calls?method=tools/call").await;
        browser.read(&format!("calls/{}", rows["rows"][0]["id"].as_str().unwrap())).await
    };
    assert!(last(&ada).await.get("captured").is_none(), "nothing is kept by itself");
    let wanted = r#"{"server": "small", "minutes": 15}"#;
    let refused = bob.change("POST", "capture", wanted).await;
    assert_eq!((refused.status, &*refused.code()), (403, "not_granted"));
    for wrong in [r#"{"server": "none"}"#, "{}", r#"{"server": "small", "minutes": 16}"#] {
        let refused = ada.change("POST", "capture", wrong).await;
        assert!(matches!(refused.status, 400 | 404), "{wrong}: {}", refused.body);
    }
    let mut feed = bob.feed("views=servers").await;
    feed.until("event: servers").await;
    let done = ada.change("POST", "capture", wanted).await;
    assert_eq!(done.status, 200, "{}", done.body);
    let did = "requests and answers of calls to small are kept for 15 minutes";
    assert_eq!(done.json()["did"], did);
    assert!(feed.until("event: notice").await.contains("calls to small are kept until"));
    assert_eq!(bob.read("capture").await["rows"][0]["by"], "ada");
    client.call_tool("small__echo", argument).await.unwrap();
    let captured = last(&ada).await["captured"].take();
    let request = captured["request"].as_str().unwrap();
    assert!(request.contains("hello") && !request.contains(secret), "{request}");
    assert!(captured["response"].as_str().unwrap().contains("hello"), "{captured}");
    assert!(last(&bob).await.get("captured").is_none(), "for those who may use everything");
    let withheld = ada.change("POST", "capture", r#"{"server": "withheld"}"#).await;
    assert_eq!(withheld.status, 200);
    assert!(!bob.get("capture").await.body.contains("withheld"));
    let undo = done.json()["undo"]["path"].as_str().unwrap().to_owned();
    assert_eq!(ada.change("DELETE", &undo, "").await.status, 200);
    assert_eq!(ada.change("DELETE", &undo, "").await.status, 404);
    feed.until("are not kept any more").await;
    assert_eq!(ada.change("DELETE", "capture", "").await.status, 200);
    assert!(last(&ada).await.get("captured").is_none(), "it is gone with the last capture");
    assert_eq!(ada.read("capture").await["bytes"], 0);
}

#[tokio::test]
async fn a_sign_in_that_has_ended_opens_nothing() {
    // C-32
    let gateway = two_servers().await;
    let ada = Browser::sign_in(&gateway, json!({"key": ADA})).await;
    let other = Browser::sign_in(&gateway, json!({"key": ADA})).await;
    assert_eq!(ada.change("POST", "sign-out", "{}").await.status, 200);
    assert_eq!(ada.get("me").await.status, 401, "whoever has kept the cookie");
    assert_eq!(other.get("me").await.status, 200, "in another browser");
}

#[tokio::test]
async fn what_changes_of_access_is_told_and_the_last_key_stays() {
    // C-10, C-37
    let section = json!({"keys": {"ada": key(ADA, json!({}))}});
    let gateway = Served::start(&json!({"a": rude_with(&[], &json!({}))}), &section).await;
    let ada = Browser::sign_in(&gateway, json!({"key": ADA})).await;
    let before = std::fs::read_to_string(gateway.folder.join("servers.json")).unwrap();
    let last = ada.change("DELETE", "keys/ada", "").await;
    assert_eq!((last.status, &*last.code()), (409, "last_key"), "{}", last.body);
    assert_eq!(std::fs::read_to_string(gateway.folder.join("servers.json")).unwrap(), before);
    let config = ada.read("config").await;
    let mut text: Value = serde_json::from_str(config["text"].as_str().unwrap()).unwrap();
    text["switchboard"]["keys"]["bob"] = key(BOB, json!({}));
    let digest = config["digest"].as_str().unwrap();
    let told = ada.post_text("check", digest, &text.to_string()).await.json();
    assert_eq!(told["changes"], json!([{"kind": "access", "text": "bob may come in"}]), "{told}");
}
