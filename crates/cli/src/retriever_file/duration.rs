//! Spans of time in words, such as `1.5s` or `250ms`.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::Error;

/// A timeout: more than zero.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(super) struct Timeout(Duration);

impl Timeout {
    pub(super) fn into_message(self) -> prost_types::Duration {
        // Out of range only beyond any time that a file can say.
        prost_types::Duration::try_from(self.0).unwrap_or_default()
    }

    /// # Errors
    /// `Failed` for a negative one.
    pub(super) fn from_message(message: prost_types::Duration) -> Result<Self, Error> {
        let duration = Duration::try_from(message);
        duration.map(Self).map_err(|fault| Error::Failed(format!("cannot show the timeout: {fault}")))
    }
}

impl TryFrom<String> for Timeout {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let (number, unit_seconds) = match (text.strip_suffix("ms"), text.strip_suffix('s')) {
            (Some(number), _) => (number, 0.001),
            (None, Some(number)) => (number, 1.0),
            (None, None) => ("", 1.0),
        };
        let seconds = number.parse::<f64>().ok().map(|number| number * unit_seconds);
        let duration = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        match duration.filter(|duration| !duration.is_zero()) {
            Some(duration) => Ok(Self(duration)),
            None => Err(format!("must be a span of time such as 1.5s or 250ms, got {text:?}")),
        }
    }
}

impl From<Timeout> for String {
    fn from(Timeout(duration): Timeout) -> Self {
        format!("{}s", duration.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_and_milliseconds_are_read() {
        for (text, millis) in [("1.5s", 1500), ("250ms", 250), ("2s", 2000)] {
            assert_eq!(Timeout::try_from(text.to_owned()), Ok(Timeout(Duration::from_millis(millis))));
        }
        for bad in ["", "5", "5m", "-1s", "0s", "NaNs", "infs", "s", "1e300s"] {
            assert!(Timeout::try_from(bad.to_owned()).is_err(), "{bad} must be refused");
        }
        assert_eq!(String::from(Timeout(Duration::from_millis(1500))), "1.5s");
    }
}
