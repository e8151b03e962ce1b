//! Files that others may write: whoever does decides what we run.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;

use serde_json::json;

use super::demo;
use crate::named::Home;

fn allow(path: &std::path::Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

#[test]
fn a_file_or_folder_that_others_may_write_is_told_of_with_what_mends_it() {
    let home = Home::new();
    let config = json!({"mcpServers": {"it": demo(&[])}}).to_string();
    let file = home.write("of/servers.json", &config);
    let folder = home.path.join("of");
    for (file_mode, folder_mode, told) in [
        (0o644, 0o755, None),
        (0o600, 0o1777, None),
        (0o646, 0o755, Some(file.as_str())),
        (0o664, 0o755, Some(file.as_str())),
        (0o644, 0o775, folder.to_str()),
    ] {
        allow(file.as_ref(), file_mode);
        allow(&folder, folder_mode);
        let checked = home.run(&["config", "check", &file]);
        assert_eq!(checked.code, Some(0), "{}", checked.stderr);
        let mends = told.map(|path| format!("chmod go-w {path}"));
        let line = checked.stdout.lines().find(|line| line.contains("chmod go-w"));
        assert_eq!(line.is_some(), mends.is_some(), "{file_mode:o} {folder_mode:o}: {line:?}");
        if let (Some(line), Some(mends)) = (line, &mends) {
            assert!(line.ends_with(mends.as_str()), "{line}");
        }
    }
}

#[test]
fn serve_warns_of_a_file_that_others_may_write() {
    let home = Home::new();
    let config = json!({"mcpServers": {"it": demo(&[])}}).to_string();
    let file = home.write("servers.json", &config);
    allow(file.as_ref(), 0o666);
    let args = ["serve", "--config", &file, "--port", "0", "--no-cache"];
    let mut process = crate::process::Switchboard::start(&args);
    let line = process.until_logged("chmod go-w");
    assert!(line.contains(&file), "{line}");
    process.port();
}
