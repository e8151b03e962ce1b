//! The real binary, against real processes and sockets.

#[cfg(test)]
mod abuse;
#[cfg(test)]
mod bridge;
#[cfg(test)]
mod client;
#[cfg(test)]
mod compat;
#[cfg(test)]
mod completion;
#[cfg(test)]
mod container;
#[cfg(test)]
mod demo;
#[cfg(test)]
mod doctor;
#[cfg(test)]
mod doctor_http;
#[cfg(test)]
mod doctor_oauth;
#[cfg(test)]
mod import;
#[cfg(test)]
mod inherit;
#[cfg(test)]
mod install;
#[cfg(test)]
mod log;
#[cfg(test)]
mod login;
#[cfg(test)]
mod named;
#[cfg(test)]
mod process;
#[cfg(test)]
mod readme;
#[cfg(test)]
mod serve;
#[cfg(test)]
mod signal;
#[cfg(test)]
mod stop;
#[cfg(test)]
mod terminal;
#[cfg(test)]
mod tls;
#[cfg(test)]
mod torture;
#[cfg(test)]
mod upstream;
#[cfg(test)]
mod usage;
#[cfg(test)]
mod web;
