//! Deadlines: every call has one, absolute from its first moment, and is answered DEADLINE_EXCEEDED when it passes.
//!
//! tonic's own server answers CANCELLED when a client's `grpc-timeout` has passed, from outside of all layers. This one is a
//! little faster, by [`margin`], so that the client learns the truth. Both look at this one's answer first, so that tonic wins
//! only when the operating system takes the thread away for longer than the margin at just that moment.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::{HeaderValue, Request, Response};
use toller_core::Error;
use tonic::body::Body;

use crate::connections::ConnectionInfo;
use crate::ending::{Ending, call_until};
use crate::middleware::{GrpcService, Middleware};
use crate::open::is_open;
use crate::status::status;
use crate::unread::close_when_unread;

/// The header with a call's timeout, in gRPC's wire format.
pub const GRPC_TIMEOUT: &str = "grpc-timeout";

/// Longest lead of our answer over tonic's.
const MAX_MARGIN: Duration = Duration::from_millis(5);

/// Shortest lead: the resolution of tokio's timers.
const MIN_MARGIN: Duration = Duration::from_millis(1);

/// When a call arrived, in the request's extensions: deadlines count from there. Set before tonic starts its own timer.
#[derive(Debug, Clone, Copy)]
pub struct Arrival(pub Instant);

/// When a call's answer stops being of use; in the request's extensions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deadline(pub Instant);

/// Gives every call its deadline, and ends it there.
#[derive(Debug, Clone)]
pub struct Deadlines {
    /// For calls that bring none.
    pub default: Duration,
    /// Longest; later ones are brought forward.
    pub longest: Duration,
    /// Methods that take as long as they take, as `package.Service/Method`: they have no deadline but their caller's.
    pub unhurried: Arc<HashSet<String>>,
}

impl Deadlines {
    /// How long a call may take; none for no limit.
    fn timeout(&self, request: &Request<Body>) -> Result<Option<Duration>, Error> {
        let asked = match request.headers().get(GRPC_TIMEOUT) {
            Some(value) => Some(parse_grpc_timeout(value).map_err(|fault| Error::invalid(GRPC_TIMEOUT, fault))?),
            None => None,
        };
        let path = request.uri().path();
        if is_open(path) || self.unhurried.contains(path.strip_prefix('/').unwrap_or(path)) {
            return Ok(asked);
        }
        Ok(Some(asked.unwrap_or(self.default).min(self.longest)))
    }
}

impl Middleware for Deadlines {
    async fn handle<S: GrpcService>(self, mut request: Request<Body>, next: S) -> Response<Body> {
        let timeout = match self.timeout(&request) {
            Ok(timeout) => timeout,
            Err(error) => return status(&error).into_http(),
        };
        let arrival = request.extensions().get().map_or_else(Instant::now, |Arrival(arrival)| *arrival);
        let deadline = timeout.and_then(|timeout| Some((arrival.checked_add(timeout)?, timeout)));
        let Some((deadline, timeout)) = deadline else {
            return crate::middleware::call(next, request).await;
        };
        request.extensions_mut().insert(Deadline(deadline));
        let answer_at = deadline.checked_sub(margin(timeout)).unwrap_or(deadline);
        if Instant::now() >= answer_at {
            return status(&Error::DeadlineExceeded("before the work began")).into_http();
        }
        let ending: Ending = Box::pin(async move {
            tokio::time::sleep_until(answer_at.into()).await;
            status(&Error::DeadlineExceeded("before the answer was complete"))
        });
        let closer = request.extensions().get::<ConnectionInfo>().map(|connection| connection.closer.clone());
        let answer = call_until(next, request, ending).await;
        match closer {
            Some(closer) => close_when_unread(answer, deadline, closer),
            None => answer,
        }
    }
}

/// How long before a deadline it is answered: a tenth of the timeout, at least 1 ms and at most 5 ms, and never more than the
/// timeout. A call with a timeout of less than 1 ms is answered at once: no timer could tell it apart from a passed one.
pub fn margin(timeout: Duration) -> Duration {
    (timeout / 10).clamp(MIN_MARGIN, MAX_MARGIN).min(timeout)
}

