//! What `benches/counts.rs` counts: pieces of work, ready to be repeated.
//!
//! [`parts`] has the pure parts and [`ways`] has whole calls. Each function prepares one
//! [`Work`] and runs it until caches, pools and tables are warm; only what follows is counted.
//!
//! The client of a whole call is in memory: hyper reads its requests from a
//! [`duplex`](tokio::io::duplex) stream. The server behind a bridge or a gateway is reached as
//! users reach it, for the library has no other way: by a pipe to a child process, or by a
//! loopback socket, which a task of the same thread answers (`echo.rs`).

pub mod caller;
mod echo;
pub mod parts;
mod server;
pub mod ways;

/// The allocator of the binary, so that the counts do not depend on the C library.
#[cfg(not(target_env = "msvc"))]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// Something to count.
pub type Work = Box<dyn FnMut()>;

/// How often a piece of work runs before it is counted.
const WARM_UP: usize = 20;

/// The work, once it is warm.
fn warm(mut work: impl FnMut() + 'static) -> Work {
    for _ in 0..WARM_UP {
        work();
    }
    Box::new(work)
}
