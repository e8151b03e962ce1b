//! Where the key of a store comes from.

use std::thread;

use super::*;

// wire: OT-3
#[test]
fn a_key_is_32_bytes_in_base64_or_hex() {
    let expected = key(0xfb);
    for text in [
        "+/v7+/v7+/v7+/v7+/v7+/v7+/v7+/v7+/v7+/v7+/s=",
        "-_v7-_v7-_v7-_v7-_v7-_v7-_v7-_v7-_v7-_v7-_s",
        &"fb".repeat(32),
        &format!(" {}\n", "FB".repeat(32)),
    ] {
        assert!(StoreKey::parse(text, "it").unwrap() == expected, "{text}");
    }
    for text in ["", "secret", &"fb".repeat(31), &"fg".repeat(32), &"fb".repeat(33)] {
        let error = StoreKey::parse(text, "SWITCHBOARD_STORE_KEY").unwrap_err().to_string();
        assert!(error.starts_with("SWITCHBOARD_STORE_KEY is not a key"), "{error}");
        assert!(text.is_empty() || !error.contains(text), "{error}");
    }
}

// wire: OT-3
#[test]
fn processes_that_start_at_once_make_one_key() {
    for _ in 0..20 {
        let folder = Folder::new();
        let ids: Vec<_> = thread::scope(|scope| {
            let open = || folder.open().key_id().to_owned();
            let opening: Vec<_> = (0..8).map(|_| scope.spawn(open)).collect();
            opening.into_iter().map(|opened| opened.join().unwrap()).collect()
        });
        assert!(ids.iter().all(|id| *id == ids[0]), "{ids:?}");
    }
}

/// A keyring that is there, or not.
#[derive(Clone, Debug, Default)]
struct Ring(Arc<Mutex<(bool, Option<String>)>>);

impl Ring {
    fn source(&self) -> KeySource {
        KeySource::KeyRing(Box::new(self.clone()))
    }
}

impl KeyRing for Ring {
    fn read(&self) -> io::Result<Option<Zeroizing<String>>> {
        let ring = lock(&self.0);
        if ring.0 {
            Err(io::Error::other("it is locked"))
        } else {
            Ok(ring.1.clone().map(Zeroizing::new))
        }
    }

    fn write(&self, text: &str) -> io::Result<()> {
        lock(&self.0).1 = Some(text.to_owned());
        Ok(())
    }
}

// wire: OT-3
#[tokio::test]
async fn a_key_in_the_keyring_is_made_once_and_missed_if_the_keyring_is_gone() {
    let (folder, ring, record) = (Folder::new(), Ring::default(), tokens("a"));
    let store = folder.open_with(ring.source()).unwrap();
    write(&store, &record, SECRET).await;
    let key = lock(&ring.0).1.clone().expect("the keyring has it");
    for name in folder.files() {
        assert_ne!(name, "store.key");
        assert!(
            !fs::read(folder.0.join(name))
                .unwrap()
                .windows(43)
                .any(|it| *it == key.as_bytes()[..43])
        );
    }
    let again = folder.open_with(ring.source()).unwrap();
    assert_eq!(read(&again, &record).await.unwrap(), SECRET);
    lock(&ring.0).0 = true;
    let error = folder.open_with(ring.source()).unwrap_err();
    assert!(matches!(error, StoreError::KeyRing { .. }), "{error}");
    assert!(error.to_string().contains("it is locked"), "{error}");
    let given = KeySource::Given(StoreKey::parse(&key, "it").unwrap());
    assert_eq!(read(&folder.open_with(given).unwrap(), &record).await.unwrap(), SECRET);
}

// wire: OT-3
#[tokio::test]
async fn without_a_keyring_the_key_is_in_the_folder_and_stays_there() {
    let (folder, ring, record) = (Folder::new(), Ring::default(), tokens("a"));
    lock(&ring.0).0 = true;
    write(&folder.open_with(ring.source()).unwrap(), &record, SECRET).await;
    assert!(folder.0.join("store.key").exists());
    lock(&ring.0).0 = false;
    let again = folder.open_with(ring.source()).unwrap();
    assert_eq!(read(&again, &record).await.unwrap(), SECRET);
    assert_eq!(lock(&ring.0).1, None, "the keyring is not asked");
}
