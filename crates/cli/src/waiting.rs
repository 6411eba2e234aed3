//! Waits for an operation, with a bar on a terminal.

use std::io::{self, IsTerminal as _};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use toller_api::v1;

use crate::client::Connection;
use crate::error::Error;
use crate::names::{OperationState, or_dash};

const TEMPLATE: &str = "{bar:30} {percent:>3} %  {pos} of {len}  {eta} left";

/// How often the bar moves.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Waits until the operation has ended, however many calls that takes, and returns how it ended.
///
/// # Errors
/// What a call ends with.
pub(crate) async fn wait_until_ended(connection: &Connection, id: String) -> Result<v1::Operation, Error> {
    let mut client = connection.operations();
    let bar = ProgressBar::hidden();
    let is_watched = io::stderr().is_terminal();
    if is_watched {
        if let Ok(style) = ProgressStyle::with_template(TEMPLATE) {
            bar.set_style(style);
        }
        bar.set_draw_target(ProgressDrawTarget::stderr());
    }
    loop {
        let operation = if is_watched {
            // Progress is to be seen, not only the end.
            let request = v1::OperationsGetRequest { id: id.clone() };
            client.get(request).await?.into_inner().operation
        } else {
            let request = v1::OperationsWaitRequest { id: id.clone() };
            client.wait(request).await?.into_inner().operation
        };
        let operation = operation.unwrap_or_default();
        if OperationState::from_message(operation.state) != Some(OperationState::Running) {
            bar.finish_and_clear();
            return Ok(operation);
        }
        bar.set_length(operation.total.unwrap_or(0));
        bar.set_position(operation.done);
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// How an operation ended, in a line.
pub(crate) fn line(operation: &v1::Operation) -> String {
    let state = or_dash(OperationState::from_message(operation.state));
    let v1::Operation { kind, subject, id, done, error_message, .. } = operation;
    let outcome = if error_message.is_empty() { format!("{done} documents") } else { error_message.clone() };
    format!("{kind} of \"{subject}\" {state}: {outcome} (operation {id})")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_says_how_it_ended() {
        let succeeded = v1::Operation {
            id: "7".to_owned(),
            kind: "reembed".to_owned(),
            subject: "docs".to_owned(),
            state: v1::OperationState::Succeeded.into(),
            done: 3,
            ..Default::default()
        };
        assert_eq!(line(&succeeded), "reembed of \"docs\" succeeded: 3 documents (operation 7)");
        let failed = v1::Operation {
            state: v1::OperationState::Failed.into(),
            error_message: "no model".to_owned(),
            ..succeeded
        };
        assert_eq!(line(&failed), "reembed of \"docs\" failed: no model (operation 7)");
    }
}
