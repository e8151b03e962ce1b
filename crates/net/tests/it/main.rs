//! The transports against real processes and sockets.

#[cfg(test)]
mod guard;
