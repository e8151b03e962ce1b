//! Entries: what survives, what does not, and who may see it.

use std::fs::OpenOptions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use http::{HeaderMap, HeaderName};
use proptest::prelude::*;

use super::*;
use crate::http::fetch::{Fetch, FetchOptions, ServerTls};
use crate::http::tls::TlsIdentity;
use crate::stdio::child::Command;
use crate::upstream::Strategy as Transport;
use crate::upstream::{Credential, CredentialRefusal, CredentialUser, Fetching, TokenInjection};

static FOLDERS: AtomicU64 = AtomicU64::new(1);

/// A folder of its own, gone when dropped.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        let number = FOLDERS.fetch_add(1, Ordering::Relaxed);
        let name = format!("switchboard-cache-{}-{number}", std::process::id());
        Self(std::env::temp_dir().join(name))
    }

    fn cache(&self, entry: u64, total: u64, entries: usize) -> Cache {
        Cache { bounds: Bounds { entry, total, entries }, ..Cache::at(&self.0) }
    }

    fn entries(&self) -> usize {
        let files = fs::read_dir(&self.0).unwrap().flatten();
        files.filter(|file| file.path().extension().is_some_and(|end| end == ENTRY)).count()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // It may never have been made.
        _ = fs::remove_dir_all(&self.0);
    }
}

fn server(command: Command) -> ServerTarget {
    ServerTarget::command(command, Vec::new())
}

fn key(name: &str) -> String {
    cache_key(&server(Command::new(name)))
}

fn tools(texts: &[&'static str]) -> Definitions {
    let mut definitions = Definitions::default();
    let texts = texts.iter().map(|text| Bytes::from_static(text.as_bytes()));
    definitions[ListKind::Tools as usize] = texts.collect();
    definitions
}

#[test]
fn definitions_come_back_as_they_were() {
    let folder = Folder::new();
    let cache = Cache::at(&folder.0);
    assert_eq!(cache.load(&key("a")), None);
    let kept = tools(&["{ \"name\" :\"x\",\n \"n\": 1.0e2}", "{\"name\":\"ü\\u0041\"}"]);
    cache.store(&key("a"), &kept).unwrap();
    assert_eq!(cache.load(&key("a")), Some(kept));
    assert_eq!(cache.load(&key("b")), None);
    cache.store(&key("a"), &tools(&["{}"])).unwrap();
    assert_eq!(cache.load(&key("a")), Some(tools(&["{}"])));
}

#[test]
fn nobody_else_can_read_it() {
    let folder = Folder::new();
    Cache::at(folder.0.join("deep")).store(&key("a"), &tools(&[])).unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&folder.0.join("deep")), 0o700);
    for file in fs::read_dir(folder.0.join("deep")).unwrap().flatten() {
        assert_eq!(mode(&file.path()), 0o600, "{file:?}");
    }
}

#[test]
fn a_folder_that_others_may_write_to_is_not_used() {
    let folder = Folder::new();
    let cache = Cache::at(&folder.0);
    cache.store(&key("a"), &tools(&[])).unwrap();
    fs::set_permissions(&folder.0, fs::Permissions::from_mode(0o777)).unwrap();
    assert_eq!(cache.load(&key("a")), None);
    let error = cache.store(&key("a"), &tools(&[])).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
}

