//! The transports against real processes and sockets.

#[cfg(test)]
mod across;
#[cfg(test)]
mod auth;
#[cfg(test)]
mod bridge;
#[cfg(test)]
mod callback;
#[cfg(test)]
mod child;
#[cfg(test)]
mod client;
#[cfg(test)]
mod client_lib;
#[cfg(test)]
mod connection;
#[cfg(test)]
mod endpoint;
#[cfg(test)]
mod fetch;
#[cfg(test)]
mod guard;
#[cfg(test)]
mod listen;
#[cfg(test)]
mod listen_tls;
#[cfg(test)]
mod old;
#[cfg(test)]
mod peer;
#[cfg(test)]
mod roster;
#[cfg(test)]
mod script;
#[cfg(test)]
mod server;
#[cfg(test)]
mod stdio;
#[cfg(test)]
mod store;
#[cfg(test)]
mod upstream;
