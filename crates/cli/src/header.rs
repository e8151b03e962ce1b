//! Headers that the user adds to what is sent to a server.
//!
//! `Name: value`, with `${VAR}`, `${VAR:-default}` and `${env:VAR}` in the value,
//! so that a token can stay out of configuration files and process lists. The
//! environment is handed in. No error repeats a value.

use std::path::Path;

use http::header::{
    AUTHORIZATION, CONNECTION, CONTENT_LENGTH, TE, TRAILER, TRANSFER_ENCODING, UPGRADE, USER_AGENT,
};
use http::{HeaderMap, HeaderName, HeaderValue};
use switchboard_proto::header::is_ours;

use crate::exit::{CommandError, CommandResult, wrong};
use crate::target::variable;

/// The base headers, then the given ones in their order; later ones replace
/// earlier ones of the same name.
pub(crate) fn merge(
    base: HeaderMap,
    given: &[String],
    lookup: impl Fn(&str) -> Option<String>,
) -> CommandResult<HeaderMap> {
    let mut headers = base;
    headers.entry(USER_AGENT).or_insert(HeaderValue::from_static(AGENT));
    for text in given {
        let (name, value) = parse(text, &lookup)?;
        headers.insert(name, value);
    }
    Ok(headers)
}

/// The headers in a file: one a line, `#` begins a comment.
pub(crate) fn lines_of(file: &Path) -> CommandResult<Vec<String>> {
    let text = std::fs::read_to_string(file).map_err(|error| {
        CommandError::new(format!("cannot read the headers in {}: {error}", file.display()))
            .hint("--header-file wants a file with a \"Name: value\" a line")
    })?;
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    Ok(lines.filter(|line| !line.starts_with('#')).map(ToOwned::to_owned).collect())
}

/// Headers for our own answers: as they are given, but for variables.
pub(crate) fn for_answers(given: &[String]) -> CommandResult<HeaderMap> {
    given.iter().map(|text| parse(text, variable)).collect()
}

/// `text` with its variables replaced.
pub(crate) fn filled(text: &str) -> CommandResult<String> {
    expand(text, variable).map_err(|problem| match problem {
        ExpandError::NoVariable => CommandError::new("a ${…} names no variable"),
        ExpandError::Unset(name) => {
            CommandError::new(format!("the environment variable {name} is not set"))
                .hint(format!("export {name}=…"))
        }
    })
}

fn parse(
    text: &str,
    lookup: impl Fn(&str) -> Option<String>,
) -> CommandResult<(HeaderName, HeaderValue)> {
    let form = "write --header \"Name: value\", for example --header \"X-Api-Key: ${KEY}\"";
    // The text may be a secret.
    let Some((name, value)) = text.split_once(':') else {
        return wrong("a header has no colon between its name and its value", form);
    };
    let Ok(name) = name.trim().parse::<HeaderName>() else {
        return wrong(format!("{:?} is no name of a header", name.trim()), form);
    };
    if (is_ours(&name) && name != AUTHORIZATION) || FRAMING.contains(&name) {
        let hint = format!("leave {name} out; it follows from the conversation");
        return wrong(format!("header {name} is set by switchboard"), hint);
    }
    let value = match expand(value, lookup) {
        Ok(value) => value,
        Err(ExpandError::NoVariable) => {
            let what =
                format!("the value of header {name} contains a ${{…}} that names no variable");
            let hint = "write ${VAR}, ${VAR:-default} or ${env:VAR}; in a shell, quote it with '…'";
            return wrong(what, hint);
        }
        Err(ExpandError::Unset(variable)) => {
            return wrong(
                format!(
                    "header {name} needs the environment variable {variable}, which is not set"
                ),
                format!("export {variable}=…, or give a default: ${{{variable}:-value}}"),
            );
        }
    };
    let Ok(mut value) = HeaderValue::from_str(value.trim()) else {
        let what =
            format!("the value of header {name} contains characters that no header may contain");
        let hint = "look for a line break in the value or in a variable it names";
        return wrong(what, hint);
    };
    // Any of them may be a token, so none is shown in debug output.
    value.set_sensitive(true);
    Ok((name, value))
}

/// How the message is cut, which only the HTTP client knows.
const FRAMING: [HeaderName; 6] =
    [CONNECTION, CONTENT_LENGTH, TE, TRAILER, TRANSFER_ENCODING, UPGRADE];

/// Why a text has no value.
enum ExpandError {
    NoVariable,
    Unset(String),
}

/// Replaces variables once; what they contain is not looked at again.
fn expand(text: &str, lookup: impl Fn(&str) -> Option<String>) -> Result<String, ExpandError> {
    let mut expanded = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        let (inner, after) = after.split_once('}').ok_or(ExpandError::NoVariable)?;
        let inner = inner.strip_prefix("env:").unwrap_or(inner);
        let (name, default) =
            inner.split_once(":-").map_or((inner, None), |(name, it)| (name, Some(it)));
        if name.is_empty() || name.contains(|c: char| c != '_' && !c.is_ascii_alphanumeric()) {
            return Err(ExpandError::NoVariable);
        }
        // As in a shell, `:-` also stands in for an empty variable.
        let value = lookup(name).filter(|value| default.is_none() || !value.is_empty());
        let value = value.or_else(|| default.map(ToOwned::to_owned));
        expanded.push_str(before);
        expanded.push_str(&value.ok_or_else(|| ExpandError::Unset(name.to_owned()))?);
        rest = after;
    }
    expanded.push_str(rest);
    Ok(expanded)
}

/// Who we are, unless the user says otherwise.
const AGENT: &str = concat!("switchboard/", env!("CARGO_PKG_VERSION"));

#[cfg(test)]
mod tests;
