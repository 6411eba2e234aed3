//! What keeps a provider from starting.

/// Why a provider could not be set up. What goes wrong later is a `toller_core::Error`.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProviderError {
    /// An address of workers cannot be read.
    #[error(
        "{address:?} is no address of embedding workers: it {fault}; write http://embedder:7700, several as \
         http://a:7700,http://b:7700, or dns://embedder:7700 for every address of a name"
    )]
    Address {
        /// What was given.
        address: String,
        /// What is wrong with it: continues "it …".
        fault: String,
    },
    /// A URL of another service cannot be read.
    #[error("{url:?} is no URL of {service}: it {fault}; write it like {example}")]
    Url {
        /// What was given.
        url: String,
        /// What it should lead to.
        service: &'static str,
        /// What is wrong with it: continues "it …".
        fault: String,
        /// A right one.
        example: &'static str,
    },
    /// A setting is out of its range.
    #[error("{field} must be {expected}, got {got}")]
    Setting {
        /// The name of the builder's method.
        field: &'static str,
        /// The range.
        expected: String,
        /// What was given.
        got: String,
    },
    /// The API key has characters that a header cannot carry.
    #[error("the API key for {address} must be visible ASCII characters")]
    ApiKey {
        /// Whom it is for.
        address: String,
    },
    /// No service answered in time, or all refused.
    #[error(
        "{service} at {address} cannot be used: {fault}; check that it runs, that the address leads to it, and that the API key is right"
    )]
    Unusable {
        /// What was looked for.
        service: &'static str,
        /// Where.
        address: String,
        /// What it said.
        fault: String,
    },
    /// The service has no model that can be used.
    #[error("{service} at {address} has no usable model: {fault}")]
    Model {
        /// What was asked.
        service: &'static str,
        /// Where.
        address: String,
        /// What is wrong.
        fault: String,
    },
}