/// Reads gRPC's wire format of a timeout: 1 to 8 digits and a unit of `H`, `M`, `S`, `m`, `u` or `n`
/// (<https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md>).
///
/// # Errors
/// Says what is wrong.
pub fn parse_grpc_timeout(value: &HeaderValue) -> Result<Duration, String> {
    let wrong = || format!("must be 1 to 8 digits and one of H, M, S, m, u, n, got {value:?}");
    let text = value.to_str().map_err(|_| wrong())?;
    let (digits, unit) = text.len().checked_sub(1).and_then(|at| text.split_at_checked(at)).ok_or_else(wrong)?;
    if digits.is_empty() || digits.len() > 8 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(wrong());
    }
    let amount: u64 = digits.parse().map_err(|_| wrong())?;
    match unit {
        "H" => Ok(Duration::from_secs(amount * 3600)),
        "M" => Ok(Duration::from_secs(amount * 60)),
        "S" => Ok(Duration::from_secs(amount)),
        "m" => Ok(Duration::from_millis(amount)),
        "u" => Ok(Duration::from_micros(amount)),
        "n" => Ok(Duration::from_nanos(amount)),
        _ => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn parse(text: &str) -> Result<Duration, String> {
        parse_grpc_timeout(&HeaderValue::from_str(text).unwrap())
    }

    #[test]
    fn all_units_and_the_largest_value() {
        assert_eq!(parse("2H"), Ok(Duration::from_secs(7200)));
        assert_eq!(parse("3M"), Ok(Duration::from_secs(180)));
        assert_eq!(parse("82S"), Ok(Duration::from_secs(82)));
        assert_eq!(parse("13m"), Ok(Duration::from_millis(13)));
        assert_eq!(parse("2u"), Ok(Duration::from_micros(2)));
        assert_eq!(parse("82n"), Ok(Duration::from_nanos(82)));
        assert_eq!(parse("0m"), Ok(Duration::ZERO));
        assert_eq!(parse("99999999H"), Ok(Duration::from_secs(99_999_999 * 3600)));
    }

    #[test]
    fn malformed_ones_are_refused() {
        for bad in ["", "S", "5", "5s", "123456789S", "-1S", "+1S", "1.5S", " 1S", "1 S", "1Sm"] {
            assert!(parse(bad).is_err(), "{bad:?}");
        }
        assert!(parse_grpc_timeout(&HeaderValue::from_bytes(b"1\xffS").unwrap()).is_err());
    }

    #[test]
    fn the_longest_deadline_bounds_and_the_default_fills_in() {
        let deadlines = Deadlines {
            default: Duration::from_secs(60),
            longest: Duration::from_secs(600),
            unhurried: Arc::new(HashSet::from(["toller.v1.Backups/Save".to_owned()])),
        };
        let timeout = |path: &str, header: Option<&str>| {
            let mut request = Request::builder().uri(path);
            if let Some(header) = header {
                request = request.header(GRPC_TIMEOUT, header);
            }
            deadlines.timeout(&request.body(Body::empty()).unwrap()).unwrap()
        };
        assert_eq!(timeout("/toller.v1.Retrieval/Search", None), Some(Duration::from_secs(60)));
        assert_eq!(timeout("/toller.v1.Retrieval/Search", Some("5S")), Some(Duration::from_secs(5)));
        assert_eq!(timeout("/toller.v1.Retrieval/Search", Some("2H")), Some(Duration::from_secs(600)));
        assert_eq!(timeout("/grpc.health.v1.Health/Watch", None), None);
        assert_eq!(timeout("/toller.v1.Backups/Save", None), None);
        assert_eq!(timeout("/toller.v1.Backups/Save", Some("2H")), Some(Duration::from_secs(7200)));
        assert_eq!(timeout("/toller.v1.Backups/Saved", None), Some(Duration::from_secs(60)));
        assert_eq!(timeout("/grpc.health.v1.Health/Watch", Some("2H")), Some(Duration::from_secs(7200)));
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_timeout_or_an_error(bytes in prop::collection::vec(0x20_u8..0xff, 0..12)) {
            if let Ok(value) = HeaderValue::from_bytes(&bytes) {
                let _ = parse_grpc_timeout(&value);
            }
        }

        #[test]
        fn the_margin_is_ahead_but_small(nanoseconds in 0_u64..10_000_000_000_000) {
            let timeout = Duration::from_nanos(nanoseconds);
            prop_assert!(margin(timeout) <= MAX_MARGIN);
            prop_assert!(margin(timeout) <= timeout);
            prop_assert!(margin(timeout) >= MIN_MARGIN.min(timeout));
        }
    }
}
