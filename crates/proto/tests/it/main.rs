//! The core from outside: properties of its text, its halves under any
//! sequence of events, and server half against client half.

mod drive;
mod property;
