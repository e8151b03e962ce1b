//! Pictures and sound in results: saved as files, or shown by terminals that can show pictures.
//!
//! | terminal | how |
//! |---|---|
//! | kitty, Ghostty, Konsole | PNG in the graphics protocol of kitty |
//! | iTerm2, WezTerm | any picture in the escape sequence of iTerm2 |
//! | Contour, foot, mintty, mlterm, Windows Terminal | PNG as sixels |

use std::collections::HashMap;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, ErrorKind, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};

use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use base64::{DecodeError, Engine as _};
use serde_json::Value;

use super::sixel;
use crate::exit::{CommandError, CommandResult, cannot};
use crate::output::{cell, write_finding};
use crate::target::variable;

/// Base64 as servers write it: some leave out the padding.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// What a block holds in Base64, and its media type: a picture, a sound, or the bytes of a
/// resource.
fn media(block: &Value) -> Option<(Result<Vec<u8>, DecodeError>, String)> {
    let (data, kind) = match block["type"].as_str()? {
        "image" | "audio" => (&block["data"], &block["mimeType"]),
        "resource" => (&block["resource"]["blob"], &block["resource"]["mimeType"]),
        _ => return None,
    };
    // Some servers write it in lines.
    let data: Vec<_> = data.as_str()?.bytes().filter(|it| !it.is_ascii_whitespace()).collect();
    Some((BASE64.decode(data), cell(kind)))
}

/// Saves what the blocks hold besides text, under the name of the tool; a line for each that
/// says where, by the position of the block.
pub(super) fn save_media(
    folder: &Path,
    name: &str,
    blocks: &Value,
) -> CommandResult<HashMap<usize, String>> {
    let mut saved = HashMap::new();
    for (at, block) in blocks.as_array().into_iter().flatten().enumerate() {
        let Some((bytes, kind)) = media(block) else { continue };
        let bytes = bytes.map_err(|error| {
            let number = at + 1;
            CommandError::new(format!("block {number}, {kind}, is not Base64: {error}"))
                .hint("see what the server sent: leave out --save, and write --output json")
        })?;
        let hint = "--save wants a folder that can be written to";
        fs::create_dir_all(folder).map_err(cannot("make", folder, hint))?;
        let path =
            save_one(folder, name, &kind, &bytes).map_err(cannot("write to", folder, hint))?;
        let line = format!("saved {kind} as {}", path.display());
        write_finding(&line);
        saved.insert(at, format!("[{line}]"));
    }
    Ok(saved)
}

/// Files of one name; more calls than anybody makes by hand.
const FILES: usize = 10_000;

/// Writes a new file and leaves those that are there.
fn save_one(folder: &Path, name: &str, kind: &str, bytes: &[u8]) -> io::Result<PathBuf> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
    let stem: String = name.chars().map(|c| if is_plain(c) { c } else { '_' }).take(80).collect();
    for number in 1..FILES {
        let path = folder.join(format!("{stem}-{number}.{}", extension(kind)));
        match File::create_new(&path) {
            Ok(mut file) => return file.write_all(bytes).map(|()| path),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::Error::other("there are too many files of this name"))
}

fn extension(kind: &str) -> &str {
    let kind = kind.split(';').next().unwrap_or_default().trim();
    let known = [
        ("image/png", "png"),
        ("image/jpeg", "jpg"),
        ("image/gif", "gif"),
        ("image/webp", "webp"),
        ("image/svg+xml", "svg"),
        ("audio/wav", "wav"),
        ("audio/x-wav", "wav"),
        ("audio/mpeg", "mp3"),
        ("audio/ogg", "ogg"),
        ("audio/flac", "flac"),
        ("application/pdf", "pdf"),
        ("application/json", "json"),
    ];
    known.iter().find(|(name, _)| *name == kind).map_or("bin", |(_, extension)| extension)
}

/// How a terminal shows pictures.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum PictureProtocol {
    Kitty,
    Iterm,
    Sixel,
}

/// Characters of Base64 in one sequence of kitty.
const CHUNK: usize = 4096;

const PNG: &[u8] = b"\x89PNG\r\n\x1a\n";

impl PictureProtocol {
    /// That of the terminal on stdout, if it is one that shows pictures.
    pub(super) fn of_terminal() -> Option<Self> {
        io::stdout().is_terminal().then(|| Self::of(variable)).flatten()
    }

    /// By the variables that terminals set.
    fn of(lookup: impl Fn(&str) -> Option<String>) -> Option<Self> {
        let is = |name: &str, value: &str| lookup(name).is_some_and(|it| it == value);
        // What is in between does not pass pictures on.
        let terms = ["dumb", "screen", "tmux"];
        let is_between = |term: String| terms.iter().any(|it| term.starts_with(it));
        if ["TMUX", "STY"].iter().any(|name| lookup(name).is_some())
            || lookup("TERM").is_some_and(is_between)
        {
            return None;
        }
        if is("TERM_PROGRAM", "iTerm.app")
            || is("TERM_PROGRAM", "WezTerm")
            || is("LC_TERMINAL", "iTerm2")
        {
            return Some(Self::Iterm);
        }
        let is_kitty = is("TERM", "xterm-kitty")
            || is("TERM", "xterm-ghostty")
            || ["KITTY_WINDOW_ID", "KONSOLE_VERSION"].iter().any(|name| lookup(name).is_some());
        if is_kitty {
            return Some(Self::Kitty);
        }
        let named = |name: &str| lookup("TERM").is_some_and(|term| term.starts_with(name));
        // Its variable is also there in editors that were started from it.
        let is_windows_terminal =
            lookup("WT_SESSION").is_some() && lookup("TERM_PROGRAM").is_none();
        let is_sixel = is_windows_terminal
            || is("TERM_PROGRAM", "mintty")
            || ["contour", "foot", "mlterm"].into_iter().any(named);
        is_sixel.then_some(Self::Sixel)
    }

