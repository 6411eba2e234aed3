//! Why a worker cannot be used.

use std::fmt;

/// Why calls do not go to a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Not asked yet.
    Unproved,
    /// It cannot be connected to, or the connection broke.
    Connection(String),
    /// It failed calls, one after the other.
    Failing(String),
    /// Its health says so.
    NotServing,
    /// It answers, but not to us: a wrong API key, or no Embedder service at all.
    Refused(String),
    /// It did not answer in time.
    Silent,
    /// Its models are others than those of the pool; names both.
    OtherModel(String),
}

impl Fault {
    /// The word for it in metrics.
    pub(crate) fn reason(&self) -> &'static str {
        match self {
            Self::Unproved => "unproved",
            Self::Connection(_) => "connection",
            Self::Failing(_) => "failing",
            Self::NotServing => "not_serving",
            Self::Refused(_) => "refused",
            Self::Silent => "silent",
            Self::OtherModel(_) => "other_model",
        }
    }

    /// Does it stay until somebody changes a setting?
    pub(crate) fn is_final(&self) -> bool {
        matches!(self, Self::Refused(_))
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unproved => formatter.write_str("it has not answered yet"),
            Self::Connection(said) | Self::Failing(said) | Self::Refused(said) | Self::OtherModel(said) => {
                formatter.write_str(said)
            }
            Self::NotServing => formatter.write_str("its health says that it does not serve"),
            Self::Silent => formatter.write_str("it does not answer"),
        }
    }
}