#[test]
fn what_cannot_be_read_is_not_there_and_is_replaced() {
    let folder = Folder::new();
    let cache = Cache::at(&folder.0);
    let kept = tools(&[r#"{"name":"x"}"#]);
    cache.store(&key("a"), &kept).unwrap();
    let good = fs::read_to_string(cache.entry(&key("a"))).unwrap();
    let newer = good.replace("definitions 1 ", "definitions 2 ");
    let torn = good[..good.len() - 3].to_owned();
    let other = good.replace("\"x\"", "\"y\"");
    for bad in [String::new(), "\n".to_owned(), newer, torn, other, "x".repeat(1000)] {
        fs::write(cache.entry(&key("a")), &bad).unwrap();
        assert_eq!(cache.load(&key("a")), None, "{bad}");
        cache.store(&key("a"), &kept).unwrap();
        assert_eq!(cache.load(&key("a")), Some(kept.clone()));
    }
    fs::write(cache.entry(&key("a")), "x".repeat(5 << 20)).unwrap();
    assert_eq!(cache.load(&key("a")), None);
}

#[test]
fn when_it_is_full_the_oldest_entries_go() {
    let folder = Folder::new();
    let store = |cache: Cache, name: &str, age: u64| {
        cache.store(&key(name), &tools(&[r#"{"name":"x"}"#])).unwrap();
        let file = OpenOptions::new().write(true).open(cache.entry(&key(name))).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(age)).unwrap();
        fs::metadata(cache.entry(&key(name))).unwrap().len()
    };
    let size = store(folder.cache(1000, 10_000, 3), "a", 20);
    for (name, age) in [("b", 40), ("c", 30)] {
        store(folder.cache(1000, 10_000, 3), name, age);
    }
    assert_eq!(folder.entries(), 3);
    let full = folder.cache(1000, 10_000, 3);
    store(full.clone(), "d", 0);
    assert_eq!(folder.entries(), 3);
    assert_eq!(full.load(&key("b")), None, "the oldest");
    // And by their bytes: there is room for two.
    let small = folder.cache(1000, 2 * size + 1, 100);
    store(small.clone(), "e", 0);
    assert_eq!(folder.entries(), 2);
    assert!(small.load(&key("d")).is_some() && small.load(&key("e")).is_some());
}

#[test]
fn what_is_too_long_is_not_kept_nor_is_what_it_replaces() {
    let folder = Folder::new();
    Cache::at(&folder.0).store(&key("a"), &tools(&["{}"])).unwrap();
    folder.cache(50, 1000, 10).store(&key("a"), &tools(&["{}"])).unwrap();
    assert_eq!(folder.entries(), 0);
    folder.cache(1000, 1000, 0).store(&key("a"), &tools(&["{}"])).unwrap();
    assert_eq!(folder.entries(), 0);
}

#[test]
fn what_somebody_who_was_killed_left_is_removed() {
    let folder = Folder::new();
    let cache = Cache::at(&folder.0);
    cache.store(&key("a"), &tools(&["{}"])).unwrap();
    let left = [key("a"), key("b")].map(|key| folder.0.join(format!("{key}.{UNFINISHED}")));
    for path in &left {
        fs::write(path, "half").unwrap();
    }
    cache.store(&key("a"), &tools(&[])).unwrap();
    assert_eq!(cache.load(&key("a")), Some(tools(&[])));
    assert!(left.iter().all(|path| !path.exists()));
}

#[test]
fn many_who_write_and_read_at_once_see_whole_entries() {
    let folder = Folder::new();
    let written = [tools(&[]), tools(&[r#"{"name":"one"}"#]), tools(&[r#"{"name":"two"}"#, "{}"])];
    Cache::at(&folder.0).store(&key("a"), &written[0]).unwrap();
    thread::scope(|scope| {
        for definitions in &written {
            scope.spawn(|| {
                for _ in 0..50 {
                    let cache = folder.cache(1000, 10_000, 2);
                    // On a busy machine the others may have the lock for as long as one waits.
                    while let Err(late) = cache.store(&key("a"), definitions) {
                        assert_eq!(late.kind(), io::ErrorKind::TimedOut);
                    }
                    let read = Cache::at(&folder.0).load(&key("a")).expect("it is always there");
                    assert!(written.contains(&read), "{read:?}");
                }
            });
        }
    });
    assert_eq!(folder.entries(), 1);
}

#[test]
fn whoever_holds_the_lock_for_ever_stops_nobody() {
    let folder = Folder::new();
    let cache = Cache::at(&folder.0);
    cache.store(&key("a"), &tools(&["{}"])).unwrap();
    let held = cache.folder.lock().unwrap();
    assert_eq!(cache.store(&key("a"), &tools(&[])).unwrap_err().kind(), io::ErrorKind::TimedOut);
    assert_eq!(cache.load(&key("a")), Some(tools(&["{}"])));
    drop(held);
    cache.store(&key("a"), &tools(&[])).unwrap();
}

/// wire: CACHE-3
#[test]
fn another_way_to_a_server_is_another_entry_and_secrets_are_not_in_its_name() {
    let command = |args: &[&str], env: &[(&str, &str)]| {
        let command = Command::new("server").args(args.iter().copied());
        let command = env.iter().fold(command, |command, (name, value)| command.env(*name, *value));
        cache_key(&server(command))
    };
    let url = |url: &'static str, token: &'static str| {
        let mut headers = HeaderMap::new();
        headers.insert("authorization", token.parse().unwrap());
        let fetch = Fetch::new(FetchOptions::default()).unwrap();
        cache_key(&ServerTarget::url(url.parse().unwrap(), Transport::HttpFirst, headers, fetch))
    };
    let keys = [
        command(&[], &[]),
        command(&["a", "b"], &[]),
        command(&["ab"], &[]),
        command(&[], &[("TOKEN", "secret")]),
        command(&[], &[("TOKEN", "other")]),
        url("http://a/mcp", "secret"),
        url("http://a/mcp", "other"),
        url("http://b/mcp", "other"),
    ];
    for (at, key) in keys.iter().enumerate() {
        assert!(!keys[..at].contains(key), "{at}");
        assert!(key.len() == 64 && !key.contains("secret"));
    }
    let ab = command(&[], &[("A", "1"), ("B", "2")]);
    assert_eq!(ab, command(&[], &[("B", "2"), ("A", "1")]), "order does not matter");
}

/// Shows the account of this name.
struct AccountNamed(&'static str);

impl Credential for AccountNamed {
    fn passes(&self) -> &[HeaderName] {
        &[]
    }

    fn digest(&self, _: CredentialUser<'_>, digest: &mut IdentityDigest) {
        digest.add(self.0);
    }

    fn headers<'c>(
        &'c self,
        _: CredentialUser<'c>,
        _: Option<&'c CredentialRefusal>,
    ) -> Fetching<'c> {
        Box::pin(std::future::ready(Ok(None)))
    }
}

/// wire: CACHE-3
#[test]
fn another_certificate_or_account_is_another_entry() {
    let certified = || rcgen::generate_simple_self_signed(["a".to_owned()]).unwrap();
    let identity = |it: &rcgen::CertifiedKey<rcgen::KeyPair>| {
        let (chain, key) = (it.cert.pem(), it.signing_key.serialize_pem());
        TlsIdentity::from_pem(chain.as_bytes(), key.as_bytes()).unwrap()
    };
    let (alice, bob) = (certified(), certified());
    let tls = ServerTls::default;
    let trusting =
        |it: &rcgen::CertifiedKey<rcgen::KeyPair>| tls().extra_roots(vec![it.cert.der().clone()]);
    let url = |tls: &ServerTls| {
        let url = "https://a/mcp".parse().unwrap();
        let fetch = Fetch::new(FetchOptions::default()).unwrap().with_tls(&url, tls).unwrap();
        ServerTarget::url(url, Transport::HttpFirst, HeaderMap::new(), fetch)
    };
    let account = |name| cache_key(&url(&tls()).showing(Arc::new(AccountNamed(name))));
    let inject = TokenInjection::Env("TOKEN".to_owned());
    let injected = |name| {
        let shown = Arc::new(AccountNamed(name));
        cache_key(&server(Command::new("a")).injecting(shown, inject.clone()))
    };
    let keys = [
        cache_key(&url(&tls())),
        cache_key(&url(&tls().identity(identity(&alice)))),
        cache_key(&url(&tls().identity(identity(&bob)))),
        cache_key(&url(&trusting(&alice))),
        cache_key(&url(&trusting(&bob))),
        cache_key(&url(&tls().insecure())),
        account("alice"),
        account("bob"),
        injected("alice"),
        injected("bob"),
    ];
    for (at, key) in keys.iter().enumerate() {
        assert!(!keys[..at].contains(key), "{at}");
    }
    assert_eq!(account("alice"), account("alice"));
    let again = cache_key(&url(&tls().identity(identity(&alice))));
    assert_eq!(again, keys[1], "the same in another life");
}

/// Texts of JSON values, in whatever form.
fn json() -> impl Strategy<Value = Bytes> {
    let text = prop_oneof![
        Just("null".to_owned()),
        "-?[1-9][0-9]{0,5}(\\.[0-9]{1,3})?".prop_map(|number| number),
        any::<String>().prop_map(|text| serde_json::Value::from(text).to_string()),
    ];
    let text = text.prop_recursive(3, 20, 4, |inner| {
        let items = prop::collection::vec(inner, 0..4);
        prop_oneof![
            items.clone().prop_map(|items| format!("[ {} ]", items.join(" ,\n"))),
            items.prop_map(|items| {
                let members = items.iter().map(|item| format!("\"k\\u0041\": {item}"));
                format!("{{{}}}", members.collect::<Vec<_>>().join(","))
            }),
        ]
    });
    text.prop_map(Bytes::from)
}

fn definitions() -> impl Strategy<Value = Definitions> {
    prop::collection::vec(prop::collection::vec(json(), 0..4), 4).prop_map(|lists| {
        let mut definitions = Definitions::default();
        for (kind, list) in ListKind::ALL.into_iter().zip(lists) {
            definitions[kind as usize] = list;
        }
        definitions
    })
}

proptest! {
    #[test]
    fn every_entry_is_read_as_it_was_written(definitions in definitions()) {
        let text = Bytes::from(print(&definitions));
        prop_assert_eq!(parse(&text), Some(definitions));
    }

    #[test]
    fn an_entry_that_was_touched_is_none(
        definitions in definitions(), at in any::<prop::sample::Index>(), bit in 0..8_u8, cut in any::<bool>(),
    ) {
        let mut text = print(&definitions);
        let at = at.index(text.len());
        if cut { text.truncate(at) } else { text[at] ^= 1 << bit }
        prop_assert_eq!(parse(&text.into()), None);
    }

    #[test]
    fn no_bytes_are_too_strange(text in prop::collection::vec(any::<u8>(), 0..200)) {
        prop_assert_eq!(parse(&text.into()), None);
    }
}
