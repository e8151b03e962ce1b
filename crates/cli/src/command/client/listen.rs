//! Changes, as they happen.

use serde_json::json;
use switchboard_net::client::ListenFilter;

use super::{Asked, failed, usage};
use crate::exit::{CommandError, ExitStatus};
use crate::output::{cell, plain};

/// Prints until the server ends it or a signal comes.
pub(in crate::command) async fn listen(asked: Asked) -> Result<(), CommandError> {
    let filter = filter(&asked.operands)?;
    asked.no_arguments()?;
    let client = asked.connect().await?;
    let mut listening = client.listen(filter).await.map_err(|error| failed(&error))?;
    tracing::info!("listening for {}", listening.honoured());
    while let Some(note) = listening.next().await {
        let line = json!({"method": note.method, "params": note.params});
        asked.output.show_line(&line, |line| {
            let about = cell(&line["params"]["uri"]);
            format!("{} {about}", plain(&note.method)).trim_end().to_owned()
        });
    }
    if client.is_connected() {
        return Ok(());
    }
    Err(CommandError::new("Transport closed").for_scripts(ExitStatus::Unreachable, "unreachable"))
}

/// All lists, unless something is named.
fn filter(words: &[String]) -> Result<ListenFilter, CommandError> {
    let lists = ["tools", "prompts", "resources"];
    let strange = words.iter().find(|word| !word.contains(':') && !lists.contains(&word.as_str()));
    if let Some(strange) = strange {
        let failure = CommandError::new(format!("{strange:?} is nothing to listen for"));
        return Err(usage(
            failure.hint("name tools, prompts, resources, or the URI of a resource"),
        ));
    }
    let has = |name: &str| words.is_empty() || words.iter().any(|word| word == name);
    let uris = words.iter().filter(|word| word.contains(':')).cloned().collect();
    let [tools, prompts, resources] = lists.map(has);
    Ok(ListenFilter { tools, prompts, resources, uris })
}
