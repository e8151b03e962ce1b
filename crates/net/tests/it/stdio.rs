//! A client on a pair of byte streams.

use std::time::Duration;

use serde_json::{Value, json};
use switchboard_net::stdio::{StdioOptions, serve_on};
use switchboard_proto::limits::Limits;
use tokio::io::{
    AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf,
};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::client::{call, enveloped, initialize, initialized, request};
use crate::script::Stage;
use switchboard_testkit::within;

struct Pipe {
    stage: Stage,
    lines: Lines<BufReader<ReadHalf<DuplexStream>>>,
    input: WriteHalf<DuplexStream>,
    stop: oneshot::Sender<()>,
    task: JoinHandle<std::io::Result<()>>,
}

impl Pipe {
    fn open(limits: Limits) -> Self {
        let stage = Stage::new();
        let (near, far) = tokio::io::duplex(1024);
        let (stop, stopped) = oneshot::channel();
        let (read, write) = tokio::io::split(far);
        let backend = stage.backend.clone();
        let shutdown = async move { _ = stopped.await };
        let task = tokio::spawn(serve_on(
            (read, write),
            backend,
            StdioOptions::default().limits(limits),
            shutdown,
        ));
        let (output, input) = tokio::io::split(near);
        Self { stage, lines: BufReader::new(output).lines(), input, stop, task }
    }

    async fn ready(version: &str) -> Self {
        let mut pipe = Self::open(Limits { message: 4096, ..Limits::default() });
        pipe.say(&initialize(version)).await;
        assert_eq!(pipe.hear().await["result"]["protocolVersion"], version);
        pipe.say(&initialized()).await;
        assert_eq!(pipe.stage.noted().await.1, "notifications/initialized");
        pipe
    }

    async fn write(&mut self, bytes: &[u8]) {
        within(self.input.write_all(bytes)).await.unwrap();
    }

    async fn say(&mut self, message: &Value) {
        self.write(format!("{message}\n").as_bytes()).await;
    }

    async fn hear(&mut self) -> Value {
        let line = within(self.lines.next_line()).await.unwrap().expect("a line");
        serde_json::from_str(&line).unwrap()
    }

    /// Ends stdin, and reads the rest.
    async fn end(mut self) -> Vec<Value> {
        self.input.shutdown().await.unwrap();
        let mut rest = Vec::new();
        while let Some(line) = within(self.lines.next_line()).await.unwrap() {
            rest.push(serde_json::from_str(&line).unwrap());
        }
        within(self.task).await.unwrap().unwrap();
        assert_eq!(self.stage.forgotten(), 2, "both eras of the client");
        rest
    }
}

/// wire: STD-1, STD-2, STD-4, NEG-10
#[tokio::test]
async fn both_eras_are_spoken_on_one_pipe() {
    let mut pipe = Pipe::ready("2025-11-25").await;
    pipe.say(&call(1, "legacy")).await;
    pipe.say(&enveloped(call(1, "modern"))).await;
    let (legacy, modern) = (pipe.stage.call().await, pipe.stage.call().await);
    assert_eq!((legacy.tool(), modern.tool()), ("legacy".to_owned(), "modern".to_owned()));
    assert!(legacy.ask(3, "roots/list"));
    let question = pipe.hear().await;
    pipe.say(&json!({"jsonrpc": "2.0", "id": question["id"], "result": {}})).await;
    pipe.stage.heard().await;
    modern.finish(&json!({"of": "modern"}));
    assert_eq!(pipe.hear().await["result"]["of"], "modern");
    legacy.finish(&json!({"of": "legacy"}));
    assert_eq!(pipe.hear().await["result"]["of"], "legacy");
    assert_eq!(pipe.end().await.len(), 0);
}

/// wire: CAN-2, UTL-1
#[tokio::test]
async fn a_cancelled_call_is_dropped_in_its_own_era_and_not_answered() {
    let mut pipe = Pipe::ready("2025-06-18").await;
    for message in [call("a", "legacy"), enveloped(call("b", "modern"))] {
        pipe.say(&message).await;
        let open = pipe.stage.call().await;
        let params = json!({"requestId": message["id"]});
        pipe.say(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}))
            .await;
        assert_eq!(pipe.stage.dropped().await, open.exchange);
        open.finish(&json!({}));
    }
    pipe.say(&request(9, "tools/list")).await;
    assert_eq!(pipe.hear().await["id"], 9);
    assert_eq!(pipe.end().await.len(), 0);
}

/// wire: STD-1, STD-2, MSG-5
#[tokio::test]
async fn bad_lines_get_an_error_and_the_next_works() {
    let mut pipe = Pipe::ready("2025-11-25").await;
    let long = format!("{}\n", "x".repeat(100_000));
    let cases: [(&[u8], i64); 6] = [
        (b"garbage\n", -32700),
        // Frames of other protocols are no messages here.
        (b"Content-Length: 17\r\n", -32700),
        (b"\xff\xfe\n", -32700),
        (b"{\"jsonrpc\":\"2.0\",\"id\":1,\0\n", -32700),
        (b"{\"id\":1,\"method\":\"x\"}\r\n", -32600),
        (long.as_bytes(), -32600),
    ];
    for (line, code) in cases {
        pipe.write(b"\n\r\n  \n").await;
        // A client may read and write at once; a long line fills both pipes.
        pipe.write(line).await;
        assert_eq!(pipe.hear().await["error"]["code"], code);
        pipe.write(format!("{}\r\n", request("next", "tools/list")).as_bytes()).await;
        assert_eq!(pipe.hear().await["id"], "next");
    }
    assert_eq!(pipe.end().await.len(), 0);
}

