//! Skills, read when they are wanted and used if they are what was listed.

use serde_json::{Value, json};
use switchboard_net::client::{CallError, Client, ClientOptions};
use switchboard_testkit::http::HttpServer;

use super::{at, discovered, modern};

const EXTENSION: &str = "io.modelcontextprotocol/skills";
const TEXT: &str = "---\nname: s\ndescription: d\n---\nDo it.\n";

fn digest(text: &str) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, text.as_bytes());
    let digits: Vec<_> = digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{}", digits.concat())
}

fn listed(frontmatter: &Value) -> Value {
    let file = json!({"uri": "skill://s/SKILL.md", "digest": digest(TEXT), "size": TEXT.len()});
    let entry =
        json!({"uri": "skill://s/SKILL.md", "frontmatter": frontmatter, "resources": [file]});
    json!({"resultType": "complete", "skills": [entry]})
}

/// wire: EXT-1
#[tokio::test]
async fn a_skill_is_loaded_if_it_is_what_was_listed() {
    let mut server = HttpServer::start().await;
    let (client, ()) = tokio::join!(Client::connect(at(&server)), async {
        let mut welcome = discovered();
        welcome["capabilities"]["extensions"][EXTENSION] = json!({});
        server.post("server/discover").await.result(welcome).await;
    });
    let client = client.unwrap();
    let true_header = json!({"name": "s", "description": "d"});
    let other_header = json!({"name": "s", "description": "else"});
    for (header, text, sound) in [
        (&true_header, TEXT.to_owned(), true),
        (&other_header, TEXT.to_owned(), false),
        (&true_header, TEXT.replace("Do", "Be"), false),
        (&true_header, format!("{TEXT}more"), false),
    ] {
        let (skills, ()) = tokio::join!(client.skills(), async {
            let hit = server.post("skills/list").await;
            let meta = &hit.message()["params"]["_meta"];
            let declared = &meta["io.modelcontextprotocol/clientCapabilities"]["extensions"];
            assert_eq!(*declared, json!({EXTENSION: {}}));
            hit.result(listed(header)).await;
        });
        let skill = skills.unwrap().remove(0);
        assert_eq!((skill.name(), skill.files().count()), ("s", 1));
        assert_eq!(server.waiting(|_| true), 0, "nothing is read ahead");
        let (loaded, ()) = tokio::join!(client.load_skill(&skill), async {
            let contents = json!([{"uri": "skill://s/SKILL.md", "text": text}]);
            let read = json!({"resultType": "complete", "contents": contents});
            server.post("resources/read").await.result(read).await;
        });
        match loaded {
            Ok(loaded) => assert!(sound && loaded == TEXT, "{text}"),
            Err(error) => assert!(!sound && matches!(error, CallError::Unusable { .. }), "{error}"),
        }
    }
    let client = modern(&mut server, ClientOptions::default()).await;
    let refused = client.skills().await.unwrap_err();
    assert!(matches!(refused, CallError::Unsupported { .. }), "{refused:?}");
}
