//! The signals that ask a server to stop.

use crate::error::Error;

/// SIGTERM and SIGINT (Ctrl-C), caught from the moment this exists.
pub(crate) struct StopSignals {
    #[cfg(unix)]
    terminate: tokio::signal::unix::Signal,
    #[cfg(unix)]
    interrupt: tokio::signal::unix::Signal,
}

impl StopSignals {
    /// Catches the signals. Needs a tokio runtime around it.
    ///
    /// # Errors
    /// `Failed` when the system refuses.
    #[cfg(unix)]
    pub(crate) fn catch() -> Result<Self, Error> {
        use tokio::signal::unix::{SignalKind, signal};
        let catch = |kind| signal(kind).map_err(|fault| Error::Failed(format!("cannot catch signals: {fault}")));
        Ok(Self { terminate: catch(SignalKind::terminate())?, interrupt: catch(SignalKind::interrupt())? })
    }

    /// Catches the signals.
    #[cfg(not(unix))]
    pub(crate) fn catch() -> Result<Self, Error> {
        Ok(Self {})
    }

    /// Waits for the next one; gives its name.
    #[cfg(unix)]
    pub(crate) async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }

    /// Waits for the next one; gives its name.
    #[cfg(not(unix))]
    pub(crate) async fn next(&mut self) -> &'static str {
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
        "Ctrl-C"
    }
}
