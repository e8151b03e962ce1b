//! The conversation itself, stepped by several threads.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use switchboard_net::backend::{Backend, PendingWork};
use switchboard_net::call::Call;
use switchboard_net::connection::ClientConnection;
use switchboard_proto::client::Sharing;
use switchboard_proto::exchange::{Carrier, HeaderParams, Lane};
use switchboard_proto::jsonrpc::{Message, parse};
use switchboard_proto::limits::Limits;
use switchboard_proto::revision::Era;

/// While it takes the first verb it lets a second one come, and waits a moment for it.
struct Busy {
    taken: Mutex<Vec<String>>,
    first: Sender<()>,
    second: Mutex<Receiver<()>>,
}

impl Backend for Busy {
    fn open(
        &self,
        _: &Arc<ClientConnection>,
        _: &Call,
        _: Message,
        _: HeaderParams,
    ) -> PendingWork {
        PendingWork::none()
    }

    fn note(&self, _: &Arc<ClientConnection>, message: Message) -> PendingWork {
        self.taken.lock().unwrap().push(message.method().to_owned());
        assert_ne!(message.method(), "notifications/panic", "as told");
        if message.method() == "notifications/first" {
            self.first.send(()).unwrap();
            _ = self.second.lock().unwrap().recv_timeout(Duration::from_millis(100));
        }
        PendingWork::one(std::future::pending())
    }
}

fn say(face: &Arc<ClientConnection>, method: &str) -> PendingWork {
    let text = format!(r#"{{"jsonrpc":"2.0","method":"notifications/{method}"}}"#);
    let incoming = parse(Bytes::from(text)).unwrap();
    face.step(|half| half.handle_incoming(Lane::MAIN, incoming, None)).1
}

/// Otherwise a stream that nobody reads would hold up the calls of other lanes.
#[test]
fn each_caller_drives_the_work_of_its_own_verbs() {
    let (first, begun) = channel();
    let (done, second) = channel();
    let taken = Mutex::default();
    let backend = Arc::new(Busy { taken, first, second: Mutex::new(second) });
    let limits = Limits::default();
    let face = ClientConnection::new(
        Era::Modern,
        Carrier::Pipe,
        Arc::clone(&backend) as _,
        &limits,
        Sharing::Alone,
    );
    let other = Arc::clone(&face);
    let thread = std::thread::spawn(move || {
        begun.recv().unwrap();
        let works = say(&other, "second");
        _ = done.send(());
        works.is_done()
    });
    assert!(!say(&face, "first").is_done());
    assert!(!thread.join().unwrap(), "the second verb's work went to the first caller");
    assert_eq!(*backend.taken.lock().unwrap(), ["notifications/first", "notifications/second"]);
}

#[test]
fn an_inside_that_panics_once_is_told_the_rest() {
    let (first, _begun) = channel();
    let (_done, second) = channel();
    let taken = Mutex::default();
    let backend = Arc::new(Busy { taken, first, second: Mutex::new(second) });
    let limits = Limits::default();
    let face = ClientConnection::new(
        Era::Modern,
        Carrier::Pipe,
        Arc::clone(&backend) as _,
        &limits,
        Sharing::Alone,
    );
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| say(&face, "panic")));
    assert!(panicked.is_err());
    say(&face, "after");
    assert_eq!(*backend.taken.lock().unwrap(), ["notifications/panic", "notifications/after"]);
}
