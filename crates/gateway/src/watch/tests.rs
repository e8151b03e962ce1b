//! Real files in a folder of their own.

use std::fs;

use super::*;

/// A folder that is gone when the test is over.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder = format!("switchboard-watch-{}-{name}", std::process::id());
        let folder = Self(std::env::temp_dir().join(folder));
        fs::create_dir_all(&folder.0).expect("a folder for the test");
        folder
    }

    /// Puts a whole file in the place of another, as editors do.
    fn write(&self, name: &str, text: &str) -> PathBuf {
        let (file, draft) = (self.0.join(name), self.0.join(format!("{name}~")));
        fs::write(&draft, text).expect("a file to write");
        fs::rename(&draft, &file).expect("a file to replace");
        file
    }

    fn watch(&self, file: &str) -> Watch {
        let around = Surroundings::new([], &self.0);
        let files = vec![self.0.join(file)];
        let reading = Reading::read(&files, &around);
        Watch::new(files, around, &reading)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        _ = fs::remove_dir_all(&self.0);
    }
}

/// The next change; a test that waits for ever fails.
async fn next(watch: &mut Watch) -> Reading {
    let change = timeout(Duration::from_secs(30), watch.changed());
    change.await.expect("a change that is heard of")
}

fn names(reading: &Reading) -> Vec<&str> {
    reading.plan.servers.keys().map(String::as_str).collect()
}

fn servers(names: &[&str]) -> String {
    let servers = names.iter().map(|name| format!("\"{name}\": {{ \"command\": \"c\" }}"));
    format!("{{ \"mcpServers\": {{ {} }} }}", servers.collect::<Vec<_>>().join(", "))
}

#[tokio::test]
async fn another_meaning_is_told_and_another_comment_is_not() {
    let folder = Folder::new("meaning");
    folder.write("m.json", &servers(&["a"]));
    let mut watch = folder.watch("m.json");
    watch.listen().unwrap();
    folder.write("m.json", &format!("// the same\n{}", servers(&["a"])));
    folder.write("other.json", "nothing to us");
    folder.write("m.json", &servers(&["a", "b"]));
    let reading = next(&mut watch).await;
    assert!(reading.is_sound());
    assert_eq!(names(&reading), ["a", "b"]);
    let again = timeout(QUIET * 3, watch.changed()).await;
    assert!(again.is_err(), "one change is told once");
}

#[tokio::test]
async fn a_broken_file_is_told_once_and_mended_once() {
    let folder = Folder::new("broken");
    folder.write("m.json", &servers(&["a"]));
    let mut watch = folder.watch("m.json");
    watch.listen().unwrap();
    folder.write("m.json", "{ \"mcpServers\": {");
    let reading = next(&mut watch).await;
    assert!(!reading.is_sound());
    assert!(reading.lines()[0].contains("m.json:1:"), "{:?}", reading.lines());
    folder.write("m.json", "{ \"mcpServers\": { \"a\": { \"comand\": \"c\" } } }");
    let reading = next(&mut watch).await;
    assert!(reading.lines()[0].ends_with("write \"command\""), "{:?}", reading.lines());
    folder.write("m.json", &servers(&["a"]));
    let reading = next(&mut watch).await;
    assert!(reading.is_sound());
    assert_eq!(names(&reading), ["a"]);
}

#[tokio::test]
async fn variables_in_a_file_beside_it_are_part_of_it() {
    let folder = Folder::new("variables");
    let server = r#"{ "mcpServers": { "a": { "command": "c", "envFile": ".env" } } }"#;
    folder.write(".env", "A=1");
    folder.write("m.json", server);
    let mut watch = folder.watch("m.json");
    let before = watch.plan.clone();
    watch.listen().unwrap();
    folder.write(".env", "A=2");
    let reading = next(&mut watch).await;
    assert_eq!(reading.plan.diff(&before).changed, ["a"]);
}

#[tokio::test]
async fn variables_in_a_file_elsewhere_are_part_of_it_once_it_is_named() {
    let (folder, other) = (Folder::new("here"), Folder::new("elsewhere"));
    folder.write("m.json", &servers(&["a"]));
    let mut watch = folder.watch("m.json");
    watch.listen().unwrap();
    let file = other.write("some.env", "A=1");
    let server = format!(
        r#"{{ "mcpServers": {{ "a": {{ "command": "c", "envFile": "{}" }} }} }}"#,
        file.display()
    );
    folder.write("m.json", &server);
    let before = next(&mut watch).await.plan;
    other.write("some.env", "A=2");
    let reading = next(&mut watch).await;
    assert_eq!(reading.plan.diff(&before).changed, ["a"]);
}

#[tokio::test]
async fn whoever_asks_for_a_reload_gets_an_answer_without_a_listener() {
    let folder = Folder::new("asked");
    folder.write("m.json", &servers(&["a"]));
    let mut watch = folder.watch("m.json");
    watch.reload().now();
    assert_eq!(names(&next(&mut watch).await), ["a"], "even if nothing changed");
    fs::remove_file(folder.0.join("m.json")).unwrap();
    watch.reload().now();
    let gone = next(&mut watch).await;
    assert!(!gone.is_sound() && gone.unread[0].is_absent());
}

#[tokio::test]
async fn who_stops_waiting_misses_nothing() {
    let folder = Folder::new("stopped");
    folder.write("m.json", &servers(&["a"]));
    let mut watch = folder.watch("m.json");
    folder.write("m.json", &servers(&["b"]));
    watch.reload().events.notify_one();
    let waited = timeout(Duration::from_millis(1), watch.changed()).await;
    assert!(waited.is_err() && watch.folders.is_due, "it was heard, and not yet read");
    assert_eq!(names(&next(&mut watch).await), ["b"]);
}
