//! Variables in values: `${VAR}`, `${VAR:-default}`, `${env:VAR}`, `${input:id}`.
//!
//! Replaced once; what a variable contains is not looked at again. Names are
//! told in errors, values never.

use std::borrow::Cow;
use std::cell::RefCell;
use std::io;
use std::path::Path;

use super::Surroundings;
use super::tree::{Node, Value};

/// Why a value has no meaning.
#[expect(missing_docs, reason = "the messages say it")]
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum BadVariable {
    #[error("${{input:{id}}} asks the user in VS Code, and nobody can be asked here")]
    Input { id: String },
    #[error("a ${{ is not closed")]
    Open,
    #[error("${{{inner}}} is no variable that we know")]
    Strange { inner: String },
    #[error("the environment variable {name} is not set")]
    Unset { name: String },
}

impl BadVariable {
    /// What to write instead.
    pub fn instead(&self) -> String {
        match self {
            Self::Input { id } => {
                format!("export {}=…, or write ${{VAR}} for a variable", input_variable(id))
            }
            Self::Open => "end it: ${VAR}".to_owned(),
            Self::Strange { .. } => "write ${VAR}, ${VAR:-default} or ${env:VAR}".to_owned(),
            Self::Unset { name } => {
                format!("export {name}=…, or give a default: ${{{name}:-value}}")
            }
        }
    }
}

/// Variables that a server's entry sets for its own command, in order; the last one counts.
type Assignments<'a> = &'a [(String, String)];

/// What the variables of one file stand for.
#[derive(Clone, Copy)]
pub(super) struct FileVariables<'t> {
    pub(super) around: &'t Surroundings,
    /// What `${input:…}` stands for (VS Code).
    pub(super) inputs: Option<&'t Node>,
    /// Whether `{env:VAR}` is a variable too (opencode).
    pub(super) braces: bool,
    /// Whether `$VAR` is a variable too (Gemini CLI).
    pub(super) dollars: bool,
}

impl<'t> FileVariables<'t> {
    /// Variables in the forms that every file may have.
    pub(super) fn plain(around: &'t Surroundings) -> Self {
        Self { around, inputs: None, braces: false, dollars: false }
    }
}

impl FileVariables<'_> {
    /// Fills in the variables of a text, those that are `set` beside it first.
    pub(super) fn expand(&self, text: &str, set: Assignments<'_>) -> Result<String, BadVariable> {
        if self.around.is_literal {
            return Ok(text.to_owned());
        }
        replace(&self.braced(text), self.braces, |inner| self.value(inner, set))
    }

    /// The variables of the environment in a text, and what they stand for. Defaults of the file
    /// are not among them.
    pub(super) fn filled_in(&self, text: &str, set: Assignments<'_>) -> Vec<(String, String)> {
        let found = RefCell::new(Vec::new());
        let note = |inner: &str| {
            let value = self.value(inner, set)?;
            let named = inner.strip_prefix("env:").unwrap_or(inner);
            let (name, default) = named.split_once(":-").unwrap_or((named, ""));
            if self.place(inner).is_none() && value != default {
                found.borrow_mut().push((name.to_owned(), value));
            }
            Ok(String::new())
        };
        if !self.around.is_literal {
            // What is wrong is told by `expand`.
            _ = replace(&self.braced(text), self.braces, note);
        }
        found.into_inner()
    }

    /// `$VAR` as `${VAR}`, where the client knows it. Words that are set nowhere and not in
    /// capital letters are left alone: they are parts of passwords, mostly.
    fn braced<'s>(&self, text: &'s str) -> Cow<'s, str> {
        if !self.dollars {
            return Cow::Borrowed(text);
        }
        let mut parts = text.split('$');
        let mut braced = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let is_end = |c: char| c != '_' && !c.is_ascii_alphanumeric();
            let name = &part[..part.find(is_end).unwrap_or(part.len())];
            let is_meant = is_bare(&format!("${name}")) || self.around.variable(name).is_some();
            braced.push('$');
            match part.strip_prefix(name).filter(|_| is_meant && !name.is_empty()) {
                Some(rest) => braced.extend(["{", name, "}", rest]),
                None => braced.push_str(part),
            }
        }
        Cow::Owned(braced)
    }

    /// Whether a text has variables that stay what they are.
    pub(super) fn are_left_in(&self, text: &str) -> bool {
        self.around.is_literal && text.contains("${")
    }

    /// The same text with the variables that every file may have: what only one
    /// client knows is put in other words.
    pub(super) fn portable(&self, text: &str) -> String {
        let portable = replace(&self.braced(text), self.braces, |inner| {
            let inner = match inner.strip_prefix("input:") {
                Some(id) => match self.answer(id) {
                    Some(default) => format!("{}:-{default}", input_variable(id)),
                    None => input_variable(id),
                },
                None => inner.strip_prefix("env:").unwrap_or(inner).to_owned(),
            };
            Ok(format!("${{{inner}}}"))
        });
        portable.unwrap_or_else(|_| text.to_owned())
    }

    fn value(&self, inner: &str, set: Assignments<'_>) -> Result<String, BadVariable> {
        if let Some(id) = inner.strip_prefix("input:") {
            // What VS Code would ask for: from the environment, or the default.
            let value = self.around.variable(&input_variable(id)).map(ToOwned::to_owned);
            let value = value.or_else(|| self.answer(id));
            return value.ok_or_else(|| BadVariable::Input { id: id.to_owned() });
        }
        let lookup = |name: &str| {
            let beside = set.iter().rfind(|(set, _)| set == name).map(|(_, value)| value.as_str());
            beside.or_else(|| self.around.variable(name)).map(ToOwned::to_owned)
        };
        self.place(inner).map_or_else(|| value_of(inner, lookup), Ok)
    }

    /// The folders that editors have names for.
    fn place(&self, name: &str) -> Option<String> {
        let folder = self.around.folder();
        match name {
            "workspaceFolder" | "workspaceRoot" | "cwd" => {
                Some(folder.to_string_lossy().into_owned())
            }
            "workspaceFolderBasename" => {
                Some(folder.file_name().unwrap_or_default().to_string_lossy().into_owned())
            }
            "userHome" => self.around.home().map(|home| home.to_string_lossy().into_owned()),
            "pathSeparator" | "/" => Some(std::path::MAIN_SEPARATOR.to_string()),
            _ => None,
        }
    }

    /// What a question has as its default.
    fn answer(&self, id: &str) -> Option<String> {
        let Value::List(inputs) = &self.inputs?.value else { return None };
        let is_it = |input: &&Node| input.get("id").and_then(Node::text) == Some(id);
        let default = inputs.iter().find(is_it).and_then(|input| input.get("default")?.text());
        default.map(ToOwned::to_owned)
    }
}

