//! Stderr behind a bounded queue and a thread of its own.
//!
//! Some clients start us with a pipe as stderr and never read it. Once the pipe
//! is full, a plain write would stop every conversation for good. Here a full
//! queue drops lines, and says how many once there is room again.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

/// Where log lines are handed in. Clones share the queue.
#[derive(Clone, Debug)]
pub(crate) struct Sink {
    queue: SyncSender<SinkJob>,
    dropped: Arc<AtomicUsize>,
}

#[derive(Debug)]
enum SinkJob {
    Write(Vec<u8>),
    /// Answer when everything before it is written.
    Flush(SyncSender<()>),
}

impl Sink {
    /// Writes to our stderr.
    pub(crate) fn stderr() -> Self {
        Self::new(io::stderr())
    }

    fn new(out: impl Write + Send + 'static) -> Self {
        let (queue, jobs) = sync_channel(QUEUE);
        let dropped = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&dropped);
        let writing = move || write_all(out, &jobs, &counted);
        // Without the thread the queue has no reader and lines are dropped: the
        // program itself is worth more than its log.
        _ = thread::Builder::new().name("log".to_owned()).spawn(writing);
        Self { queue, dropped }
    }

    /// Waits until everything is written, but not for a reader that does not read.
    pub(crate) fn flush_lines(&self) {
        let (done, written) = sync_channel(1);
        if self.queue.try_send(SinkJob::Flush(done)).is_ok() {
            _ = written.recv_timeout(PATIENCE);
        }
    }
}

impl Write for Sink {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        if self.queue.try_send(SinkJob::Write(line.to_vec())).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn write_all(mut out: impl Write, jobs: &Receiver<SinkJob>, dropped: &AtomicUsize) {
    for job in jobs {
        let written = match job {
            SinkJob::Write(line) => out.write_all(&line),
            SinkJob::Flush(done) => {
                // The waiting thread may have timed out.
                _ = done.try_send(());
                Ok(())
            }
        };
        let lost = dropped.swap(0, Ordering::Relaxed);
        if written.is_ok() && lost > 0 {
            // If this fails, so does the next line.
            _ = writeln!(out, "({lost} log lines dropped: stderr is read too slowly)");
        }
    }
}

/// Lines that may wait; the longest are those of a child, a few KiB each.
const QUEUE: usize = 1024;
/// How long the end of the program may wait for its last lines.
const PATIENCE: Duration = Duration::from_millis(500);

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::mpsc::channel;

    use super::*;

    /// Blocks in its first write until it is let go.
    struct Stuck {
        entered: std::sync::mpsc::Sender<()>,
        let_go: Receiver<()>,
        seen: Arc<Mutex<Vec<u8>>>,
    }

    impl Write for Stuck {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            _ = self.entered.send(());
            _ = self.let_go.recv();
            self.seen.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_reader_that_stops_costs_lines_but_never_blocks() {
        let (entered, has_entered) = channel();
        let (release, let_go) = channel();
        let seen = Arc::default();
        let mut sink = Sink::new(Stuck { entered, let_go, seen: Arc::clone(&seen) });
        sink.write_all(b"first\n").unwrap();
        has_entered.recv().unwrap();
        for _ in 0..QUEUE + 7 {
            sink.write_all(b"more\n").unwrap();
        }
        drop(release);
        // The queue is full when the flush is asked for, so ask until there is room.
        let written = || String::from_utf8(seen.lock().unwrap().clone()).unwrap();
        while written().lines().filter(|line| *line == "more").count() < QUEUE {
            thread::yield_now();
        }
        sink.flush_lines();
        assert!(written().starts_with("first\n(7 log lines dropped"), "{:.80}", written());
    }

    #[test]
    fn a_flush_waits_for_all_that_came_before() {
        let seen = Arc::default();
        let (entered, _has_entered) = channel();
        let (release, let_go) = channel();
        drop(release);
        let mut sink = Sink::new(Stuck { entered, let_go, seen: Arc::clone(&seen) });
        for _ in 0..100 {
            sink.write_all(b"x").unwrap();
        }
        sink.flush_lines();
        assert_eq!(seen.lock().unwrap().len(), 100);
    }
}
