//! The commands with a person in front of them.

use std::fs::{File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::process::{Child, Command};
use std::sync::mpsc::{Receiver, channel};
use std::thread;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

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
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&ours).unwrap();
        unlockpt(&ours).unwrap();
        let path = ptsname(&ours, Vec::new()).unwrap().into_string().unwrap();
        let theirs = OpenOptions::new().read(true).write(true).open(path).unwrap();
        let binary = env!("CARGO_BIN_EXE_switchboard");
        let child = Command::new(binary)
            .args(args)
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
        while !self.shown.contains(text) {
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
    terminal.until("error: MCP error -32602: Unknown tool: nosuch").ends_with(1);
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
