//! Each test is a transcript.
