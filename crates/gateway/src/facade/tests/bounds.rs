//! What one address, one browser, one client or one person can take from all others: nothing.

use switchboard_net::auth::store::{
    Pending, Plaintext, RecordId, RecordKind, RecordLock, RecordStore, StoreError,
};

use super::renewals::refresh_token;
use super::*;
use crate::facade::assertion::OneTime;
use crate::facade::state::{MOST_DOCUMENTS, UsedAssertions};

// wire: OS-9
#[tokio::test]
async fn one_browser_and_one_address_have_few_places() {
    let bed = Bed::start().await;
    let client = bed.client().await;
    let page = bed.get(&asking(&client, &[]), "").await;
    let cookie = page.cookie();
    let mut begun = Vec::new();
    for _ in 0..11 {
        begun.push(bed.answer_form(&page, &cookie, "allow").await.leads_to());
        bed.wait(1);
    }
    assert_eq!(bed.come_back(&cookie, &begun[0]).await.status(), 400, "ten are enough");
    assert_eq!(bed.come_back(&cookie, &begun[1]).await.status(), 303);
    let mut last = bed.allow(&client, &[]).await;
    for _ in 0..49 {
        bed.wait(1);
        last = bed.allow(&client, &[]).await;
    }
    assert_eq!(bed.come_back(&cookie, &begun[10]).await.status(), 400, "the oldest of an address");
    assert_eq!(bed.come_back(&last.0, &last.1).await.status(), 303);
}

// wire: OS-9
#[tokio::test]
async fn a_person_with_too_many_grants_loses_the_oldest() {
    let bed = Bed::start().await;
    let (client, first) = bed.signed_in().await;
    bed.wait(1);
    let code = bed.code(&client).await;
    let second = refresh_token(&bed.redeem(&client, &code, VERIFIER).await);
    for _ in 0..49 {
        bed.wait(1);
        bed.code(&client).await;
    }
    assert_eq!(bed.refresh(&client, &first).await.error().1, "invalid_grant");
    assert_eq!(bed.refresh(&client, &second).await.status(), 200);
}

// wire: OS-9
#[tokio::test]
async fn registrations_that_nobody_used_make_room() {
    let bed = Bed::start().await;
    let (used, _) = bed.signed_in().await;
    bed.wait(1);
    let about = json!({"redirect_uris": [REDIRECT]});
    let about = about.as_object().unwrap();
    for number in 0..4000 {
        let (id, now) = (format!("sbc_{number}"), bed.now() + number);
        let client = client::read_client(about, id, now, &rule()).unwrap();
        bed.facade.state.add_client(&client).await.unwrap();
    }
    let is_there = async |id: &str| bed.facade.state.client(id).await.unwrap().is_some();
    assert!(is_there(&used).await && is_there("sbc_3999").await);
    assert!(!is_there("sbc_0").await && is_there("sbc_1").await);
}

// wire: OS-1, OS-15
#[test]
fn one_client_does_not_fill_the_table_of_assertions() {
    let used = UsedAssertions::default();
    let once = |number: u64| OneTime { id: format!("{number}"), until: 1000 };
    for number in 0..1000 {
        assert!(used.use_once("a", &once(number), 900).unwrap());
    }
    assert!(used.use_once("a", &once(1000), 900).is_err(), "503, and not a refusal");
    assert!(used.use_once("b", &once(1001), 900).unwrap());
    assert!(!used.use_once("b", &once(1001), 900).unwrap());
    assert!(used.use_once("a", &once(1002), 1001).unwrap(), "those before are over");
}

// wire: OS-9, OS-14
#[tokio::test]
async fn a_record_that_cannot_be_read_stops_no_sweep() {
    let bed = Bed::start().await;
    let (client, refresh) = bed.signed_in().await;
    for kind in [RecordKind::Client, RecordKind::Grant] {
        let id = RecordId { kind, name: "0".to_owned() };
        bed.store.lock(&id).await.unwrap().write(b"{").await.unwrap();
    }
    bed.wait(31 * 86_400);
    bed.facade.state.sweep(bed.now()).await.unwrap();
    assert_eq!(bed.refresh(&client, &refresh).await.error().1, "invalid_client");
    assert_eq!(bed.store.list(RecordKind::Grant).await.unwrap(), ["0"]);
}

// wire: OS-10, OB-1
#[tokio::test]
async fn documents_of_clients_are_read_by_few_at_a_time_and_seldom_for_one_address() {
    let bed = Bed::start().await;
    // No connection is made: the address is not public.
    let find = async |number: u32, last: u8| {
        let (current, id) = (bed.facade.current().unwrap(), format!("https://10.0.0.1/{number}"));
        bed.facade.find_client(&current, &id, Some([192, 0, 2, last].into())).await
    };
    let busy = bed.facade.readers.acquire_many(u32::try_from(READERS).unwrap()).await.unwrap();
    assert!(matches!(find(0, 1).await, Err(FacadeError::Full(_))), "others read as many");
    drop(busy);
    for number in 0..MOST_DOCUMENTS {
        assert!(matches!(find(number, 1).await, Ok(None)), "{number}");
    }
    assert!(matches!(find(60, 1).await, Err(FacadeError::Full(_))), "so many in a minute");
    assert!(find(61, 2).await.is_ok(), "another address");
    bed.wait(60);
    assert!(find(62, 1).await.is_ok(), "another minute");
    assert_eq!(bed.facade.readers.available_permits(), READERS);
}

/// Keeps everything, but nothing of clients.
#[derive(Debug)]
struct WithoutClients(MemoryStore);

impl RecordStore for WithoutClients {
    fn read<'s>(&'s self, record: &'s RecordId) -> Pending<'s, Option<Plaintext>> {
        self.0.read(record)
    }

    fn lock<'s>(&'s self, record: &'s RecordId) -> Pending<'s, Box<dyn RecordLock>> {
        if record.kind == RecordKind::Client {
            return Box::pin(std::future::ready(Err(StoreError::NoFolder)));
        }
        self.0.lock(record)
    }

    fn try_lock<'s>(&'s self, record: &'s RecordId) -> Pending<'s, Option<Box<dyn RecordLock>>> {
        self.0.try_lock(record)
    }

    fn list(&self, kind: RecordKind) -> Pending<'_, Vec<String>> {
        self.0.list(kind)
    }
}

// wire: OS-9
#[tokio::test]
async fn a_client_whose_use_cannot_be_noted_has_its_tokens() {
    let mut bed = Bed::start().await;
    let client = bed.client().await;
    let code = bed.code(&client).await;
    let store = Arc::new(WithoutClients(bed.store.clone()));
    bed.facade = open(&bed.issuer, rule(), store, &bed.clock).await;
    let given = bed.redeem(&client, &code, VERIFIER).await;
    assert_eq!(given.status(), 200, "{}", given.text);
    assert_eq!(bed.refresh(&client, &refresh_token(&given)).await.status(), 200);
}
