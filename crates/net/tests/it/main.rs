//! The transports against real processes and sockets.

#[cfg(test)]
mod bridge;
#[cfg(test)]
mod child;
#[cfg(test)]
mod fetch;
#[cfg(test)]
mod guard;
#[cfg(test)]
mod listen;
#[cfg(test)]
mod peer;
#[cfg(test)]
mod upstream;
