//! What no honest peer does, against the real binary: nothing hangs, nothing is
//! left behind, and whoever is not to blame does not notice.

mod child;
mod client;
mod server;
mod session;

use std::thread;

use serde_json::Value;

use crate::web::Session;

/// Makes `count` calls of a tool at once, under the ids from `first` on, and
/// returns their answers in that order.
fn call_at_once(session: &Session, first: u64, count: u64, tool: &'static str) -> Calls {
    let calling = (first..first + count).map(|id| {
        let session = Session { port: session.port, id: session.id.clone() };
        (id, thread::spawn(move || session.call_as(id, tool).message()))
    });
    Calls(calling.collect())
}

/// Calls that wait for their answers.
struct Calls(Vec<(u64, thread::JoinHandle<Value>)>);

impl Calls {
    /// Waits until each has failed under its own id.
    #[track_caller]
    fn all_fail(self, text: &str) {
        for (id, calling) in self.0 {
            let answer = calling.join().unwrap();
            assert_eq!(answer["id"], id, "{answer}");
            let told = answer["error"]["message"].as_str().unwrap_or_default();
            assert!(told.contains(text), "{answer}");
        }
    }
}
