//! The rules of the repository, applied to the repository.

mod bounds;
mod seeds;
mod tidy;
mod types;
mod wire;
