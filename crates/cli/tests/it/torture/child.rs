//! Servers that die, babble, or will not die.

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use super::call_at_once;
use crate::process::{SERVER, Switchboard, families, running, text_of, until};
use crate::web::Session;

fn pid_of(session: &Session) -> u32 {
    text_of(&session.call("pid", &json!({})).message()).parse().unwrap()
}

fn kill(pid: u32) {
    kill_process(Pid::from_raw(pid.try_into().unwrap()).unwrap(), Signal::KILL).unwrap();
}

/// wire: STD-6, STD-10
#[test]
fn servers_killed_in_a_hundred_calls_fail_each_and_the_next_works() {
    let (mut bridge, port) = Switchboard::serve(&[]);
    let sessions: Vec<_> = (0..4).map(|_| Session::open(port)).collect();
    let pids: Vec<_> = sessions.iter().map(pid_of).collect();
    let calls: Vec<_> =
        sessions.iter().zip(1..).map(|(at, n)| call_at_once(at, n * 100, 25, "hang")).collect();
    for _ in 0..100 {
        bridge.until_logged("hanging");
    }
    pids.iter().copied().for_each(kill);
    for calls in calls {
        calls.all_fail("Transport closed (killed by signal 9)");
    }
    for (session, old) in sessions.iter().zip(pids) {
        assert_eq!(text_of(&session.call("echo", &json!({"text": "on"})).message()), "on");
        assert_ne!(pid_of(session), old);
    }
}

/// wire: STD-6, STD-10
#[test]
fn a_server_killed_in_a_hundred_calls_of_a_pipe_fails_each_and_the_next_works() {
    let mut bridge = Switchboard::start(&[&["bridge", "--"], &SERVER[..]].concat());
    bridge.greet();
    let pid = bridge.call(1, "pid", &json!({})).parse().unwrap();
    for id in 100..200 {
        let params = json!({"name": "hang", "arguments": {}});
        bridge.send(&json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}));
    }
    for _ in 0..100 {
        bridge.until_logged("hanging");
    }
    kill(pid);
    let mut failed: Vec<_> = (0..100)
        .map(|_| {
            let answer = bridge.message();
            assert!(answer["error"]["message"].is_string(), "{answer}");
            answer["id"].as_u64().unwrap()
        })
        .collect();
    failed.sort_unstable();
    assert_eq!(failed, (100..200).collect::<Vec<_>>());
    assert_eq!(bridge.call(1, "echo", &json!({"text": "on"})), "on");
}

#[test]
fn a_killed_bridge_leaves_no_process_of_its_groups() {
    let (bridge, port) = Switchboard::serve(&[]);
    let sessions: Vec<_> = (0..3).map(|_| Session::open(port)).collect();
    for session in &sessions {
        assert_eq!(text_of(&session.call("family", &json!({})).message()), "family");
    }
    let members = families(&bridge.children());
    // One guard; each group has a server, and three grandchildren at least.
    assert!(members.len() >= 13, "{members:?}");
    bridge.signal(Signal::KILL);
    until("all are gone", || running(&members).is_empty());
}

/// wire: STD-2, STD-3
#[test]
fn garbage_and_floods_cost_nobody_a_call() {
    let (_bridge, port) = Switchboard::serve(&["--log-level", "error"]);
    let (noisy, quiet) = (Session::open(port), Session::open(port));
    for round in 0..3 {
        let flood = noisy.call("flood", &json!({"lines": 2000}));
        assert_eq!(text_of(&flood.message()), "after the flood", "{round}");
        let garbage = noisy.call("garbage", &json!({}));
        assert_eq!(text_of(&garbage.message()), "after the garbage", "{round}");
        assert_eq!(text_of(&quiet.call("echo", &json!({"text": "on"})).message()), "on");
    }
}

/// The rest of the line may never come, and then neither does the answer.
#[test]
fn half_a_line_fails_its_call_in_time_and_no_other() {
    let (mut bridge, port) = Switchboard::serve(&["--timeout", "2", "--start-timeout", "60"]);
    let (half, whole) = (Session::open(port), Session::open(port));
    let calls = call_at_once(&half, 7, 1, "half");
    bridge.until_logged("half a line");
    assert_eq!(text_of(&whole.call("echo", &json!({"text": "on"})).message()), "on");
    calls.all_fail("Request timeout after");
    // It goes on behind the half, on the same line.
    assert_eq!(text_of(&half.call("echo", &json!({"text": "on"})).message()), "on");
    assert_eq!(text_of(&half.call("echo", &json!({"text": "and on"})).message()), "and on");
    assert_eq!(text_of(&whole.call("echo", &json!({"text": "on"})).message()), "on");
}

/// It has closed its stdout, lives on, and ignores SIGTERM and the end of stdin.
/// wire: STD-5, STD-6
#[test]
fn a_server_that_will_neither_speak_nor_die_is_killed_and_replaced() {
    let (mut bridge, port) = Switchboard::serve(&[]);
    let session = Session::open(port);
    assert_eq!(text_of(&session.call("family", &json!({})).message()), "family");
    let members = families(&bridge.children());
    let old = pid_of(&session);
    let calls = call_at_once(&session, 3, 1, "deaf");
    bridge.until_logged("deaf");
    calls.all_fail("Transport closed");
    assert_eq!(text_of(&session.call("echo", &json!({"text": "on"})).message()), "on");
    assert_ne!(pid_of(&session), old);
    until("all of the old ones are gone", || running(&members).is_empty());
}
