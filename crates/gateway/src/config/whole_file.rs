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