    /// What makes the terminal show this block, if it is a picture that it can show. The data
    /// are encoded anew, so that nothing else of the server's reaches the terminal.
    pub(super) fn sequence(self, block: &Value) -> Option<String> {
        if block["type"] != "image" {
            return None;
        }
        let bytes = media(block)?.0.ok()?;
        let text = BASE64.encode(&bytes);
        match self {
            Self::Iterm => {
                let size = bytes.len();
                Some(format!("\x1b]1337;File=inline=1;size={size}:{text}\x07"))
            }
            Self::Kitty if bytes.starts_with(PNG) => {
                let mut all = String::new();
                let mut rest = text.as_str();
                let mut first = "a=T,f=100,";
                while !rest.is_empty() {
                    let (chunk, after) = rest.split_at(rest.len().min(CHUNK));
                    let more = u8::from(!after.is_empty());
                    // Writing to a string does not fail.
                    _ = write!(all, "\x1b_G{first}m={more};{chunk}\x1b\\");
                    (rest, first) = (after, "");
                }
                Some(all)
            }
            Self::Kitty => None,
            Self::Sixel => sixel::sequence(&bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn picture(bytes: &[u8]) -> Value {
        json!({"type": "image", "mimeType": "image/png", "data": BASE64.encode(bytes)})
    }

    #[test]
    fn terminals_are_known_by_their_variables() {
        let of = |vars: &'static [(&str, &str)]| {
            PictureProtocol::of(|name| {
                let found = vars.iter().find(|(key, _)| *key == name);
                found.map(|(_, value)| (*value).to_owned())
            })
        };
        assert_eq!(of(&[("TERM", "xterm-256color")]), None);
        assert_eq!(of(&[("TERM", "xterm-kitty")]), Some(PictureProtocol::Kitty));
        assert_eq!(of(&[("TERM", "xterm-kitty"), ("TMUX", "1")]), None);
        assert_eq!(of(&[("TERM", "xterm-kitty"), ("STY", "1")]), None);
        for term in ["screen-256color", "tmux-256color"] {
            assert_eq!(
                PictureProtocol::of(|name| match name {
                    "TERM" => Some(term.to_owned()),
                    "TERM_PROGRAM" => Some("WezTerm".to_owned()),
                    _ => None,
                }),
                None,
                "{term}"
            );
        }
        assert_eq!(of(&[("TERM_PROGRAM", "WezTerm")]), Some(PictureProtocol::Iterm));
        assert_eq!(of(&[("TERM", "foot-extra")]), Some(PictureProtocol::Sixel));
        assert_eq!(of(&[("WT_SESSION", "1")]), Some(PictureProtocol::Sixel));
        assert_eq!(of(&[("WT_SESSION", "1"), ("TERM_PROGRAM", "vscode")]), None);
    }

    #[test]
    fn a_picture_is_sent_in_pieces_that_a_terminal_takes() {
        let bytes = [PNG, &[7; 5000]].concat();
        let shown = PictureProtocol::Kitty.sequence(&picture(&bytes)).unwrap();
        assert!(shown.starts_with("\x1b_Ga=T,f=100,m=1;iVBOR"), "{shown:.40}");
        assert!(shown.contains("\x1b\\\x1b_Gm=0;") && shown.ends_with("\x1b\\"));
        let shown = PictureProtocol::Iterm.sequence(&picture(b"GIF89a")).unwrap();
        assert_eq!(shown, "\x1b]1337;File=inline=1;size=6:R0lGODlh\x07");
        assert_eq!(PictureProtocol::Kitty.sequence(&picture(b"GIF89a")), None, "only PNG");
        let bad = json!({"type": "image", "data": "\u{1b}]0;title\u{7}"});
        assert_eq!(PictureProtocol::Iterm.sequence(&bad), None, "no Base64");
    }

    #[test]
    fn base64_in_lines_and_without_padding_is_read_and_anything_else_is_an_error() {
        let image = |data: &str| json!({"type": "image", "mimeType": "image/png", "data": data});
        for data in ["aGk=", "aGk", "aG\r\nk=\n"] {
            assert_eq!(media(&image(data)).unwrap().0.unwrap(), b"hi", "{data:?}");
        }
        let text = json!({"type": "text", "text": "hi"});
        let failure = save_media(Path::new("unused"), "tool", &json!([text, image("a.b")]));
        let failure = failure.unwrap_err().to_string();
        assert!(failure.contains("block 2, image/png, is not Base64"), "{failure}");
    }

    #[test]
    fn a_file_has_the_ending_of_its_type() {
        assert_eq!(["image/png", "audio/wav; rate=1", "x/y"].map(extension), ["png", "wav", "bin"]);
    }
}
