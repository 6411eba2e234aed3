//! How a pool reaches its workers and how hard it tries.

use std::fmt;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use tonic::metadata::{Ascii, MetadataValue};

use super::address::WorkerAddresses;
use super::resolve::{Resolve, SystemResolver};
use crate::error::ProviderError;

/// How a pool works; made by [`PoolConfig::builder`].
#[derive(Clone)]
pub struct PoolConfig {
    pub(crate) addresses: WorkerAddresses,
    pub(crate) authorization: Option<MetadataValue<Ascii>>,
    pub(crate) start_timeout: Duration,
    pub(crate) max_message_bytes: usize,
    pub(crate) resolve_interval: Duration,
    pub(crate) probe_interval: Duration,
    pub(crate) recovery_wait: Duration,
    pub(crate) max_attempts: usize,
    pub(crate) parallel_parts: usize,
    pub(crate) resolver: Arc<dyn Resolve>,
}

impl fmt::Debug for PoolConfig {
    /// Without the API key.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("PoolConfig").field("addresses", &self.addresses).finish_non_exhaustive()
    }
}

impl PoolConfig {
    /// A pool of the workers at `addresses`, with defaults for everything else.
    pub fn builder(addresses: WorkerAddresses) -> PoolConfigBuilder {
        PoolConfigBuilder {
            addresses,
            api_key: None,
            start_timeout: Duration::from_secs(60),
            max_message_bytes: 16 * 1024 * 1024,
            resolve_interval: Duration::from_secs(5),
            probe_interval: Duration::from_secs(5),
            recovery_wait: Duration::from_secs(1),
            max_attempts: 4,
            parallel_parts: 16,
            resolver: Arc::new(SystemResolver),
        }
    }
}

/// Makes a [`PoolConfig`].
pub struct PoolConfigBuilder {
    addresses: WorkerAddresses,
    api_key: Option<String>,
    start_timeout: Duration,
    max_message_bytes: usize,
    resolve_interval: Duration,
    probe_interval: Duration,
    recovery_wait: Duration,
    max_attempts: usize,
    parallel_parts: usize,
    resolver: Arc<dyn Resolve>,
}

impl PoolConfigBuilder {
    /// The API key that every worker wants; none by default.
    #[must_use]
    pub fn api_key(mut self, key: Option<String>) -> Self {
        self.api_key = key;
        self
    }

    /// How long the start waits for a first worker, which may still be loading its model: up to 1 h, 60 s by default. With
    /// 0 it is tried once.
    #[must_use]
    pub fn start_timeout(mut self, timeout: Duration) -> Self {
        self.start_timeout = timeout;
        self
    }

    /// Largest message in bytes, in and out, at least 4096; must not be above the workers' own limit. 16 MiB by default.
    #[must_use]
    pub fn max_message_bytes(mut self, bytes: usize) -> Self {
        self.max_message_bytes = bytes;
        self
    }

    /// Time between two look-ups of a `dns://` name: 10 ms to 1 h, 5 s by default. It is also looked up at once when a
    /// worker fails.
    #[must_use]
    pub fn resolve_interval(mut self, interval: Duration) -> Self {
        self.resolve_interval = interval;
        self
    }

    /// Time between two checks of a healthy worker, and the first pause of one that was left out: 10 ms to 1 h, 5 s by
    /// default.
    #[must_use]
    pub fn probe_interval(mut self, interval: Duration) -> Self {
        self.probe_interval = interval;
        self
    }

    /// How long a call waits for a worker to come back when none is left, deadline permitting: up to 60 s, 1 s by default.
    #[must_use]
    pub fn recovery_wait(mut self, wait: Duration) -> Self {
        self.recovery_wait = wait;
        self
    }

    /// How often a call is sent at most, the first time included: 1 to 16, 4 by default.
    #[must_use]
    pub fn max_attempts(mut self, attempts: usize) -> Self {
        self.max_attempts = attempts;
        self
    }

    /// Most parts of one batch that are with workers at a time: 1 to 256, 16 by default. It is also bounded by two for each
    /// healthy worker.
    #[must_use]
    pub fn parallel_parts(mut self, parts: usize) -> Self {
        self.parallel_parts = parts;
        self
    }

    /// Who looks names up; the operating system by default.
    #[must_use]
    pub fn resolver(mut self, resolver: Arc<dyn Resolve>) -> Self {
        self.resolver = resolver;
        self
    }

    /// Checks what was given.
    ///
    /// # Errors
    /// [`ProviderError::Setting`] names what is out of its range, [`ProviderError::ApiKey`] a key that no header can carry.
    pub fn build(self) -> Result<PoolConfig, ProviderError> {
        const INTERVALS: RangeInclusive<Duration> = Duration::from_millis(10)..=Duration::from_secs(3600);

        in_range("start_timeout", self.start_timeout, &(Duration::ZERO..=Duration::from_secs(3600)))?;
        in_range("max_message_bytes", self.max_message_bytes, &(4096..=1 << 31))?;
        in_range("resolve_interval", self.resolve_interval, &INTERVALS)?;
        in_range("probe_interval", self.probe_interval, &INTERVALS)?;
        in_range("recovery_wait", self.recovery_wait, &(Duration::ZERO..=Duration::from_secs(60)))?;
        in_range("max_attempts", self.max_attempts, &(1..=16))?;
        in_range("parallel_parts", self.parallel_parts, &(1..=256))?;
        let authorization = match &self.api_key {
            None => None,
            Some(key) => {
                let value = MetadataValue::try_from(format!("Bearer {key}"));
                let value = value.map_err(|_| ProviderError::ApiKey { address: self.addresses.to_string() })?;
                Some(value)
            }
        };
        Ok(PoolConfig {
            addresses: self.addresses,
            authorization,
            start_timeout: self.start_timeout,
            max_message_bytes: self.max_message_bytes,
            resolve_interval: self.resolve_interval,
            probe_interval: self.probe_interval,
            recovery_wait: self.recovery_wait,
            max_attempts: self.max_attempts,
            parallel_parts: self.parallel_parts,
            resolver: self.resolver,
        })
    }
}

fn in_range<T: PartialOrd + fmt::Debug>(
    field: &'static str,
    value: T,
    range: &RangeInclusive<T>,
) -> Result<(), ProviderError> {
    if range.contains(&value) {
        return Ok(());
    }
    let expected = format!("{:?} to {:?}", range.start(), range.end());
    Err(ProviderError::Setting { field, expected, got: format!("{value:?}") })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn builder() -> PoolConfigBuilder {
        PoolConfig::builder("http://a:7700".parse().unwrap())
    }

    #[test]
    fn what_is_out_of_range_is_named() {
        let fault = |builder: PoolConfigBuilder| builder.build().unwrap_err().to_string();
        assert_eq!(fault(builder().max_attempts(0)), "max_attempts must be 1 to 16, got 0");
        assert_eq!(fault(builder().parallel_parts(257)), "parallel_parts must be 1 to 256, got 257");
        assert_eq!(fault(builder().probe_interval(Duration::ZERO)), "probe_interval must be 10ms to 3600s, got 0ns");
        assert!(builder().build().is_ok());
    }

    #[test]
    fn a_key_is_checked_and_never_shown() {
        let fault = builder().api_key(Some("new\nline".to_owned())).build().unwrap_err().to_string();
        assert_eq!(fault, "the API key for http://a:7700 must be visible ASCII characters");
        let config = builder().api_key(Some("secret".to_owned())).build().unwrap();
        assert!(!format!("{config:?}").contains("secret"));
    }
}
