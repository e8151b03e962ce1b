//! Clients: their registrations and their metadata documents.

use super::*;

// wire: OS-9
#[tokio::test]
async fn registrations_are_bounded_and_unused_ones_are_forgotten() {
    let bed = Bed::start().await;
    let about = json!({"redirect_uris": [REDIRECT]});
    let first = bed.client().await;
    for _ in 1..20 {
        assert_eq!(bed.register(about.clone()).await.status(), 201);
    }
    assert_eq!(bed.register(about.clone()).await.status(), 429);
    bed.wait(60);
    assert_eq!(bed.register(about).await.status(), 201);
    bed.wait(30 * 86_400 + 1);
    bed.facade.state.sweep(bed.clock.load(Ordering::SeqCst)).await.unwrap();
    assert_eq!(bed.redeem(&first, "c", VERIFIER).await.error(), (401, "invalid_client".into()));
}

// wire: OS-10, OA-21
#[tokio::test]
async fn metadata_documents_are_read_carefully() {
    let bed = Bed::start().await;
    // Addresses inside are not asked, however they are written.
    let inside = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    inside.set_nonblocking(true).unwrap();
    let port = inside.local_addr().unwrap().port();
    for host in ["127.0.0.1", "localhost", "0x7f000001", "127.1", "[::ffff:127.0.0.1]"] {
        let page = bed.get(&asking(&format!("https://{host}:{port}/c"), &[]), "").await;
        assert_eq!(page.status(), 400, "{host}");
    }
    let connected = inside.accept().map(drop).map_err(|error| error.kind());
    assert_eq!(connected, Err(std::io::ErrorKind::WouldBlock), "nobody connects");
    // One that leads elsewhere, is too long, or fails is none.
    let id = "https://app.example/c";
    let right = json!({"client_id": id, "redirect_uris": [REDIRECT]});
    let mut server = switchboard_testkit::http::HttpServer::start().await;
    let url = server.url("/c").to_string();
    let long = json!({"client_id": id, "redirect_uris": [REDIRECT], "x": "x".repeat(5 << 10)});
    for (status, about, is_used) in
        [(302, &right, false), (404, &right, false), (200, &long, false), (200, &right, true)]
    {
        let current = bed.facade.current().unwrap();
        let reading = bed.facade.read_document(&current, &bed.facade.fetch, id, &url);
        let answering = async {
            let hit = server.take(|_| true).await;
            hit.json(status, about).await;
        };
        let (found, ()) = tokio::join!(reading, answering);
        assert_eq!(found.is_some(), is_used, "{status}");
    }
    // It is kept for some minutes, and then read again.
    assert_eq!(bed.get(&asking(id, &[]), "").await.status(), 200);
    bed.wait(301);
    let current = bed.facade.current().unwrap();
    assert!(bed.facade.state.document(id, current.now).is_none());
}
