//! Authentication by static API keys. The configuration keeps a key's SHA-256 only; a key names its tenant and its role.
//!
//! A key comes as `authorization: Bearer <key>` or as `x-api-key: <key>`. A server without keys lets everybody in as the
//! anonymous principal; health and reflection are open to all.

use std::fmt;
use std::sync::Arc;

use http::{HeaderMap, Request, Response, header};
use sha2::{Digest, Sha256};
use subtle::{Choice, ConditionallySelectable, ConstantTimeEq};
use toller_core::{Error as CoreError, Principal, Role, Tenant};
use tonic::body::Body;

use crate::error::Error;
use crate::middleware::{GrpcService, Middleware, call};
use crate::open::is_open;
use crate::status::status;

/// The header with a key alone.
pub const API_KEY: &str = "x-api-key";

const HASH_BYTES: usize = 32;

/// The SHA-256 of a key as the configuration has it: 64 lower-case hexadecimal digits.
///
/// ```
/// assert_eq!(
///     toller_serving::auth::hash_key("foo"),
///     "2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae"
/// );
/// ```
pub fn hash_key(key: &str) -> String {
    sha256(key.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}

fn sha256(bytes: &[u8]) -> [u8; HASH_BYTES] {
    Sha256::digest(bytes).into()
}

/// The keys that a server accepts.
#[derive(Clone, Default)]
pub struct ApiKeys {
    entries: Vec<Entry>,
}

#[derive(Clone)]
struct Entry {
    hash: [u8; HASH_BYTES],
    principal: Principal,
}

/// Names only.
impl fmt::Debug for ApiKeys {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_list().entries(self.entries.iter().map(|entry| &entry.principal.name)).finish()
    }
}

impl ApiKeys {
    /// Adds a key by its SHA-256 in hexadecimal (see [`hash_key`]).
    ///
    /// # Errors
    /// [`Error::ApiKey`] for an empty or repeated name, and for a hash that is none or repeated.
    pub fn add(&mut self, name: &str, sha256: &str, tenant: Tenant, role: Role) -> Result<(), Error> {
        let wrong = |field: &'static str, fault: &str| Err(Error::ApiKey { field, fault: fault.to_owned() });
        if name.is_empty() || name.chars().any(char::is_control) {
            return wrong("name", "must not be empty or have control characters");
        }
        if self.entries.iter().any(|entry| &*entry.principal.name == name) {
            return wrong("name", "stands twice");
        }
        let Some(hash) = hash_from_hexadecimal(sha256) else {
            return wrong("sha256", "must be the key's SHA-256 in 64 hexadecimal digits, not the key itself");
        };
        if self.entries.iter().any(|entry| entry.hash == hash) {
            return wrong("sha256", "stands twice: every name needs a key of its own");
        }
        self.entries.push(Entry { hash, principal: Principal { name: name.into(), tenant, role } });
        Ok(())
    }

    /// Is there no key, so that everybody is let in?
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Number of keys.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whose key it is. Takes the same time for every key of the same length, right or wrong. O(keys).
    pub fn principal(&self, key: &[u8]) -> Option<&Principal> {
        let hash = sha256(key);
        let mut found = u64::MAX;
        for (index, entry) in (0_u64..).zip(&self.entries) {
            let same: Choice = entry.hash.ct_eq(&hash);
            found.conditional_assign(&index, same);
        }
        usize::try_from(found).ok().and_then(|index| self.entries.get(index)).map(|entry| &entry.principal)
    }

    /// Who sends these headers.
    fn authenticate(&self, headers: &HeaderMap) -> Result<Principal, CoreError> {
        if self.is_empty() {
            return Ok(Principal::anonymous());
        }
        let key = presented_key(headers)?;
        self.principal(key).cloned().ok_or_else(|| CoreError::Unauthenticated("the API key is not known".to_owned()))
    }
}

fn hash_from_hexadecimal(text: &str) -> Option<[u8; HASH_BYTES]> {
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    if !rest.is_empty() || pairs.len() != HASH_BYTES {
        return None;
    }
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let mut hash = [0; HASH_BYTES];
    for (byte, [high, low]) in hash.iter_mut().zip(pairs) {
        *byte = digit(*high)? << 4 | digit(*low)?;
    }
    Some(hash)
}

/// The key in the headers; `authorization` goes before `x-api-key`.
fn presented_key(headers: &HeaderMap) -> Result<&[u8], CoreError> {
    const HINT: &str = "send an API key as `authorization: Bearer <key>` or as `x-api-key: <key>`";
    let unauthenticated = |fault: &str| CoreError::Unauthenticated(format!("{fault}; {HINT}"));
    if let Some(authorization) = headers.get(header::AUTHORIZATION) {
        let bytes = authorization.as_bytes();
        let space = bytes.iter().position(|byte| *byte == b' ').unwrap_or(bytes.len());
        let (scheme, rest) = bytes.split_at_checked(space).unwrap_or((bytes, &[]));
        let key = rest.trim_ascii();
        if !scheme.eq_ignore_ascii_case(b"bearer") || key.is_empty() {
            return Err(unauthenticated("the authorization header is not a bearer token"));
        }
        return Ok(key);
    }
    match headers.get(API_KEY) {
        Some(key) if !key.is_empty() => Ok(key.as_bytes()),
        _ => Err(unauthenticated("the call has no credential")),
    }
}

