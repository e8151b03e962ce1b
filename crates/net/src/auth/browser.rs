//! Opens a page in the user's browser.
//!
//! The browser is started without a shell, in a process group of its own, without our stdin,
//! stdout and stderr: stdout may carry MCP. It lives on if we are ended, and tokio reaps it
//! if it ends first. It gets the environment, but no variable whose name says that it is secret:
//! pages, extensions and crash reports are not to have our keys.

use std::ffi::{OsStr, OsString};
use std::io;
use std::process::Stdio;

use http::Uri;
use tokio::process::Command;

use crate::platform;
use crate::secret::is_secret_name;

/// Browsers that need the terminal, which we do not give away.
const FOR_TERMINALS: [&str; 6] = ["browsh", "elinks", "links", "lynx", "w3m", "www-browser"];

/// Names a file, without which no window can be opened.
const X_COOKIE: &str = "XAUTHORITY";

/// Opens a page, by `$BROWSER` or as the system does it; http and https only. False if there
/// is no browser here. Takes a tokio runtime.
pub fn open_browser(url: &str, environment: &[(OsString, OsString)]) -> io::Result<bool> {
    check_page(url)?;
    let variable = |name: &str| {
        let (_, value) = environment.iter().find(|(it, _)| it == name)?;
        value.to_str().map(str::to_owned)
    };
    let own = variable("BROWSER").unwrap_or_default();
    let own = own.split(':').filter_map(|line| fill_in(line, url));
    let openers = platform::page_openers(variable).into_iter();
    let openers = openers.map(|words| words.iter().copied().chain([url]).map(str::to_owned));
    for words in own.chain(openers.map(Iterator::collect)) {
        match start(&words, environment) {
            Ok(()) => return Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(false)
}

/// Whether a URL can be shown to a browser, and to nothing else.
fn check_page(url: &str) -> io::Result<()> {
    let parsed = url.parse::<Uri>().ok().filter(|url| url.host().is_some());
    let scheme = parsed.as_ref().and_then(Uri::scheme_str);
    let is_plain = url.bytes().all(|byte| byte.is_ascii_graphic() && !b"\"'`<>\\".contains(&byte));
    if matches!(scheme, Some("http" | "https")) && is_plain {
        return Ok(());
    }
    Err(io::Error::new(io::ErrorKind::InvalidInput, "only http and https pages can be opened"))
}

/// The words of one command of `$BROWSER`: the URL replaces `%s`, or comes last.
fn fill_in(line: &str, url: &str) -> Option<Vec<String>> {
    let mut words: Vec<_> = line.split_ascii_whitespace().map(|it| it.replace("%s", url)).collect();
    let program = words.first()?.rsplit('/').next()?;
    if FOR_TERMINALS.contains(&program) {
        return None;
    }
    if !line.contains("%s") {
        words.push(url.to_owned());
    }
    Some(words)
}

fn is_for_browsers(name: &OsStr) -> bool {
    name == X_COOKIE || !is_secret_name(&name.to_string_lossy())
}

fn start(words: &[String], environment: &[(OsString, OsString)]) -> io::Result<()> {
    let (program, rest) = words.split_first().ok_or(io::ErrorKind::NotFound)?;
    let mut command = Command::new(program);
    command.args(rest).process_group(0).env_clear();
    let known = environment.iter().filter(|(name, _)| is_for_browsers(name));
    command.envs(known.map(|(name, value)| (name, value)));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    // Tokio reaps children that are dropped while they run.
    command.spawn().map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn browser(line: &str) -> Vec<(OsString, OsString)> {
        vec![("BROWSER".into(), line.into())]
    }

    #[test]
    fn only_pages_are_opened() {
        // wire: OC-11, OC-38
        for good in ["https://as/a?b=c&d=%20#e", "http://127.0.0.1:1/"] {
            check_page(good).unwrap();
        }
        for bad in [
            "",
            "as",
            "file:///etc/passwd",
            "javascript:alert(1)",
            "--help",
            "https://",
            "https://as/\n-x",
            "https://as/ b",
            "https://as/`id`",
            "https://as/\"&calc",
            "-https://a/",
        ] {
            assert!(open_browser(bad, &browser("true")).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_variable_may_say_where_the_page_goes() {
        let filled = |line| fill_in(line, "http://p").map(|words| words.join("|"));
        assert_eq!(filled("firefox").as_deref(), Some("firefox|http://p"));
        assert_eq!(filled("/a/b --new %s -x").as_deref(), Some("/a/b|--new|http://p|-x"));
        assert_eq!(filled("/usr/bin/lynx"), None);
        assert_eq!(filled(" "), None);
    }

    #[tokio::test]
    async fn a_machine_without_a_browser_says_so() {
        assert!(!open_browser("http://p/", &[]).unwrap() || cfg!(target_os = "macos"));
        let missing = browser("/no/such/browser:");
        assert!(!open_browser("http://p/", &missing).unwrap() || cfg!(target_os = "macos"));
    }
}
