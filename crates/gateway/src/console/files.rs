//! The files of the page, embedded, under a path with their digest.
//!
//! All files have one digest: a page never gets a part of another version. `web/files.in` is the
//! list.

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, LINK};
use http::{HeaderValue, Response, StatusCode};
use ring::digest::{Context, SHA256};

use super::ApiError;

/// Each file with its path below `web`.
const FILES: &[(&str, &[u8])] = &include!("web/files.in");

/// The page itself, in which [`DIGEST_MARK`] stands for the digest.
const INDEX: &str = "index.html";

/// What is replaced by the digest of all files.
const DIGEST_MARK: &str = "@DIGEST@";

/// What the first view needs: a browser asks for all of it at once, and not for each when the one
/// before it has come.
const FIRST: [&str; 7] =
    ["main.js", "api.js", "dom.js", "router.js", "signal.js", "ui.js", "view-home.js"];

/// The files, ready to be sent.
pub(super) struct WebFiles {
    digest: String,
    index: Bytes,
    /// Names the files of [`FIRST`] to browsers.
    preload: Option<HeaderValue>,
}

impl WebFiles {
    pub(super) fn new() -> Self {
        let all: Vec<_> = FILES.iter().flat_map(|(path, file)| [path.as_bytes(), *file]).collect();
        let digest = digest_of(&all);
        let index = find(INDEX).map(String::from_utf8_lossy).unwrap_or_default();
        let index = index.replace(DIGEST_MARK, &digest).into();
        let link = |name| format!("</console/web/{digest}/{name}>; rel=modulepreload");
        let preload = HeaderValue::try_from(FIRST.map(link).join(", ")).ok();
        Self { digest, index, preload }
    }

    /// Another value for another version of the page.
    pub(super) fn digest(&self) -> &str {
        &self.digest
    }

    /// The page; 304 if the browser has it already.
    pub(super) fn index(&self, known: Option<&HeaderValue>) -> Response<Bytes> {
        let mut response = file_response(INDEX, self.index.clone());
        if let Ok(tag) = HeaderValue::try_from(format!("\"{}\"", self.digest)) {
            if known == Some(&tag) {
                *response.status_mut() = StatusCode::NOT_MODIFIED;
                *response.body_mut() = Bytes::new();
            }
            response.headers_mut().insert(ETAG, tag);
        }
        response.headers_mut().extend(self.preload.clone().map(|preload| (LINK, preload)));
        response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        response
    }

    /// A file by its path, which begins with the digest.
    pub(super) fn file(&self, path: &str) -> Response<Bytes> {
        let name = path.strip_prefix(&*self.digest).and_then(|rest| rest.strip_prefix('/'));
        let Some((name, file)) = name.and_then(|name| Some((name, find(name)?))) else {
            return ApiError::not_found("there is no such file; load the page anew").response();
        };
        let mut response = file_response(name, Bytes::from_static(file));
        let forever = HeaderValue::from_static("public, max-age=31536000, immutable");
        response.headers_mut().insert(CACHE_CONTROL, forever);
        response
    }
}

fn find(name: &str) -> Option<&'static [u8]> {
    FILES.iter().find(|(path, _)| *path == name).map(|(_, file)| *file)
}

fn file_response(name: &str, file: Bytes) -> Response<Bytes> {
    let mut response = Response::new(file);
    if let Some(media) = media_type(name) {
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(media));
    }
    response
}

/// What a file is, by its ending; none for files that a page may not have.
fn media_type(name: &str) -> Option<&'static str> {
    Some(match name.rsplit_once('.')?.1 {
        "css" => "text/css; charset=utf-8",
        "html" => "text/html; charset=utf-8",
        "js" => "text/javascript; charset=utf-8",
        "json" => "application/json",
        "svg" => "image/svg+xml",
        "txt" => "text/plain; charset=utf-8",
        _ => return None,
    })
}

/// The beginning of a digest: enough to tell versions apart.
pub(super) fn digest_of(parts: &[&[u8]]) -> String {
    let mut context = Context::new(&SHA256);
    for part in parts {
        context.update(&part.len().to_be_bytes());
        context.update(part);
    }
    let bytes = context.finish();
    bytes.as_ref()[..8].iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;

    /// The files below a folder, but for the list itself.
    fn below(folder: &Path, prefix: &str, found: &mut BTreeSet<String>) {
        for entry in std::fs::read_dir(folder).expect("the folder of the page") {
            let entry = entry.expect("an entry");
            let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
            if entry.path().is_dir() {
                below(&entry.path(), &format!("{name}/"), found);
            } else if name != "files.in" {
                found.insert(name);
            }
        }
    }

    #[test]
    fn the_list_has_every_file_of_the_page_once() {
        // C-25, C-27
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/console/web");
        let mut there = BTreeSet::new();
        below(&folder, "", &mut there);
        let listed: Vec<_> = FILES.iter().map(|(path, _)| (*path).to_owned()).collect();
        assert_eq!(listed.iter().cloned().collect::<BTreeSet<_>>(), there);
        assert_eq!(listed.len(), there.len());
        for (path, _) in FILES {
            assert!(media_type(path).is_some(), "{path} is no file of a page");
        }
    }

    #[test]
    fn the_page_is_small() {
        // B-1
        let bytes: usize = FILES.iter().map(|(_, file)| file.len()).sum();
        assert!(bytes <= 160 << 10, "{bytes} bytes");
    }

    #[test]
    fn files_are_found_under_their_digest_only() {
        // C-27
        let files = WebFiles::new();
        let found = files.file(&format!("{}/index.html", files.digest()));
        assert_eq!(found.status(), StatusCode::OK);
        assert!(found.headers()[CACHE_CONTROL].to_str().unwrap().contains("immutable"));
        for other in ["0000000000000000/index.html", "index.html", ""] {
            assert_eq!(files.file(other).status(), StatusCode::NOT_FOUND, "{other}");
        }
        let index = files.index(None);
        assert!(!String::from_utf8_lossy(index.body()).contains(DIGEST_MARK));
        assert_eq!(index.headers()[CACHE_CONTROL], "no-cache");
        let again = files.index(Some(&index.headers()[ETAG]));
        assert_eq!(again.status(), StatusCode::NOT_MODIFIED);
    }
}
