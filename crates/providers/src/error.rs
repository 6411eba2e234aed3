//! What keeps a provider from starting.

/// Why a provider could not be set up. What goes wrong later is a `toller_core::Error`.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProviderError {
    /// The address is no URL.
    #[error("{address:?} is no address of an Embedder service: {fault}; write it like http://embedder:7700")]
    Address {
        /// What was given.
        address: String,
        /// What is wrong with it.
        fault: String,
    },
    /// The API key has characters that a header cannot carry.
    #[error("the API key for {address} must be visible ASCII characters")]
    ApiKey {
        /// Whom it is for.
        address: String,
    },
    /// The service did not answer in time, or refused.
    #[error(
        "the Embedder service at {address} cannot be used: {fault}; check that it runs and that the API key is right"
    )]
    Unusable {
        /// The service.
        address: String,
        /// What it said.
        fault: String,
    },
    /// The service has no default model, or reports one that makes no sense.
    #[error("the Embedder service at {address} has no usable default model: {fault}")]
    Model {
        /// The service.
        address: String,
        /// What is wrong.
        fault: String,
    },
}
