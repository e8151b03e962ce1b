//! Writes a file as a whole, so that nobody reads half of it.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::{fs, process};

use switchboard_net::platform;

/// Where a file really is, if a link leads there.
pub fn followed(file: &Path) -> io::Result<PathBuf> {
    match file.canonicalize() {
        Err(_) if file.is_symlink() => Err(io::Error::other("it is a link that leads nowhere")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(file.to_owned()),
        real => real,
    }
}

/// Puts a whole file in the place of the old one, so that none is half written. A new one is for
/// its owner alone: servers may have tokens in it. Of one process, one at a time writes a file.
pub fn replace_file(file: &Path, text: &str) -> io::Result<()> {
    replace_file_like(file, text, file)
}

/// The same, for those who may read another file.
pub fn replace_file_like(file: &Path, text: &str, like: &Path) -> io::Result<()> {
    let file = followed(file)?;
    let draft = file.with_added_extension(format!("{}~", process::id()));
    let write = || {
        // Left by a process with our number that was killed: in containers they are all alike.
        match fs::remove_file(&draft) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut opened = platform::private_file().write(true).create_new(true).open(&draft)?;
        if let Ok(known) = fs::metadata(like) {
            // Whoever runs this as root still needs their file.
            platform::give_to_owner(&opened, &known)?;
            opened.set_permissions(known.permissions())?;
        }
        opened.write_all(text.as_bytes())?;
        opened.sync_all()?;
        fs::rename(&draft, &file)
    };
    // A half-written file is of no use.
    write().inspect_err(|_| _ = fs::remove_file(&draft))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_new_file_is_for_its_owner_alone_and_an_old_one_stays_as_it_was() {
        let folder = std::env::temp_dir().join(format!("switchboard-whole-{}", process::id()));
        fs::create_dir_all(&folder).unwrap();
        let file = folder.join("servers.json");
        let draft = file.with_added_extension(format!("{}~", process::id()));
        let mode = || fs::metadata(&file).unwrap().permissions().mode() & 0o777;
        fs::write(&draft, "half").unwrap();
        replace_file(&file, "whole").unwrap();
        assert_eq!((mode(), &*fs::read_to_string(&file).unwrap()), (0o600, "whole"));
        fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
        replace_file(&file, "other").unwrap();
        assert_eq!((mode(), draft.exists()), (0o640, false));
        fs::remove_dir_all(&folder).unwrap();
    }
}
