//! The gateway as its clients meet it, in this process. What takes flags, files that
//! change, signals or the binary's own processes is tested with the binary.

#[cfg(test)]
mod browser;
#[cfg(test)]
mod console;
#[cfg(test)]
mod console_change;
#[cfg(test)]
mod hide;
#[cfg(test)]
mod person;
#[cfg(test)]
mod policy;
#[cfg(test)]
mod reach;
#[cfg(all(test, feature = "redis"))]
mod redis_store;
#[cfg(test)]
mod search;
#[cfg(test)]
mod served;
#[cfg(test)]
mod token;
