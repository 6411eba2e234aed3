//! Services of which only a part is served.

use tonic::Status;

/// Implements a service: some calls as written, all others as UNIMPLEMENTED with their names.
macro_rules! service {
    (impl $service:ident for $type:ty { $($served:tt)* } others { $($name:ident($request:ty) -> $response:ty;)* }) => {
        #[tonic::async_trait]
        impl $service for $type {
            $($served)*
            $(
                async fn $name(
                    &self,
                    _: tonic::Request<$request>,
                ) -> Result<tonic::Response<$response>, tonic::Status> {
                    Err($crate::service::not_served(concat!(stringify!($service), ".", stringify!($name))))
                }
            )*
        }
    };
}
pub(crate) use service;

/// What this server does not do.
pub(crate) fn not_served(what: &str) -> Status {
    Status::unimplemented(format!("the server for tests does not serve {what}"))
}
