//! The person at the terminal, who is asked to sign in.

use std::io::{self, IsTerminal as _, Write as _};
use std::pin::Pin;
use std::sync::OnceLock;

use switchboard_net::auth::browser::open_browser;
use switchboard_net::auth::person::SignInPerson;
use tokio::sync::{Mutex, mpsc};

use crate::output::plain;
use crate::target::environment;

/// Shows pages on stderr, always, and in a browser, if that is wanted.
#[derive(Debug)]
pub(crate) struct TerminalUser {
    opens_browser: bool,
    /// Lines that they type; none if stdin is for something else.
    lines: Option<OnceLock<Mutex<mpsc::Receiver<String>>>>,
}

impl TerminalUser {
    /// `owns_stdin` if nobody else reads what is typed.
    pub(crate) fn new(opens_browser: bool, owns_stdin: bool) -> Self {
        let lines = (owns_stdin && io::stdin().is_terminal()).then(OnceLock::new);
        Self { opens_browser, lines }
    }

    /// Opens a page, and says what came of it.
    fn open(&self, url: &str) -> String {
        if !self.opens_browser {
            return "Open this address in a browser.".to_owned();
        }
        let environment = environment();
        match open_browser(url, &environment) {
            Ok(true) => "Your browser opens it.".to_owned(),
            Ok(false) => "There is no browser here. Open this address anywhere.".to_owned(),
            Err(error) => {
                format!("No browser could be opened ({error}). Open this address anywhere.")
            }
        }
    }
}

impl SignInPerson for TerminalUser {
    fn show_page(&self, server: &str, url: &str) {
        let opened = self.open(url);
        tell(&format!("Sign in to {server}:\n\n  {url}\n\n{opened}"));
        if self.lines.is_some() {
            tell(
                "If the browser is on another machine, its last page cannot be shown. \
                 Paste the address of that page here.",
            );
        }
    }

    fn show_device(&self, server: &str, url: &str, complete_url: Option<&str>, code: &str) {
        tell(&format!("Sign in to {server}: open\n\n  {url}\n\nand type the code {code}"));
        if let Some(complete_url) = complete_url {
            tell(&format!("This address has the code in it already:\n\n  {complete_url}"));
        }
    }

    fn show_waiting(&self, server: &str, url: Option<&str>) {
        tell(&format!(
            "Another process is signing in to {server}. Go on in the page that it opened."
        ));
        if let Some(url) = url {
            tell(&format!("If that page is gone, open it again:\n\n  {url}"));
        }
    }

    fn pasted<'p>(&'p self) -> Pin<Box<dyn Future<Output = String> + Send + 'p>> {
        Box::pin(async move {
            let Some(lines) = &self.lines else { return std::future::pending().await };
            let lines = lines.get_or_init(|| Mutex::new(read_lines()));
            match lines.lock().await.recv().await {
                Some(line) => line,
                // Their input has ended; they may still come back by the browser.
                None => std::future::pending().await,
            }
        })
    }
}

/// Lines that may wait to be looked at.
const MOST_LINES: usize = 4;

/// Lines of stdin, read by a thread that nobody waits for: it may never get one.
fn read_lines() -> mpsc::Receiver<String> {
    let (sender, lines) = mpsc::channel(MOST_LINES);
    std::thread::spawn(move || {
        for line in io::stdin().lines().map_while(Result::ok) {
            if sender.blocking_send(line).is_err() {
                return;
            }
        }
    });
    lines
}

/// Says something on stderr; stdout may carry messages.
fn tell(text: &str) {
    let mut stderr = io::stderr().lock();
    // A reader that closed stderr wants no more.
    _ = writeln!(stderr, "{}", plain(text));
}
