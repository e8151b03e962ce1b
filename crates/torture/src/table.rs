//! What came of the attacks, as lines for a terminal and as a table for a document.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use crate::campaign::Row;

const BEGIN: &str = "<!-- torture: begin -->";
const END: &str = "<!-- torture: end -->";

/// Prints a line as soon as its attack is over.
#[expect(clippy::print_stdout, reason = "this is what the program is for")]
pub(crate) fn show(row: &Row) {
    let seconds = row.took.as_secs_f64();
    match &row.verdict {
        Ok(times) => {
            println!("  held    {:<12} {} ({times} times, {seconds:.1} s)", row.area, row.attack);
        }
        Err(why) => println!(
            "  BROKEN  {:<12} {} ({seconds:.1} s)\n          promised: {}\n          but: {why}",
            row.area, row.attack, row.promise
        ),
    }
}

/// Prints the whole table and how many promises broke.
#[expect(clippy::print_stdout, reason = "this is what the program is for")]
pub(crate) fn print(rows: &[Row]) -> usize {
    let width = rows.iter().map(|row| row.attack.chars().count()).max().unwrap_or(0);
    println!("\n{:<12} {:<width$} {:>7}  {:<6} promise", "area", "attack", "times", "held?");
    for row in rows {
        let (times, held) = told(row);
        println!("{:<12} {:<width$} {times:>7}  {held:<6} {}", row.area, row.attack, row.promise);
    }
    let broken = rows.iter().filter(|row| row.verdict.is_err()).count();
    println!("\n{} attacks, {} held, {broken} BROKEN", rows.len(), rows.len() - broken);
    broken
}

fn told(row: &Row) -> (String, &'static str) {
    match &row.verdict {
        Ok(times) => (times.to_string(), "held"),
        Err(_) => ("-".to_owned(), "BROKEN"),
    }
}

/// Puts the table between the two marks of a document.
pub(crate) fn write(file: &Path, rows: &[Row]) -> Result<(), String> {
    let text = fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
    let new = replaced(&text, &markdown(rows))
        .ok_or_else(|| format!("{} has no lines {BEGIN} and {END}", file.display()))?;
    fs::write(file, new).map_err(|error| format!("{}: {error}", file.display()))
}

fn replaced(text: &str, table: &str) -> Option<String> {
    let (before, rest) = text.split_once(BEGIN)?;
    let (_, after) = rest.split_once(END)?;
    Some(format!("{before}{BEGIN}\n{table}{END}{after}"))
}

fn markdown(rows: &[Row]) -> String {
    let mut text = String::new();
    let mut area = "";
    for row in rows {
        if row.area != area {
            area = row.area;
            // Writing to a string does not fail.
            _ = writeln!(
                text,
                "\n### {}\n\n| attack | times | promise | |\n|---|---|---|---|",
                title(area)
            );
        }
        let (times, held) = told(row);
        let cell = |text: &str| text.replace('|', "\\|");
        _ = writeln!(text, "| {} | {times} | {} | {held} |", cell(&row.attack), cell(&row.promise));
    }
    text.push('\n');
    text
}

fn title(area: &str) -> &str {
    match area {
        "access" => "Who gets in",
        "input" => "Bad input",
        "servers" => "Bad servers",
        "clients" => "Bad clients",
        "faults" => "Faults under load",
        "exhaustion" => "Exhaustion",
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_between_the_marks_is_replaced() {
        let text = format!("before\n{BEGIN}\nold\n{END}\nafter\n");
        let new = replaced(&text, "new\n").unwrap();
        assert_eq!(new, format!("before\n{BEGIN}\nnew\n{END}\nafter\n"));
        assert_eq!(replaced("no marks", "new"), None);
    }
}
