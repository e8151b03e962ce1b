//! An echo server on stdio; its only argument is its era.

use std::io::{BufRead as _, Write as _};

use switchboard_counts::server::EchoServer;
use switchboard_proto::revision::Era;

fn main() -> std::io::Result<()> {
    let is_modern = std::env::args().nth(1).is_some_and(|era| era == "modern");
    let server = EchoServer::new(if is_modern { Era::Modern } else { Era::Legacy }, 1);
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
