//! Lines and events, cut anywhere.

use super::*;

mod line;
mod sse;
