//! The server over HTTP: a task of the same thread, on a loopback socket.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::echo::{EchoServer, between};

/// Answers POSTs on a free port of this machine, as a task of this runtime; the URL.
pub(crate) async fn serve_http(server: EchoServer) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback has a free port");
    let address = listener.local_addr().expect("a listener has an address");
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve_connection(server.clone(), stream));
        }
    });
    format!("http://{address}/mcp")
}

async fn serve_connection(server: EchoServer, mut stream: TcpStream) {
    let mut buffer = Vec::new();
    loop {
        let Some(end) = end_of_request(&buffer) else {
            match stream.read_buf(&mut buffer).await {
                Ok(1..) => continue,
                _ => return,
            }
        };
        let request = std::str::from_utf8(&buffer[..end]).expect("a request is text");
        let body = request.split_once("\r\n\r\n").expect("a whole head").1;
        let response = match server.answer(body) {
            _ if !request.starts_with("POST") => response("405 Method Not Allowed", ""),
            Some(answer) => response("200 OK", &answer),
            None => response("202 Accepted", ""),
        };
        buffer.drain(..end);
        if stream.write_all(response.as_bytes()).await.is_err() {
            return;
        }
    }
}

/// Where the first request ends, if it is there as a whole.
pub(crate) fn end_of_request(bytes: &[u8]) -> Option<usize> {
    let end = bytes.windows(4).position(|four| four == b"\r\n\r\n")? + 4;
    let head = std::str::from_utf8(&bytes[..end]).expect("a head is text");
    let length = between(head, "content-length: ", ['\r']).map(str::parse);
    let length: usize = length.unwrap_or(Ok(0)).expect("a length is a number");
    (bytes.len() >= end + length).then_some(end + length)
}

fn response(status: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}"
    )
}
