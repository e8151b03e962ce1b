//! Results on stdout: tables and text for people, JSON for machines.
//!
//! What a server says is shown without control characters, so that it cannot
//! drive the terminal. At a terminal, tables fit its width, their heads are painted unless
//! `NO_COLOR` or `TERM` says no, and what is longer than the screen goes through `PAGER`.

use std::io::{self, IsTerminal as _, Write as _};
use std::process::{Command, Stdio};

use anstream::{AutoStream, ColorChoice};
use clap::builder::styling::{AnsiColor, Style};
use comfy_table::{ColumnConstraint, ContentArrangement, Table, presets};
use serde_json::Value;
use switchboard_net::stdio::child;
use terminal_size::{Height, Width, terminal_size_of};

use crate::args::Form;
use crate::target::environment;

/// How words are painted, on terminals that want it: what failed, what may, what to try,
/// and the heads of tables.
pub(crate) const BAD: Style = AnsiColor::Red.on_default().bold();
pub(crate) const HINT: Style = AnsiColor::Cyan.on_default();
pub(crate) const DOUBT: Style = AnsiColor::Yellow.on_default().bold();
const HEAD: Style = Style::new().bold();

/// Widest cell of a table; the rest is cut.
const CELL: usize = 80;

impl Form {
    /// A result: the whole of it, or what `text` makes of it.
    pub(crate) fn show(self, result: &Value, text: impl FnOnce(&Value) -> String) {
        let shown = match self {
            Self::Json => serde_json::to_string_pretty(result).unwrap_or_default(),
            Self::Text => text(result),
        };
        if !shown_by_pager(&shown) {
            write_line(&shown);
        }
    }
}

/// The columns and lines of the terminal on stdout, if it is one.
fn screen() -> Option<(u16, u16)> {
    let (Width(columns), Height(lines)) = terminal_size_of(io::stdout())?;
    Some((columns, lines))
}

/// A text in a style, if stdout is a terminal that wants it.
pub(crate) fn painted(style: Style, text: &str) -> String {
    if AutoStream::choice(&io::stdout()) == ColorChoice::Never {
        return text.to_owned();
    }
    format!("{style}{text}{style:#}")
}

/// Shows a text that is longer than the screen in the pager of the user; whether it did.
fn shown_by_pager(text: &str) -> bool {
    let is_long = |(_, lines): (u16, u16)| text.lines().count() >= usize::from(lines);
    let variable = |name: &str, usual: &str| std::env::var(name).unwrap_or(usual.to_owned());
    let has_less = || child::Command::new("less").check(&environment()).is_ok();
    let usual = || if has_less() { "less".to_owned() } else { String::new() };
    let pager = std::env::var("PAGER").unwrap_or_else(|_| usual());
    let is_wanted = !matches!(pager.trim(), "" | "cat") && variable("TERM", "dumb") != "dumb";
    // A picture would lose its place.
    let has_picture = ["\x1b_G", "\x1b]", "\x1bP"].iter().any(|start| text.contains(start));
    let is_seen = io::stdin().is_terminal() && screen().is_some_and(is_long);
    if !is_wanted || has_picture || !is_seen {
        return false;
    }
    // The shell reads it, for it may have arguments. Unless its user says otherwise, less keeps
    // colours, leaves the text on the screen, and ends if all fits.
    let mut command = Command::new("sh");
    command.args(["-c", &pager]).env("LESS", variable("LESS", "FRX")).stdin(Stdio::piped());
    let Ok(mut pager) = command.spawn() else { return false };
    if let Some(mut stdin) = pager.stdin.take() {
        // Whoever leaves the pager has seen enough.
        _ = writeln!(stdin, "{}", text.trim_end_matches('\n'));
    }
    // With these a shell says that it could not start the pager. Others are the pager's own.
    pager.wait().is_ok_and(|status| !matches!(status.code(), Some(126 | 127)))
}

/// A text that ends with its line, on stdout.
pub(crate) fn write_line(text: &str) {
    let text = text.trim_end_matches('\n');
    let mut stdout = io::stdout().lock();
    // A reader that closed stdout wants no more.
    _ = writeln!(stdout, "{text}").and_then(|()| stdout.flush());
}

/// A mistake that the user asked about, on stderr, without the form of a log line.
pub(crate) fn write_finding(text: &str) {
    let mut stderr = io::stderr().lock();
    // A reader that closed stderr wants no more.
    _ = writeln!(stderr, "{}", plain(text));
}

