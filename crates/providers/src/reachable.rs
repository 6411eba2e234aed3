//! Whether a provider can be reached: what readiness asks.

use async_trait::async_trait;
use toller_core::Result;

/// A provider that calls out.
#[async_trait]
pub trait Reachable: Send + Sync {
    /// Can it be reached now? Cheap enough to be asked every second.
    ///
    /// # Errors
    /// `Unavailable` says why not, and what to check.
    async fn reach(&self) -> Result<()>;
}
