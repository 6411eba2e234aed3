//! Operations.

use toller_core::operation::FaultClass;
use toller_core::{Operation, OperationState};

use super::timestamp_from_millis;
use crate::v1;

/// The message of an operation.
pub fn operation_to_message(operation: &Operation) -> v1::Operation {
    v1::Operation {
        id: operation.id.clone(),
        kind: operation.kind.as_str().to_owned(),
        state: state_to_message(operation.state).into(),
        done: operation.done,
        total: operation.total,
        started_at: Some(timestamp_from_millis(operation.started_at_ms)),
        ended_at: operation.ended_at_ms.map(timestamp_from_millis),
        error_code: operation.fault.as_ref().map_or(0, |fault| code_of(fault.class)),
        error_message: operation.fault.as_ref().map(|fault| fault.message.clone()).unwrap_or_default(),
        subject: operation.subject.clone(),
    }
}

fn state_to_message(state: OperationState) -> v1::OperationState {
    match state {
        OperationState::Running => v1::OperationState::Running,
        OperationState::Succeeded => v1::OperationState::Succeeded,
        OperationState::Failed => v1::OperationState::Failed,
        OperationState::Cancelled => v1::OperationState::Cancelled,
    }
}

/// The number of google.rpc.Code.
fn code_of(class: FaultClass) -> i32 {
    match class {
        FaultClass::InvalidArgument => 3,
        FaultClass::NotFound => 5,
        FaultClass::ResourceExhausted => 8,
        FaultClass::FailedPrecondition => 9,
        FaultClass::Aborted => 10,
        FaultClass::Internal => 13,
        FaultClass::Unavailable => 14,
    }
}

#[cfg(test)]
mod tests {
    use toller_core::OperationKind;
    use toller_core::operation::OperationFault;

    use super::*;

    #[test]
    fn an_operation_keeps_all_it_says() {
        let running = Operation {
            id: "7".to_owned(),
            kind: OperationKind::Reembed,
            subject: "docs".to_owned(),
            state: OperationState::Running,
            done: 3,
            total: None,
            started_at_ms: 1_500,
            ended_at_ms: None,
            fault: None,
        };
        let message = operation_to_message(&running);
        assert_eq!((message.kind.as_str(), message.subject.as_str()), ("reembed", "docs"));
        assert_eq!((message.state(), message.done, message.total), (v1::OperationState::Running, 3, None));
        assert_eq!((message.started_at, message.ended_at), (Some(timestamp_from_millis(1_500)), None));
        assert_eq!((message.error_code, message.error_message.as_str()), (0, ""));
        let fault = OperationFault { class: FaultClass::FailedPrecondition, message: "no model".to_owned() };
        let failed = Operation { state: OperationState::Failed, ended_at_ms: Some(2), fault: Some(fault), ..running };
        let message = operation_to_message(&failed);
        assert_eq!((message.state(), message.error_code), (v1::OperationState::Failed, 9));
        assert_eq!((message.error_message.as_str(), message.ended_at.is_some()), ("no model", true));
    }
}
