//! SIGINT and SIGTERM: the first asks for an orderly end, the second for any.

use std::io;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

/// Tells when the user wants us to stop. Clones tell the same.
#[derive(Clone, Debug)]
pub(crate) struct Stop {
    asked: watch::Receiver<bool>,
}

impl Stop {
    /// Listens for the signals from now on.
    pub(crate) fn on_signals() -> io::Result<Self> {
        let (ask, asked) = watch::channel(false);
        for (kind, name) in
            [(SignalKind::interrupt(), "SIGINT"), (SignalKind::terminate(), "SIGTERM")]
        {
            let mut signals = signal(kind)?;
            let ask = ask.clone();
            tokio::spawn(async move {
                while signals.recv().await.is_some() {
                    if ask.send_replace(true) {
                        // Children have a guard that ends them when we are gone.
                        std::process::exit(128 + kind.as_raw_value());
                    }
                    tracing::info!("{name}: finishing what is in flight; again to end at once");
                }
            });
        }
        Ok(Self { asked })
    }

    /// Completes when the first signal has come.
    pub(crate) async fn asked(mut self) {
        if self.asked.wait_for(|asked| *asked).await.is_err() {
            // The listeners live as long as the runtime; without it nobody waits.
            std::future::pending::<()>().await;
        }
    }
}
