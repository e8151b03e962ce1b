//! SIGINT and SIGTERM: the first asks for an orderly end, the second for any.
//! SIGHUP asks for the files to be read again, or says that our terminal is gone.

use std::io::{self, IsTerminal as _};
use std::sync::Arc;

use switchboard_gateway::watch::Reload;
use switchboard_net::platform::is_stdin_a_pipe;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

/// Tells when the user wants us to stop. Clones tell the same.
#[derive(Clone, Debug)]
pub(crate) struct StopSignal {
    ask: watch::Sender<bool>,
}

impl StopSignal {
    /// Listens for the signals from now on.
    pub(crate) fn on_signals() -> io::Result<Self> {
        let ask = watch::Sender::new(false);
        for (kind, name) in
            [(SignalKind::interrupt(), "SIGINT"), (SignalKind::terminate(), "SIGTERM")]
        {
            let mut signals = signal(kind)?;
            let ask = ask.clone();
            tokio::spawn(async move {
                while signals.recv().await.is_some() {
                    if ask.send_replace(true) {
                        // The guard ends our children when we are gone.
                        std::process::exit(128 + kind.as_raw_value());
                    }
                    tracing::info!("{name}: finishing what is in flight; again to end at once");
                }
            });
        }
        Ok(Self { ask })
    }

    /// Also stops when the parent process closes the pipe to our stdin. A
    /// terminal, a file or nothing at all says nothing about its owner.
    pub(crate) fn at_end_of_stdin(&self) {
        if !is_stdin_a_pipe() {
            return;
        }
        let ask = self.ask.clone();
        tokio::spawn(async move {
            // The bytes are not used, but the end comes only after them.
            _ = tokio::io::copy(&mut tokio::io::stdin(), &mut tokio::io::sink()).await;
            tracing::info!("stdin is closed: finishing what is in flight");
            ask.send_replace(true);
        });
    }

    /// Reads files again on SIGHUP: `what` they are. Where it says that the terminal we were
    /// started from is closed, we stop, as we would without this.
    pub(crate) fn reload_on_hangup(
        &self,
        reload: Arc<Reload>,
        what: &'static str,
    ) -> io::Result<()> {
        let mut signals = signal(SignalKind::hangup())?;
        let (ask, had_terminal) = (self.ask.clone(), io::stdin().is_terminal());
        tokio::spawn(async move {
            while signals.recv().await.is_some() {
                if had_terminal && !io::stdin().is_terminal() {
                    ask.send_replace(true);
                } else {
                    tracing::info!("SIGHUP: reading {what} again");
                    reload.now();
                }
            }
        });
        Ok(())
    }

    /// Completes when the first signal has come.
    pub(crate) async fn asked(self) {
        // The sender is ours, so waiting cannot fail.
        _ = self.ask.subscribe().wait_for(|asked| *asked).await;
    }
}
