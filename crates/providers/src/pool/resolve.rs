//! Looking names up.

use std::io;
use std::net::SocketAddr;

use async_trait::async_trait;

/// Looks up the addresses of a name.
#[async_trait]
pub trait Resolve: Send + Sync {
    /// Every address of `host`, with `port`. The order says nothing.
    ///
    /// # Errors
    /// When the name cannot be looked up; the pool then keeps the workers that it has.
    async fn resolve(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>>;
}

/// The operating system's resolver, with its hosts file, search domains and caches.
#[derive(Debug, Clone, Copy)]
pub struct SystemResolver;

#[async_trait]
impl Resolve for SystemResolver {
    async fn resolve(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        // Brackets belong to an IPv6 address in a URL, not to the address.
        let host = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
        Ok(tokio::net::lookup_host((host, port)).await?.collect())
    }
}
