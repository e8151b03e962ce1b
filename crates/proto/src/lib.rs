//! The Model Context Protocol as pure state machines.
