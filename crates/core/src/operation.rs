//! Operations: what runs longer than a request, such as embedding a collection anew.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::error::Error;

/// What an operation does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OperationKind {
    /// Embeds a collection anew from its stored texts.
    Reembed,
}

impl OperationKind {
    /// Stable name, as in the public contract.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Reembed => "reembed",
        }
    }
}

impl fmt::Display for OperationKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// How far an operation is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OperationState {
    /// It runs, or goes on when its process is started again.
    Running,
    /// It did what it was to do.
    Succeeded,
    /// It ended with a fault, and left everything as it was before.
    Failed,
    /// It was stopped, and left everything as it was before.
    Cancelled,
}

/// The class of a fault that ended an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FaultClass {
    /// What the operation was given is wrong.
    InvalidArgument,
    /// Something that it needs does not exist.
    NotFound,
    /// Something has to be changed before it can succeed.
    FailedPrecondition,
    /// Other writers were in the way.
    Aborted,
    /// A bounded resource is full.
    ResourceExhausted,
    /// Something that it depends on cannot be reached.
    Unavailable,
    /// A defect, or broken data.
    Internal,
}

impl From<&Error> for FaultClass {
    fn from(error: &Error) -> Self {
        match error {
            Error::InvalidArgument(_) => Self::InvalidArgument,
            Error::NotFound { .. } => Self::NotFound,
            Error::FailedPrecondition { .. } | Error::AlreadyExists { .. } => Self::FailedPrecondition,
            Error::Aborted(_) => Self::Aborted,
            Error::ResourceExhausted { .. } => Self::ResourceExhausted,
            Error::Unavailable(_) | Error::DeadlineExceeded(_) => Self::Unavailable,
            Error::Cancelled | Error::Unauthenticated(_) | Error::PermissionDenied(_) | Error::Internal(_) => {
                Self::Internal
            }
        }
    }
}

/// Why an operation failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OperationFault {
    /// Its class.
    pub class: FaultClass,
    /// What went wrong and what to do.
    pub message: String,
}

impl From<&Error> for OperationFault {
    fn from(error: &Error) -> Self {
        Self { class: error.into(), message: error.to_string() }
    }
}

/// An operation as a caller sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Operation {
    /// Made by the server (UUIDv7, so that ids sort by age); unique within the tenant.
    pub id: String,
    /// What it does.
    pub kind: OperationKind,
    /// What it works on: the name of a collection.
    pub subject: String,
    /// How far it is.
    pub state: OperationState,
    /// Units done, such as documents; at most `total`.
    pub done: u64,
    /// Units in all; none while that is not known.
    pub total: Option<u64>,
    /// Milliseconds since 1970-01-01 UTC.
    pub started_at_ms: i64,
    /// Milliseconds since 1970-01-01 UTC; none while it runs.
    pub ended_at_ms: Option<i64>,
    /// Why it failed; none for every other state.
    pub fault: Option<OperationFault>,
}

impl Operation {
    /// Will nothing change any more?
    pub fn has_ended(&self) -> bool {
        self.state != OperationState::Running
    }
}
