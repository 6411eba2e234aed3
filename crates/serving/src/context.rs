//! From a gRPC request to the context that every layer of the core takes, and back to an answer.

use toller_core::context::Cancellation;
use toller_core::{Error, Principal, RequestContext, Result, Role};
use tonic::{Extensions, Request, Response, Status};

use crate::deadline::Deadline;
use crate::status::status;

/// The context of a request: its principal, deadline and trace, and a fresh cancellation flag.
///
/// # Errors
/// `Internal` when no [`crate::auth::Authentication`] was before it: a server that forgot it must not let everybody in.
pub fn request_context<T>(request: &Request<T>) -> Result<RequestContext> {
    context_from_extensions(request.extensions())
}

fn context_from_extensions(extensions: &Extensions) -> Result<RequestContext> {
    let principal: &Principal = extensions.get().ok_or_else(|| {
        Error::Internal("the server authenticates nobody: its authentication layer is missing".to_owned())
    })?;
    Ok(RequestContext::new(principal.clone())
        .with_deadline(extensions.get().map(|Deadline(deadline)| *deadline))
        .with_cancellation(Cancellation::default())
        .with_trace_parent(toller_telemetry::current_trace_parent()))
}

/// Refuses a principal without `role`.
///
/// # Errors
/// `PermissionDenied`.
pub fn require(context: &RequestContext, role: Role) -> Result<()> {
    let principal = context.principal();
    if principal.role >= role {
        return Ok(());
    }
    Err(Error::PermissionDenied(format!(
        "the call needs the role {role}, and the API key {:?} has the role {}",
        principal.name, principal.role
    )))
}

/// Answers a unary call: checks the role, gives `handler` the context and the message, and turns its error into a status.
///
/// The context's cancellation flag is raised when this future is dropped because the caller has gone or the deadline has
/// passed (and at the end of the call, when nobody waits any more), so that work on other threads can stop.
///
/// # Errors
/// The status of whatever error the handler returns.
pub async fn answer<Message, Answer, Handler>(
    request: Request<Message>,
    role: Role,
    handler: Handler,
) -> std::result::Result<Response<Answer>, Status>
where
    Handler: AsyncFnOnce(RequestContext, Message) -> Result<Answer>,
{
    let context = request_context(&request).map_err(|error| status(&error))?;
    require(&context, role).map_err(|error| status(&error))?;
    let _cancel_when_dropped = context.cancellation().cancel_on_drop();
    match handler(context, request.into_inner()).await {
        Ok(answer) => Ok(Response::new(answer)),
        Err(error) => Err(status(&error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;
    use toller_core::Tenant;

    fn request(role: Role) -> Request<u8> {
        let mut request = Request::new(7);
        let tenant = Tenant::new("acme").unwrap();
        request.extensions_mut().insert(Principal { name: "web".into(), tenant, role });
        request
    }

    #[tokio::test]
    async fn a_handler_gets_principal_deadline_and_message() {
        let mut request = request(Role::Writer);
        let deadline = Instant::now() + std::time::Duration::from_secs(5);
        request.extensions_mut().insert(Deadline(deadline));
        let answered = answer(request, Role::Reader, async |context: RequestContext, message| {
            assert_eq!(context.tenant().as_str(), "acme");
            assert_eq!(context.deadline(), Some(deadline));
            assert!(!context.cancellation().is_cancelled());
            Ok(message + 1)
        });
        assert_eq!(answered.await.unwrap().into_inner(), 8);
    }

    #[tokio::test]
    async fn a_lesser_role_is_refused_before_the_handler_runs() {
        let handler = async |_: RequestContext, _: u8| -> Result<u8> { panic!("must not run") };
        let refused = answer(request(Role::Reader), Role::Writer, handler).await.unwrap_err();
        assert_eq!(refused.code(), tonic::Code::PermissionDenied);
        assert_eq!(refused.message(), "the call needs the role writer, and the API key \"web\" has the role reader");
    }

    #[tokio::test]
    async fn without_the_authentication_layer_nobody_gets_in() {
        let handler = async |_: RequestContext, _: u8| -> Result<u8> { panic!("must not run") };
        let refused = answer(Request::new(7), Role::Reader, handler).await.unwrap_err();
        assert_eq!(refused.code(), tonic::Code::Internal);
    }

    #[tokio::test]
    async fn dropping_the_answer_raises_the_flag() {
        let (sender, receiver) = tokio::sync::oneshot::channel();
        let handler = async |context: RequestContext, _: u8| -> Result<u8> {
            sender.send(context.cancellation().clone()).unwrap();
            std::future::pending().await
        };
        let task = tokio::spawn(async move { answer(request(Role::Reader), Role::Reader, handler).await });
        let cancellation = receiver.await.unwrap();
        assert!(!cancellation.is_cancelled());
        task.abort();
        assert!(task.await.unwrap_err().is_cancelled());
        assert!(cancellation.is_cancelled());
    }
}