/// Puts the [`Principal`] of every call into its extensions, or answers UNAUTHENTICATED.
#[derive(Debug, Clone)]
pub struct Authentication(pub Arc<ApiKeys>);

impl Middleware for Authentication {
    async fn handle<S: GrpcService>(self, mut request: Request<Body>, next: S) -> Response<Body> {
        if !is_open(request.uri().path()) {
            match self.0.authenticate(request.headers()) {
                Ok(principal) => request.extensions_mut().insert(principal),
                Err(error) => return status(&error).into_http(),
            };
        }
        call(next, request).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn keys() -> ApiKeys {
        let mut keys = ApiKeys::default();
        let tenant = |name: &str| Tenant::new(name).unwrap();
        keys.add("web", &hash_key("web-secret"), tenant("acme"), Role::Reader).unwrap();
        keys.add("loader", &hash_key("loader-secret").to_uppercase(), tenant("acme"), Role::Writer).unwrap();
        keys.add("other", &hash_key("other-secret"), tenant("umbrella"), Role::Admin).unwrap();
        keys
    }

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs
            .iter()
            .map(|(name, value)| (http::HeaderName::from_static(name), http::HeaderValue::from_str(value).unwrap()))
            .collect()
    }

    #[test]
    fn either_header_gives_the_principal() {
        let keys = keys();
        for (pairs, name) in [
            ([("authorization", "Bearer web-secret")].as_slice(), "web"),
            (&[("authorization", "bearer   loader-secret ")], "loader"),
            (&[("x-api-key", "other-secret")], "other"),
            (&[("authorization", "Bearer web-secret"), ("x-api-key", "wrong")], "web"),
        ] {
            let principal = keys.authenticate(&headers(pairs)).unwrap();
            assert_eq!(&*principal.name, name, "{pairs:?}");
        }
        let principal = keys.authenticate(&headers(&[("x-api-key", "loader-secret")])).unwrap();
        assert_eq!((principal.tenant.as_str(), principal.role), ("acme", Role::Writer));
    }

    #[test]
    fn everything_else_is_refused() {
        let keys = keys();
        let hash = hash_key("web-secret");
        let bearer_of_hash = format!("Bearer {hash}");
        for pairs in [
            [].as_slice(),
            &[("authorization", "Bearer wrong")],
            &[("authorization", "Bearer")],
            &[("authorization", "Bearer ")],
            &[("authorization", "web-secret")],
            &[("authorization", "Basic web-secret")],
            &[("authorization", &bearer_of_hash)],
            &[("authorization", "Basic x"), ("x-api-key", "web-secret")],
            &[("x-api-key", "")],
            &[("x-api-key", "WEB-SECRET")],
        ] {
            let error = keys.authenticate(&headers(pairs)).unwrap_err();
            assert!(matches!(error, CoreError::Unauthenticated(_)), "{pairs:?}");
            assert!(!error.to_string().contains("secret"), "{error}");
        }
    }

    #[test]
    fn without_keys_everybody_is_anonymous() {
        assert_eq!(ApiKeys::default().authenticate(&headers(&[("x-api-key", "any")])).unwrap(), Principal::anonymous());
    }

    #[test]
    fn wrong_configuration_is_refused() {
        let mut keys = keys();
        let mut add =
            |name: &str, sha256: &str| keys.add(name, sha256, Tenant::default(), Role::Reader).unwrap_err().to_string();
        let fresh = hash_key("fresh");
        assert!(add("", &fresh).starts_with("name "));
        assert!(add("web", &fresh).starts_with("name stands twice"));
        assert!(add("new", &hash_key("web-secret")).starts_with("sha256 stands twice"));
        for bad in ["", "fresh", &fresh[1..], &fresh.replace(|_: char| true, "g")] {
            assert!(add("new", bad).starts_with("sha256 must be"), "{bad}");
        }
    }

    #[test]
    fn debug_output_has_names_only() {
        assert_eq!(format!("{:?}", keys()), r#"["web", "loader", "other"]"#);
    }

    proptest! {
        #[test]
        fn a_key_is_found_by_itself_and_by_nothing_else(key in "\\PC{1,40}", other in "\\PC{0,40}") {
            let mut keys = ApiKeys::default();
            keys.add("k", &hash_key(&key), Tenant::default(), Role::Reader).unwrap();
            prop_assert!(keys.principal(key.as_bytes()).is_some());
            prop_assert_eq!(keys.principal(other.as_bytes()).is_some(), key == other);
        }
    }
}
