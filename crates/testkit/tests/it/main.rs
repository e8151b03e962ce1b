//! The rules of the repository, applied to the repository.

mod seeds;
mod tidy;
mod wire;
