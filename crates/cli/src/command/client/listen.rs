//! Changes, as they happen.

use serde_json::json;
use switchboard_net::client::Filter;

use super::{Asked, failed};
use crate::exit::{ExitStatus, Failure};
use crate::output::{cell, plain};

/// Prints until the server ends it or a signal comes.
pub(in crate::command) async fn listen(asked: Asked) -> Result<(), Failure> {
    let filter = filter(&asked.operands);
    let mut listening = asked.client.listen(filter).await.map_err(|error| failed(&error))?;
    tracing::info!("listening for {}", listening.honoured());
    while let Some(note) = listening.next().await {
        let line = json!({"method": note.method, "params": note.params});
        asked.output.show_line(&line, |line| {
            let about = cell(&line["params"]["uri"]);
            format!("{} {about}", plain(&note.method)).trim_end().to_owned()
        });
    }
    if asked.client.is_connected() {
        return Ok(());
    }
    Err(Failure::new("Transport closed").for_scripts(ExitStatus::Unreachable, "unreachable"))
}

/// All lists, unless something is named.
fn filter(words: &[String]) -> Filter {
    let all = words.is_empty();
    let has = |name: &str| all || words.iter().any(|word| word == name);
    let uris = words.iter().filter(|word| word.contains(':')).cloned().collect();
    Filter { tools: has("tools"), prompts: has("prompts"), resources: has("resources"), uris }
}