/// Fills in the variables `${VAR}`, `${VAR:-default}` and `${env:VAR}` of a text.
pub fn fill_in(text: &str, lookup: impl Fn(&str) -> Option<String>) -> Result<String, BadVariable> {
    replace(text, false, |inner| value_of(inner, &lookup))
}

fn replace(
    text: &str,
    braces: bool,
    value: impl Fn(&str) -> Result<String, BadVariable>,
) -> Result<String, BadVariable> {
    let (mut expanded, mut rest) = (String::new(), text);
    loop {
        let dollar = rest.find("${").map(|at| (at, at + 2));
        let brace = rest.find("{env:").filter(|_| braces).map(|at| (at, at + 1));
        let Some((start, inner)) = [dollar, brace].into_iter().flatten().min() else {
            return Ok(expanded + rest);
        };
        let (name, after) = rest[inner..].split_once('}').ok_or(BadVariable::Open)?;
        expanded += &rest[..start];
        expanded += &value(name)?;
        rest = after;
    }
}

/// What is between the braces of a variable, looked up.
fn value_of(inner: &str, lookup: impl Fn(&str) -> Option<String>) -> Result<String, BadVariable> {
    let named = inner.strip_prefix("env:").unwrap_or(inner);
    let (name, default) =
        named.split_once(":-").map_or((named, None), |(name, it)| (name, Some(it)));
    if name.is_empty() || name.contains(|c: char| c != '_' && !c.is_ascii_alphanumeric()) {
        return Err(BadVariable::Strange { inner: inner.to_owned() });
    }
    // As in a shell, `:-` also stands in for an empty variable.
    let value = lookup(name).filter(|value| default.is_none() || !value.is_empty());
    let value = value.or_else(|| default.map(ToOwned::to_owned));
    value.ok_or_else(|| BadVariable::Unset { name: name.to_owned() })
}

/// The variable that stands in for a question.
fn input_variable(id: &str) -> String {
    let letters = id.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' });
    format!("INPUT_{}", letters.collect::<String>().to_ascii_uppercase())
}

/// Whether a text is `$VAR`, which some take for a variable.
pub(super) fn is_bare(text: &str) -> bool {
    let name = text.strip_prefix('$').unwrap_or_default();
    let is_upper = |c: char| c == '_' || c.is_ascii_uppercase() || c.is_ascii_digit();
    name.len() > 1 && name.chars().all(is_upper)
}

/// Bytes of such a file; people write a few lines.
const MAX_ENV_FILE: u64 = 1 << 20;

