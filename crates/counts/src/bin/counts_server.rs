//! An echo server on stdio; its only argument is its era.

use std::io::{BufRead as _, Write as _};

use echo::EchoServer;

// As a file, not by the library: with that, all of our code would be optimised once more.
#[path = "../echo.rs"]
mod echo;

fn main() -> std::io::Result<()> {
    let is_modern = std::env::args().nth(1).is_some_and(|era| era == "modern");
    let server = EchoServer::new(is_modern, 1);
    let mut output = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        if let Some(mut answer) = server.answer(&line?) {
            answer.push('\n');
            output.write_all(answer.as_bytes())?;
            output.flush()?;
        }
    }
    Ok(())
}
