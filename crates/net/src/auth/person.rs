//! How somebody is asked to sign in.

use std::fmt;
use std::pin::Pin;

/// How somebody is asked to sign in. Nothing here waits for the person but
/// [`pasted`](Self::pasted).
pub trait SignInPerson: fmt::Debug + Send + Sync {
    /// Shows the page where the user signs in to `server`. The callback listens already.
    fn show_page(&self, server: &str, url: &str);

    /// Shows where to go on another device, and which code to type there (RFC 8628).
    fn show_device(&self, server: &str, url: &str, complete_url: Option<&str>, code: &str);

    /// Another process has the page open, and we wait for it. The page is known if that
    /// process is gone.
    fn show_waiting(&self, server: &str, url: Option<&str>);

    /// The address that the user was sent back to, typed or pasted by them (OC-37). Each call
    /// gives one line. Where nothing can be typed it is pending for ever.
    fn pasted<'p>(&'p self) -> Pin<Box<dyn Future<Output = String> + Send + 'p>>;
}

/// Nobody is there: for [`LoginMode::Never`](super::LoginMode::Never).
#[derive(Clone, Copy, Debug)]
pub struct Nobody;

impl SignInPerson for Nobody {
    fn show_page(&self, _server: &str, _url: &str) {}

    fn show_device(&self, _server: &str, _url: &str, _complete_url: Option<&str>, _code: &str) {}

    fn show_waiting(&self, _server: &str, _url: Option<&str>) {}

    fn pasted<'p>(&'p self) -> Pin<Box<dyn Future<Output = String> + Send + 'p>> {
        Box::pin(std::future::pending())
    }
}
