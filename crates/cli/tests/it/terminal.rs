//! The commands with a person in front of them.

use std::fs::{File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::process::{Child, Command};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Instant;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

use crate::named::Home;
use crate::process::PATIENCE;

/// A terminal and what runs at it.
pub(crate) struct Terminal {
    keyboard: File,
    screen: Receiver<Vec<u8>>,
    shown: String,
    child: Child,
}

impl Terminal {
    /// Calls a tool of the built-in server.
    fn call(args: &[&str]) -> Self {
        let binary = env!("CARGO_BIN_EXE_switchboard");
        Self::start(&[&["call"], args, &["--", binary, "demo"]].concat())
    }

    pub(crate) fn start(args: &[&str]) -> Self {
        Self::start_with(args, &[])
    }

    pub(crate) fn start_with(args: &[&str], vars: &[(&str, &str)]) -> Self {
        Self::launch(Command::new(env!("CARGO_BIN_EXE_switchboard")).args(args), vars)
    }

    /// A terminal of 24 lines with 60 columns, unless the variables say what else it is.
    pub(crate) fn launch(command: &mut Command, vars: &[(&str, &str)]) -> Self {
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&ours).unwrap();
        unlockpt(&ours).unwrap();
        let path = ptsname(&ours, Vec::new()).unwrap().into_string().unwrap();
        let theirs = OpenOptions::new().read(true).write(true).open(path).unwrap();
        let size = Winsize { ws_row: 24, ws_col: 60, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&theirs, size).unwrap();
        let child = command
            .env_remove("NO_COLOR")
            .env_remove("TMUX")
            .env("TERM", "xterm-256color")
            .env("PAGER", "cat")
            .envs(vars.iter().copied())
            .stdin(theirs.try_clone().unwrap())
            .stdout(theirs.try_clone().unwrap())
            .stderr(theirs)
            .spawn()
            .unwrap();
        let keyboard = File::from(ours);
        let mut reading = keyboard.try_clone().unwrap();
        let (seen, screen) = channel();
        thread::spawn(move || {
            let mut buffer = [0; 4096];
            // The end of a terminal is an error.
            while let Ok(count @ 1..) = reading.read(&mut buffer) {
                _ = seen.send(buffer[..count].to_vec());
            }
        });
        Self { keyboard, screen, shown: String::new(), child }
    }

    /// Waits for what is shown, and forgets what was before it.
    #[track_caller]
    pub(crate) fn until(&mut self, text: &str) -> &mut Self {
        let begun = Instant::now();
        while !self.shown.contains(text) {
            assert!(begun.elapsed() < 4 * PATIENCE, "never {text:?} in {:?}", self.shown);
            match self.screen.recv_timeout(PATIENCE) {
                Ok(more) => self.shown.push_str(&String::from_utf8_lossy(&more)),
                Err(error) => panic!("{error} without {text:?} in {:?}", self.shown),
            }
        }
        let end = self.shown.find(text).unwrap() + text.len();
        self.shown.drain(..end);
        self
    }

    pub(crate) fn types(&mut self, keys: &str) -> &mut Self {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
        self
    }

    /// All that is shown until the end, from what was waited for on.
    pub(crate) fn rest(&mut self) -> String {
        self.shown
            .extend(self.screen.iter().map(|more| String::from_utf8_lossy(&more).into_owned()));
        std::mem::take(&mut self.shown)
    }

    #[track_caller]
    pub(crate) fn ends_with(&mut self, code: i32) {
        assert_eq!(self.child.wait().unwrap().code(), Some(code), "{:?}", self.shown);
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // Over already, unless the test failed.
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

/// wire: MRTR-14
#[test]
fn a_form_is_filled_in_at_the_terminal_in_both_eras() {
    for era in ["legacy", "modern"] {
        let mut terminal = Terminal::call(&["--era", era, "test_elicitation", "message=Who?"]);
        terminal.until("The server asks: Who?").until("response: ").types("Ann\n");
        terminal.until("action=accept, content={\"response\":\"Ann\"}").ends_with(0);
        let mut terminal = Terminal::call(&["--era", era, "test_elicitation", "message=Who?"]);
        terminal.until("response: ").types("\u{4}").until("action=decline").ends_with(0);
    }
}

#[test]
fn a_choice_that_is_none_is_asked_for_again() {
    let mut terminal = Terminal::call(&["test_elicitation_sep1330_enums"]);
    terminal.until("legacyEnum (opt1 = Option One | ").types("nonsense\n");
    terminal.until("\"nonsense\" is no choice").until("legacyEnum (").types("opt2\n");
    terminal.until("titledMulti (value1 = First").types("First, value3\n");
    terminal.until("titledSingle (").types("\n").until("untitledMulti (").types("\n");
    terminal.until("untitledSingle (").types("option1\n");
    terminal.until("content={\"legacyEnum\":\"opt2\",\"titledMulti\":[\"value1\",\"value3\"]");
    terminal.ends_with(0);
}

/// wire: MRTR-13
#[test]
fn a_page_is_named_in_full_and_opened_by_the_person() {
    let mut terminal = Terminal::call(&["test_url_elicitation"]);
    terminal.until("open: https://modelcontextprotocol.io/").until("[y/N] ").types("y\n");
    terminal.until("You went there").ends_with(0);
}

#[test]
fn progress_is_shown_while_it_goes_on_and_errors_as_sentences() {
    let mut terminal = Terminal::call(&["test_tool_with_progress"]);
    terminal.until("50/100 Half way").until("Reported its progress").ends_with(0);
    let mut terminal = Terminal::call(&["nosuch"]);
    terminal.until("error:").until("MCP error -32602: Unknown tool: nosuch").ends_with(1);
}

/// `TERM=dumb` is a terminal that shows escape sequences as they are.
#[test]
fn a_terminal_gets_no_escapes_that_it_does_not_want() {
    let binary = env!("CARGO_BIN_EXE_switchboard");
    let words = |first: &[&'static str]| [first, &["--", binary, "demo"]].concat();
    let shown = |args: &[&str], vars: &[(&str, &str)]| Terminal::start_with(args, vars).rest();
    let dumb = ("TERM", "dumb");
    for vars in [&[dumb][..], &[("NO_COLOR", "1"), dumb], &[("CI", "true"), dumb]] {
        for args in [
            words(&["call", "test_tool_with_progress"]),
            words(&["tools"]),
            words(&["call", "nosuch"]),
            words(&["call", "test_image_content"]),
            vec!["--help"],
            vec!["tools", "--bogus"],
        ] {
            let text = shown(&args, vars);
            assert!(!text.is_empty() && !text.contains('\u{1b}'), "{args:?}: {text:?}");
        }
    }
    let plain = shown(&words(&["tools"]), &[("NO_COLOR", "1")]);
    assert!(plain.starts_with("NAME "), "{plain:?}");
    let painted = shown(&words(&["tools"]), &[]);
    assert!(painted.starts_with("\u{1b}[1mNAME "), "{painted:?}");
}

#[test]
fn a_table_fits_the_terminal() {
    let binary = env!("CARGO_BIN_EXE_switchboard");
    let text = Terminal::start_with(&["tools", "--", binary, "demo"], &[("NO_COLOR", "1")]).rest();
    let widths = text.lines().map(|line| line.trim_end().chars().count());
    assert!(widths.max().is_some_and(|widest| widest <= 60), "{text}");
}

#[test]
fn what_is_longer_than_the_screen_goes_through_the_pager() {
    let binary = env!("CARGO_BIN_EXE_switchboard");
    let vars = [("PAGER", "sed 's/^/| /'")];
    let text = Terminal::start_with(&["tools", "--", binary, "demo"], &vars).rest();
    assert!(text.contains("| echo"), "{text}");
    let short = ["call", "echo", "message=hi", "--", binary, "demo"];
    let text = Terminal::start_with(&short, &vars).rest();
    assert_eq!(text.trim(), "hi");
}

#[test]
fn a_picture_is_shown_where_the_terminal_can() {
    let binary = env!("CARGO_BIN_EXE_switchboard");
    let args = ["call", "test_image_content", "--", binary, "demo"];
    let kitty = Terminal::start_with(&args, &[("TERM", "xterm-kitty")]).rest();
    assert!(kitty.contains("\u{1b}_Ga=T,f=100,m=0;iVBOR"), "{kitty:?}");
    let iterm = Terminal::start_with(&args, &[("TERM_PROGRAM", "iTerm.app")]).rest();
    assert!(iterm.contains("\u{1b}]1337;File=inline=1;"), "{iterm:?}");
    let sixel = Terminal::start_with(&args, &[("TERM", "foot")]).rest();
    assert!(sixel.contains("\u{1b}P0;1;0q\"1;1;"), "{sixel:?}");
    let other = Terminal::start(&args).rest();
    assert!(other.contains("[image image/png, ") && other.contains("--save DIR"), "{other:?}");
}

/// A command that says nothing; the doctor waits for it.
#[test]
fn what_takes_long_is_named_while_it_lasts() {
    let mut terminal = Terminal::start(&["doctor", "--timeout", "2", "--", "sleep", "60"]);
    terminal.until("waiting for the answer to server/discover, 2 s at most");
    terminal.until("waiting for the answer to initialize");
    terminal.until("the server does not answer initialize").ends_with(1);
}

#[test]
fn servers_are_written_when_the_person_says_so() {
    let home = Home::new();
    let from = home.write("from.json", r#"{"mcpServers": {"a": {"command": "c"}}}"#);
    let into = home.path.join("into.json");
    let line = ["import", "--from", &from, "--write", into.to_str().unwrap()];
    let mut terminal = Terminal::start(&line);
    terminal.until("WHAT BECOMES OF IT").until("Add 1 server to").until("[y/N] ").types("\n");
    terminal.until("Nothing was written").ends_with(0);
    assert!(!into.exists());
    let mut terminal = Terminal::start(&line);
    terminal.until("[y/N] ").types("y\n").until("Added 1 server").ends_with(0);
    assert!(into.exists());
}
