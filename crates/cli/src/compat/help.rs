//! The help of a tool, made from its table.

use std::fmt::Write as _;

use super::table::{Means, Row, Takes, Tool};

/// How wide the column of flags is.
const COLUMN: usize = 34;

pub(super) fn text(tool: &Tool) -> String {
    let mut text = format!(
        "switchboard, in the place of {} ({})\n\nUsage: {}\n\nFlags:\n",
        tool.name, tool.origin, tool.usage
    );
    for row in tool.rows {
        let flag = spelt(row);
        let gap = if flag.len() < COLUMN { "" } else { "\n" };
        // Writing to a string does not fail.
        _ = writeln!(text, "  {flag:COLUMN$}{gap}{}", row.help);
        let pad = " ".repeat(COLUMN + 2);
        _ = writeln!(text, "{pad}{}", meaning(row));
    }
    text.push_str(
        "\nThe flags of `switchboard bridge` are understood too; see switchboard bridge --help.\n",
    );
    text
}

fn spelt(row: &Row) -> String {
    let value = match row.takes {
        Takes::Nothing => "",
        Takes::One => " VALUE",
        Takes::Maybe => " [VALUE]",
        Takes::Two => " NAME VALUE",
        Takes::Any => " [VALUE]...",
    };
    let names: Vec<_> = std::iter::once(&row.flag).chain(row.aliases).copied().collect();
    format!("{}{value}", names.join(", "))
}

fn meaning(row: &Row) -> String {
    match row.means {
        Means::Ours(flag) | Means::Turned(flag, _) => format!("= bridge {flag}"),
        Means::Words(words) => format!("= bridge {}", words.join(" ")),
        Means::Plan(words) => format!("= {words}"),
        Means::Always(why) => format!("always so: {why}"),
        Means::Later(why) => format!("not honoured yet: {why}"),
        Means::Never(why) => format!("refused: {why}"),
    }
}
