//! Files that are read whole, and never waited for without end.

use std::fs::File;
use std::io::{self, ErrorKind, Read as _};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use switchboard_net::platform;

/// How long a pipe in the place of a file may take: a shell makes one of `<(command)`.
/// Files are read at once.
const PIPE_WAIT: Duration = Duration::from_secs(10);

/// How often a pipe that has nothing to read is looked at.
const LOOK: Duration = Duration::from_millis(20);

/// The first `most` bytes of a file. Whoever reads files again on a signal must not be
/// stopped by a pipe that nobody writes to.
pub(super) fn read(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let mut file = platform::open_without_waiting(path)?;
    if file.metadata()?.is_file() {
        let mut bytes = Vec::new();
        file.take(most).read_to_end(&mut bytes)?;
        return Ok(bytes);
    }
    read_pipe(&mut file, most)
}

fn read_pipe(pipe: &mut File, most: u64) -> io::Result<Vec<u8>> {
    let begun = Instant::now();
    let (mut bytes, mut piece) = (Vec::new(), [0; 8 << 10]);
    while (bytes.len() as u64) < most {
        match pipe.read(&mut piece) {
            Ok(0) if bytes.is_empty() => {
                return Err(io::Error::other("nobody writes to this pipe"));
            }
            Ok(0) => break,
            Ok(count) => bytes.extend_from_slice(&piece[..count]),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() != ErrorKind::WouldBlock => return Err(error),
            Err(_) if begun.elapsed() > PIPE_WAIT => {
                return Err(io::Error::new(ErrorKind::TimedOut, "the pipe does not end in time"));
            }
            Err(_) => thread::sleep(LOOK),
        }
    }
    Ok(bytes)
}
