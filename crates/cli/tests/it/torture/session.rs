//! Sessions that nobody comes back to.

use std::process::Command;
use std::thread;
use std::time::Duration;

use serde_json::json;

use crate::process::{Switchboard, text_of, until};
use crate::web::Session;

/// A server that costs little: a thousand of them run at once.
const SMALL: &str = concat!("sh '", env!("CARGO_MANIFEST_DIR"), "/tests/it/torture/server.sh'");

/// Opens a thousand sessions, forgets them, and waits until they are gone.
fn open_and_abandon(bridge: &Switchboard, port: u16, descriptors: usize) {
    thread::scope(|scope| {
        for _ in 0..10 {
            scope.spawn(|| (0..100).for_each(|_| _ = Session::open_at(port, "small")));
        }
    });
    until("no server is left", || bridge.children().is_empty());
    until("no descriptor is left", || bridge.descriptors() <= descriptors);
}

/// What the first thousand leave behind is what is kept for the next; that it
/// is given back takes the allocator some seconds.
#[test]
fn a_thousand_abandoned_sessions_leave_nothing_behind() {
    let (bridge, port) =
        Switchboard::serve_command(SMALL, &["--session-timeout", "5", "--log-level", "error"]);
    open_and_abandon(&bridge, port, 64);
    let (descriptors, first) = (bridge.descriptors(), at_rest(&bridge));
    open_and_abandon(&bridge, port, descriptors);
    until("memory is back", || bridge.memory() <= first + first / 10);
}

/// Memory once it has stopped to fall.
fn at_rest(bridge: &Switchboard) -> u64 {
    let mut last = u64::MAX;
    until("memory is at rest", || {
        thread::sleep(Duration::from_secs(3));
        let now = bridge.memory();
        let rests = now + now / 50 >= last;
        last = now;
        rests
    });
    last
}

/// The server is the session's: if it is there, so is the session.
#[test]
fn no_idle_timer_ends_a_session_with_a_call_in_flight() {
    let gate = crate::signal::Gate::new("idle");
    let (mut bridge, port) = Switchboard::serve(&["--session-timeout", "3"]);
    let (busy, idle) = (Session::open(port), Session::open(port));
    let pid = text_of(&busy.call("pid", &json!({})).message());
    let file = gate.file.clone();
    let at = Session { port, id: busy.id.clone() };
    let calling = thread::spawn(move || at.call("wait", &json!({"file": file})));
    bridge.until_logged("waiting for");
    // The idle one goes by the same timer.
    until("the idle session is over", || bridge.children().len() == 2);
    assert_eq!(idle.call("echo", &json!({"text": "on"})).status, 404);
    // Twice its time, to be seen to pass.
    let later = Session::open(port);
    until("another session is over", || bridge.children().len() == 2);
    assert_eq!(later.call("echo", &json!({"text": "on"})).status, 404);
    gate.open();
    assert_eq!(text_of(&calling.join().unwrap().message()), "waited");
    assert_eq!(text_of(&busy.call("pid", &json!({})).message()), pid);
}

/// Most systems give a process 1024 descriptors, and let it have more if it asks.
#[test]
fn a_low_limit_on_descriptors_is_raised_as_far_as_it_may_be() {
    let line = "ulimit -S -n 128 && exec \"$0\" bridge --port 0 --stdio \"$1\"";
    let bin = env!("CARGO_BIN_EXE_switchboard");
    let mut bridge = Switchboard::launch(Command::new("sh").args(["-c", line, bin, SMALL]), &[]);
    let port = bridge.port();
    let sessions: Vec<_> = (0..100).map(|_| Session::open_at(port, "small")).collect();
    assert!(bridge.descriptors() > 128);
    for session in sessions {
        assert_eq!(session.call("any", &json!({})).message()["result"], json!({}));
    }
}
