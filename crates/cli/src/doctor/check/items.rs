//! Tools, prompts and resources, one by one.

use std::collections::HashSet;

use serde_json::Value;
use switchboard_proto::header::param::annotations;
use switchboard_proto::method;

use crate::doctor::evidence::{Evidence, List};
use crate::doctor::report::Finding;

/// What the models behind most clients take as the name of a tool.
const NAME: usize = 64;
/// Findings of one kind; a server with a thousand tools makes one mistake.
const FEW: usize = 3;

fn tools(evidence: &Evidence) -> impl Iterator<Item = &Value> {
    let lists = evidence.lists.iter().filter(|list| list.method == method::LIST_TOOLS);
    lists.flat_map(List::items)
}

fn name(item: &Value) -> &str {
    item["name"].as_str().unwrap_or("a tool without a name")
}

pub(super) fn tools_have_usable_names(evidence: &Evidence) -> Vec<Finding> {
    let odd = tools(evidence).filter_map(|tool| {
        let name = tool["name"].as_str().unwrap_or_default();
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
        if name.is_empty() {
            let what = "a tool has no name".to_owned();
            return Some(Finding::error("tool.name", what).remedy("give it one"));
        }
        if name.len() > NAME {
            let what = format!("the name of tool {name:.80} has {} characters", name.len());
            let remedy =
                format!("most models take up to {NAME}, and clients put a prefix before it");
            return Some(Finding::warning("tool.name-long", what).remedy(remedy));
        }
        if !name.chars().all(is_plain) {
            let what = format!("the name of tool {name:?} has characters that clients refuse");
            let remedy = "use letters, digits, _ and - only";
            return Some(Finding::warning("tool.name-characters", what).remedy(remedy));
        }
        None
    });
    odd.take(FEW).collect()
}

pub(super) fn tools_have_valid_schemas(evidence: &Evidence) -> Vec<Finding> {
    let odd = tools(evidence).flat_map(|tool| {
        let input = match tool.get("inputSchema") {
            None => Some("has no inputSchema".to_owned()),
            Some(schema) => flaw(schema).map(|flaw| format!("has an inputSchema that {flaw}")),
        };
        let output = tool.get("outputSchema").and_then(flaw);
        let output = output.map(|flaw| format!("has an outputSchema that {flaw}"));
        [input, output].into_iter().flatten().map(|what| {
            Finding::error("tool.schema", format!("tool {:?} {what}", name(tool)))
                .remedy("give it a JSON Schema of type object, { \"type\": \"object\" } at least")
        })
    });
    odd.take(FEW).collect()
}

/// What is wrong with a schema.
fn flaw(schema: &Value) -> Option<String> {
    if !schema.is_object() {
        return Some("is no object".to_owned());
    }
    if schema["type"] != "object" {
        return Some("is not of type object".to_owned());
    }
    let built = jsonschema::options().should_validate_formats(false).build(schema);
    built.err().map(|error| format!("is not valid: {error:.200}"))
}

pub(super) fn tools_have_valid_header_annotations(evidence: &Evidence) -> Vec<Finding> {
    let odd = tools(evidence).filter_map(|tool| {
        let error = annotations(&tool["inputSchema"]).err()?;
        let finding = Finding::error("tool.header", format!("tool {:?}: {error}", name(tool)));
        Some(finding.rule("HDR-7").remedy("clients leave such a tool out of the list"))
    });
    odd.take(FEW).collect()
}

pub(super) fn names_are_unique(evidence: &Evidence) -> Vec<Finding> {
    let mut findings = Vec::new();
    for list in &evidence.lists {
        let (key, what) = match list.member {
            "tools" => ("name", "tools"),
            "prompts" => ("name", "prompts"),
            "resources" => ("uri", "resources"),
            _ => ("uriTemplate", "templates"),
        };
        let mut seen = HashSet::new();
        let names = list.items().filter_map(|item| item[key].as_str());
        for name in names.filter(|name| !seen.insert(*name)).take(FEW) {
            let what = format!("two {what} have the {key} {name:?}");
            let finding = Finding::error("list.duplicate", what);
            findings.push(finding.remedy("give each its own; clients call either, or refuse both"));
        }
    }
    findings
}

pub(super) fn tools_are_described(evidence: &Evidence) -> Vec<Finding> {
    let is_bare = |tool: &&Value| tool["description"].as_str().unwrap_or_default().is_empty();
    let bare: Vec<_> = tools(evidence).filter(is_bare).map(name).collect();
    if bare.is_empty() {
        return Vec::new();
    }
    let some = bare.iter().take(FEW).copied().collect::<Vec<_>>().join(", ");
    let what = format!("{} without a description: {some}", count(bare.len()));
    let finding = Finding::note("tool.description", what);
    vec![finding.remedy("say what it does and when to use it; models choose by it")]
}

fn count(tools: usize) -> String {
    if tools == 1 { "a tool is".to_owned() } else { format!("{tools} tools are") }
}
