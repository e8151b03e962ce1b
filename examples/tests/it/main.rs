//! Each example is started as a person starts it, and used by a real client.

#[cfg(test)]
mod client;
#[cfg(test)]
mod process;
#[cfg(test)]
mod server;
