//! Prompts, and what their arguments could be.

use switchboard_net::server::{
    CompletionRequest, CompletionSubject, Content, Contents, Context, Prompt, PromptArguments,
    PromptResult,
};

use super::PNG;
use super::round::elicit;

pub(super) fn all() -> Vec<Prompt> {
    vec![simple(), arguments(), embedded(), image(), asking()]
}

fn simple() -> Prompt {
    Prompt::new("test_simple_prompt")
        .description("A prompt without arguments")
        .run(async |_, _| Ok(PromptResult::new().user("This is a simple prompt for testing.")))
}

fn arguments() -> Prompt {
    Prompt::new("test_prompt_with_arguments")
        .description("A prompt with arguments, which can be completed")
        .argument("arg1", "The first", true)
        .argument("arg2", "The second", true)
        .run(async |args: PromptArguments, _| {
            let text =
                format!("Prompt with arguments: arg1='{}', arg2='{}'", args["arg1"], args["arg2"]);
            Ok(PromptResult::new().user(text))
        })
}

fn embedded() -> Prompt {
    Prompt::new("test_prompt_with_embedded_resource")
        .description("A prompt with a resource in it")
        .argument("resourceUri", "The URI of the resource", true)
        .run(async |args: PromptArguments, _| {
            let text = "Embedded resource content for testing.";
            let contents = Contents::text(&args["resourceUri"], "text/plain", text);
            Ok(PromptResult::new()
                .user(Content::resource(&contents))
                .user("Please process the embedded resource above."))
        })
}

fn image() -> Prompt {
    Prompt::new("test_prompt_with_image").description("A prompt with a picture in it").run(
        async |_, _| {
            Ok(PromptResult::new()
                .user(Content::image(PNG, "image/png"))
                .user("Please analyze the image above."))
        },
    )
}

fn asking() -> Prompt {
    Prompt::new("test_input_required_result_prompt")
        .description("A prompt that asks before it is filled in")
        .run(async |_, cx: Context| {
            let question = "What should the prompt be about?";
            let answer = elicit(&cx, "user_context", question, ("context", "string")).await?;
            let context = answer["content"]["context"].as_str().unwrap_or("anything").to_owned();
            Ok(PromptResult::new().user(format!("Tell me about {context}.")))
        })
}

/// Words that begin with what was typed.
pub(super) fn complete(what: &CompletionRequest) -> Vec<String> {
    let words: &[&str] = match what.of {
        CompletionSubject::Prompt(_) => &["paris", "park", "party", "test", "testing"],
        CompletionSubject::Template(_) => &["1", "12", "123", "2"],
    };
    let fitting = words.iter().filter(|word| word.starts_with(&what.value));
    fitting.map(|word| (*word).to_owned()).collect()
}
