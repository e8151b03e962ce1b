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
use switchboard_gateway::config::{BadVariable, fill_in};
use switchboard_proto::header::is_ours;

use crate::exit::{CommandError, CommandResult, cannot, wrong};
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
    let hint = "--header-file wants a file with a \"Name: value\" a line";
    let text = std::fs::read_to_string(file).map_err(cannot("read the headers in", file, hint))?;
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    Ok(lines.filter(|line| !line.starts_with('#')).map(ToOwned::to_owned).collect())
}

/// Headers for our own answers: as they are given, but for variables.
pub(crate) fn for_answers(given: &[String]) -> CommandResult<HeaderMap> {
    given.iter().map(|text| parse(text, variable)).collect()
}

/// `text` with its variables replaced.
pub(crate) fn filled(text: &str) -> CommandResult<String> {
    fill_in(text, variable).map_err(|problem| match &problem {
        BadVariable::Unset { name } => {
            CommandError::new(problem.to_string()).hint(format!("export {name}=…"))
        }
        _ => CommandError::new("a ${…} names no variable"),
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
    let value = fill_in(value, lookup).or_else(|problem| match &problem {
        BadVariable::Unset { name: variable } => wrong(
            format!("header {name} needs the environment variable {variable}, which is not set"),
            problem.instead(),
        ),
        _ => wrong(
            format!("the value of header {name} contains a ${{…}} that names no variable"),
            "write ${VAR}, ${VAR:-default} or ${env:VAR}; in a shell, quote it with '…'",
        ),
    })?;
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

/// Who we are, unless the user says otherwise.
const AGENT: &str = concat!("switchboard/", env!("CARGO_PKG_VERSION"));

#[cfg(test)]
mod tests;