/// The variables in a file, in its order.
pub(super) fn read_env_file(file: &Path) -> io::Result<Vec<(String, String)>> {
    let bytes = super::read_file(file, MAX_ENV_FILE + 1)?;
    if bytes.len() as u64 > MAX_ENV_FILE {
        return Err(io::Error::other(format!("longer than {MAX_ENV_FILE} bytes")));
    }
    let text = String::from_utf8(bytes).map_err(io::Error::other)?;
    Ok(text.lines().filter_map(env_assignment).collect())
}

fn env_assignment(line: &str) -> Option<(String, String)> {
    let line = line.trim();
    let line = line.strip_prefix("export ").unwrap_or(line);
    let (name, value) = line.split_once('=')?;
    let (name, value) = (name.trim(), value.trim());
    if name.is_empty() || name.starts_with('#') {
        return None;
    }
    let quoted = ['"', '\''].into_iter().find_map(|quote| {
        let inner = value.strip_prefix(quote)?;
        inner.find(quote).map(|end| &inner[..end])
    });
    let bare = value.find(" #").map_or(value, |comment| value[..comment].trim_end());
    Some((name.to_owned(), quoted.unwrap_or(bare).to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expand(text: &str, braces: bool) -> Result<String, String> {
        let variables = [("A", "1"), ("EMPTY", ""), ("B", "${A}"), ("INPUT_API_KEY", "k")];
        let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let around = Surroundings::new(variables, "/w/project");
        let variables = FileVariables { braces, ..FileVariables::plain(&around) };
        variables.expand(text, &[]).map_err(|unknown| unknown.to_string())
    }

    #[test]
    fn every_form_of_a_variable_is_filled_in_once() {
        let check = |text: &str| expand(text, false).unwrap();
        assert_eq!(check("a${A}b${env:A}c"), "a1b1c");
        assert_eq!(check("${NONE:-x:-y}${EMPTY:-z}[${EMPTY}]"), "x:-yz[]");
        assert_eq!(check("${env:NONE:-d}"), "d");
        assert_eq!(check("${B}"), "${A}");
        assert_eq!(check("${workspaceFolder}/${workspaceFolderBasename}"), "/w/project/project");
        assert_eq!(check("${input:api-key}"), "k");
        assert_eq!(check("{env:A} $A"), "{env:A} $A");
        assert_eq!(expand("{env:A}${A}", true).unwrap(), "11");
    }

    #[test]
    fn a_dollar_is_enough_where_the_client_says_so() {
        let variables = [("TOKEN", "t"), ("low", "l")];
        let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let around = Surroundings::new(variables, "/w");
        let gemini = FileVariables { dollars: true, ..FileVariables::plain(&around) };
        let text = "Bearer $TOKEN/${TOKEN}-$low pa$word costs $5 $";
        assert_eq!(gemini.expand(text, &[]).unwrap(), "Bearer t/t-l pa$word costs $5 $");
        let portable = "Bearer ${TOKEN}/${TOKEN}-${low} pa$word costs $5 $";
        assert_eq!(gemini.portable(text), portable);
        let unset = gemini.expand("$NONE", &[]).unwrap_err().to_string();
        assert_eq!(unset, "the environment variable NONE is not set");
        assert_eq!(FileVariables::plain(&around).expand("$TOKEN", &[]).unwrap(), "$TOKEN");
    }

    #[test]
    fn what_is_missing_is_named() {
        let check = |text: &str| expand(text, false).unwrap_err();
        assert_eq!(check("${NONE}"), "the environment variable NONE is not set");
        assert_eq!(check("x${A"), "a ${ is not closed");
        assert_eq!(check("${command:pick}"), "${command:pick} is no variable that we know");
        assert!(check("${input:other}").contains("nobody can be asked"));
    }

    #[test]
    fn a_bare_name_is_told_from_a_price() {
        assert!(is_bare("$TOKEN") && is_bare("$MY_KEY2"));
        assert!(!is_bare("$5") && !is_bare("$") && !is_bare("costs $TOKEN") && !is_bare("$abc"));
    }

    #[test]
    fn lines_are_assignments_comments_or_nothing() {
        let text =
            "# c\nA=1\n\nexport B = 'two words' # c\nC=\"x#y\"\nD=z # c\nE=a#b\nnonsense\n=x\n";
        let pairs = [("A", "1"), ("B", "two words"), ("C", "x#y"), ("D", "z"), ("E", "a#b")];
        let read: Vec<_> = text.lines().filter_map(env_assignment).collect();
        assert_eq!(read, pairs.map(|(a, b)| (a.to_owned(), b.to_owned())));
    }
}