/// So many of something: `1 server`, `2 servers`.
pub(crate) fn counted(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// Text without what could drive a terminal.
pub(crate) fn plain(text: &str) -> String {
    text.chars().filter(|c| !c.is_control() || matches!(c, '\n' | '\t')).collect()
}

/// The first line of a text, cut to the size of a cell.
pub(crate) fn cell(value: &Value) -> String {
    let text = value.as_str().unwrap_or_default();
    let line = plain(text.trim().lines().next().unwrap_or_default());
    if line.chars().count() <= CELL {
        return line;
    }
    line.chars().take(CELL - 1).chain(['…']).collect()
}

/// Columns as wide as they need to be, or as the terminal allows; nothing for no rows but
/// `none`. In `head` the names of the columns have two spaces between them, as in the table.
pub(crate) fn table(head: &str, rows: &[Vec<String>], none: &str) -> String {
    if rows.is_empty() {
        return none.to_owned();
    }
    let text = arranged(head, rows, screen().map(|(columns, _)| columns));
    match text.split_once('\n') {
        Some((head, rows)) => format!("{}\n{rows}", painted(HEAD, head)),
        None => text,
    }
}

/// Words that are longer may be cut: addresses, mostly.
const LONG_WORD: usize = 24;

fn arranged(head: &str, rows: &[Vec<String>], width: Option<u16>) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(head.split("  ")).add_rows(rows);
    let longest = |cell: &str| cell.split_whitespace().map(|word| word.chars().count()).max();
    for (at, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, 2));
        let cells = rows.iter().filter_map(|row| row.get(at)).map(String::as_str);
        let word = cells.chain(head.split("  ").nth(at)).filter_map(longest).max();
        // Better a line that is too long than a word that is cut.
        let least = u16::try_from(word.unwrap_or(0).min(LONG_WORD)).unwrap_or(0) + 2;
        column.set_constraint(ColumnConstraint::LowerBoundary(comfy_table::Width::Fixed(least)));
    }
    if let Some(width) = width {
        table.set_content_arrangement(ContentArrangement::Dynamic).set_width(width);
    }
    table.trim_fmt()
}

/// What a list of content blocks says; what `instead` says of a block, by its position, stands in
/// its place.
pub(crate) fn contents_with(
    blocks: &Value,
    instead: impl Fn(usize, &Value) -> Option<String>,
) -> String {
    let blocks = blocks.as_array().into_iter().flatten().enumerate();
    let texts = blocks.map(|(at, block)| instead(at, block).unwrap_or_else(|| content(block)));
    texts.collect::<Vec<_>>().join("\n")
}

fn content(block: &Value) -> String {
    let text = |name: &str| block[name].as_str().unwrap_or_default();
    match text("type") {
        "text" => plain(text("text")),
        "resource_link" => format!("[{}]", plain(text("uri"))),
        "resource" => resource(&block["resource"]),
        _ => {
            let (kind, mime) = (cell(&block["type"]), cell(&block["mimeType"]));
            let size = text("data").len();
            format!("[{kind} {mime}, {size} characters of Base64; save it with --save DIR]")
        }
    }
}

/// What a resource holds.
pub(crate) fn resource(resource: &Value) -> String {
    match (resource["text"].as_str(), resource["blob"].as_str()) {
        (Some(text), _) => plain(text),
        (None, Some(blob)) => {
            let mime = cell(&resource["mimeType"]);
            format!("[{mime}, {} characters of Base64; save it with --save DIR]", blob.len())
        }
        (None, None) => format!("[{}]", cell(&resource["uri"])),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let rows = [vec!["a".to_owned(), "x".to_owned()], vec!["long".to_owned(), String::new()]];
        assert_eq!(table("N  D", &rows, "none"), "N     D\na     x\nlong");
        assert_eq!(table("N", &[], "none"), "none");
        let wide = [vec!["名前".to_owned(), "x".to_owned()], vec!["a".to_owned(), "y".to_owned()]];
        assert_eq!(table("N  D", &wide, "none"), "N     D\n名前  x\na     y");
    }

    #[test]
    fn a_table_fits_the_width_of_the_terminal() {
        let row = |name: &str, about: &str| vec![name.to_owned(), about.to_owned()];
        let rows = [row("echo", "says what you say"), row("add", "adds two numbers")];
        let text = arranged("NAME  DESCRIPTION", &rows, Some(20));
        assert!(text.lines().all(|line| line.chars().count() <= 20), "{text}");
        assert!(text.lines().count() > 3 && text.contains("echo  says"), "{text}");
        let narrow = arranged("NAME  DESCRIPTION", &rows, Some(8));
        for word in ["NAME", "DESCRIPTION", "echo", "numbers"] {
            assert!(narrow.contains(word), "words stay whole: {narrow}");
        }
        let wide = arranged("NAME  DESCRIPTION", &rows, Some(200));
        assert_eq!(wide, arranged("NAME  DESCRIPTION", &rows, None));
    }

    #[test]
    fn what_a_server_says_cannot_drive_the_terminal() {
        let contents = |blocks: &Value| contents_with(blocks, |_, _| None);
        let blocks = json!([{"type": "text", "text": "a\u{1b}[2Jb\nc"}]);
        assert_eq!(contents(&blocks), "a[2Jb\nc");
        let strange = json!([{"type": "a\u{1b}b", "mimeType": "c\u{9b}d"}]);
        assert_eq!(contents(&strange), "[ab cd, 0 characters of Base64; save it with --save DIR]");
        assert_eq!(cell(&json!("\u{7}bell\nmore")), "bell");
    }
}