/// wire: MSG-8, MSG-9, STD-2
#[tokio::test]
async fn batches_are_lines_too_where_the_revision_has_them() {
    let batch = json!([request(1, "tools/list"), request(2, "tools/list")]);
    let mut pipe = Pipe::ready("2025-03-26").await;
    pipe.say(&batch).await;
    let mut ids = [pipe.hear().await["id"].as_u64(), pipe.hear().await["id"].as_u64()];
    ids.sort_unstable();
    assert_eq!(ids, [Some(1), Some(2)]);
    assert_eq!(pipe.end().await.len(), 0);

    let mut pipe = Pipe::ready("2025-11-25").await;
    pipe.say(&batch).await;
    assert_eq!(pipe.hear().await["error"]["code"], -32600);
    assert_eq!(pipe.end().await.len(), 0);
}

/// wire: STD-5
#[tokio::test]
async fn the_end_of_stdin_finishes_what_is_in_flight() {
    let mut pipe = Pipe::ready("2025-11-25").await;
    // The last line may lack its line feed.
    pipe.write(call(1, "t").to_string().as_bytes()).await;
    pipe.input.shutdown().await.unwrap();
    pipe.stage.call().await.finish(&json!({"done": true}));
    let rest = pipe.end().await;
    assert_eq!((rest.len(), &rest[0]["id"]), (1, &json!(1)));
}

/// wire: STD-5, UTL-1
#[tokio::test(start_paused = true)]
async fn a_call_that_does_not_finish_is_given_up_and_answered_so() {
    let mut pipe = Pipe::ready("2025-11-25").await;
    pipe.say(&call(1, "t")).await;
    pipe.say(&enveloped(call("b", "t"))).await;
    let open = [pipe.stage.call().await, pipe.stage.call().await];
    let begin = tokio::time::Instant::now();
    pipe.input.shutdown().await.unwrap();
    for (open, id) in open.iter().zip([json!(1), json!("b")]) {
        let answer = pipe.hear().await;
        assert_eq!((&answer["id"], &answer["error"]["code"]), (&id, &json!(-32603)), "{answer}");
        assert_eq!(pipe.stage.dropped().await, open.exchange);
        open.finish(&json!({}));
    }
    assert_eq!(begin.elapsed(), Duration::from_secs(9), "and a second for who has to read it");
    assert_eq!(pipe.end().await.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn shutdown_finishes_what_is_in_flight() {
    let mut pipe = Pipe::ready("2025-11-25").await;
    pipe.say(&call(1, "t")).await;
    let open = pipe.stage.call().await;
    pipe.stop.send(()).unwrap();
    open.finish(&json!({}));
    let line = within(pipe.lines.next_line()).await.unwrap().unwrap();
    assert!(line.contains("\"id\":1"), "{line}");
    within(pipe.task).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_client_that_goes_away_ends_it_cleanly() {
    let mut pipe = Pipe::ready("2025-11-25").await;
    pipe.say(&call(1, "t")).await;
    let open = pipe.stage.call().await;
    let Pipe { stage: mut the_stage, lines, input, task, stop: _stop } = pipe;
    drop((lines, input));
    open.finish(&json!({}));
    within(task).await.unwrap().unwrap();
    the_stage.forgot(2).await;
}

/// A reader that is stuck must not keep us from ending.
#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_read_is_not_read_from_nor_waited_for() {
    let mut pipe = Pipe::open(Limits { backlog: 4096, ..Limits::default() });
    let line = format!("{}\n", request(1, "x"));
    let mut taken = 0;
    loop {
        let write = pipe.input.write_all(line.as_bytes());
        match tokio::time::timeout(Duration::from_mins(1), write).await {
            Ok(written) => written.unwrap(),
            Err(_) => break,
        }
        taken += 1;
        assert!(taken < 10_000, "the backlog has no bound");
    }
    pipe.stop.send(()).unwrap();
    within(pipe.task).await.unwrap().unwrap();
}

/// A listen never ends by itself, so nobody waits for it: modern servers exit promptly.
///
/// wire: STD-5, SUB-8
#[tokio::test(start_paused = true)]
async fn a_listen_does_not_hold_up_the_end() {
    let mut pipe = Pipe::ready("2025-11-25").await;
    let params = json!({"notifications": {}});
    let listen =
        json!({"jsonrpc": "2.0", "id": "l", "method": "subscriptions/listen", "params": params});
    pipe.say(&enveloped(listen)).await;
    pipe.stage.call().await;
    let begin = tokio::time::Instant::now();
    let rest = pipe.end().await;
    assert_eq!(begin.elapsed(), Duration::ZERO);
    assert_eq!((rest.len(), &rest[0]["result"]["resultType"]), (1, &json!("complete")));
}
