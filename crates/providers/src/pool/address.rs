//! Where workers are: a list of URLs, or one name whose addresses are looked up again and again.

use std::fmt;
use std::net::SocketAddr;
use std::str::FromStr;

use http::Uri;

use crate::error::ProviderError;

/// The scheme of a name that is looked up.
const DNS: &str = "dns";

/// Most URLs of a list.
const MAX_LISTED: usize = 1024;

/// Where the workers of a pool are.
///
/// ```
/// use toller_providers::WorkerAddresses;
/// // One worker, or several in a list that stays as it is.
/// let list: WorkerAddresses = "http://a:7700,http://b:7700".parse()?;
/// // One worker for each address of the name, looked up again while the pool runs: a headless service.
/// let name: WorkerAddresses = "dns://embedder:7700".parse()?;
/// assert_eq!(list.to_string(), "http://a:7700,http://b:7700");
/// assert_eq!(name.to_string(), "dns://embedder:7700");
/// # Ok::<(), toller_providers::ProviderError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WorkerAddresses {
    /// One worker at each URL; never empty, none twice.
    List(Vec<WorkerAddress>),
    /// One worker at each address of a name.
    Dns {
        /// The name; an IP address is a name with one address.
        host: String,
        /// The port of every worker.
        port: u16,
    },
}

/// The URL of one worker, `http://host:port`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct WorkerAddress {
    url: String,
    /// What calls name as their host where that is not the URL's: the name that led to an IP address.
    origin: Option<String>,
}

impl WorkerAddress {
    /// A worker that was found by looking up `host`.
    pub(crate) fn found(host: &str, address: SocketAddr) -> Self {
        let port = address.port();
        Self { url: format!("http://{address}"), origin: Some(format!("http://{host}:{port}")) }
    }

    /// The URL to connect to.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The URL whose host calls are made to, where it is another one.
    pub(crate) fn origin(&self) -> Option<&str> {
        self.origin.as_deref()
    }
}

impl fmt::Display for WorkerAddress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.url)
    }
}

impl fmt::Display for WorkerAddresses {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::List(addresses) => {
                for (index, address) in addresses.iter().enumerate() {
                    write!(formatter, "{}{address}", if index == 0 { "" } else { "," })?;
                }
                Ok(())
            }
            Self::Dns { host, port } => write!(formatter, "{DNS}://{host}:{port}"),
        }
    }
}

impl FromStr for WorkerAddresses {
    type Err = ProviderError;

    /// `http://a:7700`, `http://a:7700,http://b:7700`, or `dns://embedder:7700`.
    fn from_str(text: &str) -> Result<Self, ProviderError> {
        let fault = |given: &str, fault: String| ProviderError::Address { address: given.trim().to_owned(), fault };
        let entries: Vec<&str> = text.split(',').map(str::trim).collect();
        if let [entry] = entries.as_slice()
            && let Some(authority) = entry.strip_prefix("dns://")
        {
            return parse_dns(authority).map_err(|what| fault(entry, what));
        }
        if entries.len() > MAX_LISTED {
            return Err(fault(text, format!("lists {} URLs, {MAX_LISTED} at most", entries.len())));
        }
        let mut addresses: Vec<WorkerAddress> = Vec::with_capacity(entries.len());
        for entry in entries {
            let address = parse_url(entry).map_err(|what| fault(entry, what))?;
            if addresses.contains(&address) {
                return Err(fault(entry, "is listed twice".to_owned()));
            }
            addresses.push(address);
        }
        Ok(Self::List(addresses))
    }
}

fn parse_url(text: &str) -> Result<WorkerAddress, String> {
    if text.is_empty() {
        return Err("is empty".to_owned());
    }
    let uri: Uri = text.parse().map_err(|fault| format!("is no URL ({fault})"))?;
    match uri.scheme_str() {
        Some("http") => {}
        Some("https") => return Err("must begin with http://, since TLS to workers is not built in".to_owned()),
        Some(DNS) => return Err("a dns:// name stands alone, not in a list".to_owned()),
        _ => return Err("must begin with http:// or dns://".to_owned()),
    }
    let Some(authority) = uri.authority() else { return Err("names no host".to_owned()) };
    if authority.as_str().contains('@') {
        return Err("must not carry a user or a password; set the API key instead".to_owned());
    }
    if !matches!(uri.path(), "" | "/") || uri.query().is_some() {
        return Err("must end after the port".to_owned());
    }
    Ok(WorkerAddress { url: format!("http://{authority}"), origin: None })
}

fn parse_dns(authority: &str) -> Result<WorkerAddresses, String> {
    let parsed: http::uri::Authority =
        authority.trim_end_matches('/').parse().map_err(|fault| format!("is no name with a port ({fault})"))?;
    if parsed.as_str().contains('@') {
        return Err("must not carry a user or a password; set the API key instead".to_owned());
    }
    let port = parsed.port_u16().filter(|port| *port != 0).ok_or("names no port")?;
    Ok(WorkerAddresses::Dns { host: parsed.host().to_owned(), port })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<String, String> {
        text.parse::<WorkerAddresses>().map(|parsed| parsed.to_string()).map_err(|error| error.to_string())
    }

    #[test]
    fn lists_and_names_are_read_and_written() {
        assert_eq!(parse("http://embedder:7700"), Ok("http://embedder:7700".to_owned()));
        assert_eq!(parse(" http://a:1/ , http://[::1]:2"), Ok("http://a:1,http://[::1]:2".to_owned()));
        assert_eq!(parse("dns://embedder.ns.svc:7700"), Ok("dns://embedder.ns.svc:7700".to_owned()));
        assert_eq!(parse("dns://[::1]:7700/"), Ok("dns://[::1]:7700".to_owned()));
    }

    #[test]
    fn faults_name_the_address_and_say_what_to_write() {
        let cases = [
            ("", "is empty"),
            ("http://a:1,", "is empty"),
            ("embedder:7700", "must begin with http://"),
            ("ftp://a:1", "must begin with http://"),
            ("https://a:1", "TLS"),
            ("http://a:1,http://a:1/", "is listed twice"),
            ("http://a:1,dns://b:1", "stands alone"),
            ("http://user:secret@a:1", "API key"),
            ("http://a:1/path", "must end after the port"),
            ("dns://embedder", "names no port"),
            ("dns://a:1,dns://b:1", "stands alone"),
            ("http://a b", "is no URL"),
        ];
        for (text, expected) in cases {
            let fault = parse(text).unwrap_err();
            assert!(fault.contains(expected), "{text}: {fault}");
            assert!(fault.contains("dns://embedder:7700"), "{fault}");
        }
    }
}
