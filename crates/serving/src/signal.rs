//! The signals that ask a process to stop.

/// Completes at the first SIGTERM or SIGINT (Ctrl-C), for [`crate::server::Server::serve`]. Call it inside a runtime, early: until
/// then the signals end the process at once.
pub async fn shutdown_requested() {
    let name = tokio::select! {
        () = interrupt() => "SIGINT",
        () = terminate() => "SIGTERM",
    };
    tracing::info!(signal = name, "asked to stop");
}

async fn interrupt() {
    if let Err(error) = tokio::signal::ctrl_c().await {
        tracing::warn!(error = %error, "cannot listen for SIGINT: it ends the process without a drain");
        std::future::pending::<()>().await;
    }
}

#[cfg(unix)]
async fn terminate() {
    match tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()) {
        Ok(mut signal) => {
            // None means that no signal can come any more.
            if signal.recv().await.is_none() {
                std::future::pending::<()>().await;
            }
        }
        Err(error) => {
            tracing::warn!(error = %error, "cannot listen for SIGTERM: it ends the process without a drain");
            std::future::pending::<()>().await;
        }
    }
}

#[cfg(not(unix))]
async fn terminate() {
    std::future::pending::<()>().await;
}
