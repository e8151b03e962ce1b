//! The rules of the repository, applied to the repository.

mod tidy;
mod wire;
