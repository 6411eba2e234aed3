//! Servers on real sockets: deadlines, keys, limits, panics, drain, errors and reflection.
#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test may panic")]

mod echo;

use std::time::Duration;

use echo::{Client, Running, SOON, missing};
use toller_core::{Role, Tenant};
use toller_serving::auth::{ApiKeys, hash_key};
use toller_serving::server::ServerConfig;
use toller_serving::status::RETRY_PUSHBACK;
use tonic::Code;
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::health_client::HealthClient;
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};
use tonic_types::StatusExt;

/// `x` in gRPC's framing.
const MESSAGE: &[u8] = b"\0\0\0\0\x03\x0a\x01x";

fn health(client: &Client) -> HealthClient<echo::Connection> {
    HealthClient::with_origin(client.connection.clone(), client.origin.clone())
}

fn of_service(service: &str) -> HealthCheckRequest {
    HealthCheckRequest { service: service.to_owned() }
}

async fn next_health(stream: &mut tonic::Streaming<HealthCheckResponse>) -> Result<ServingStatus, tonic::Status> {
    let message = tokio::time::timeout(SOON, stream.message()).await.unwrap()?;
    Ok(message.unwrap().status())
}

#[tokio::test]
async fn a_passed_deadline_is_deadline_exceeded_and_never_cancelled() {
    let mut server = Running::start(ServerConfig::default()).await;
    let client = Client::connect(server.address).await.unwrap();
    for timeout in ["0m", "900u", "10m", "60m"] {
        for _ in 0..5 {
            let status = client.with("grpc-timeout", timeout).call("hold").await.unwrap_err();
            assert_eq!(status.code(), Code::DeadlineExceeded, "{timeout}: {status}");
            assert_eq!(status.get_details_error_info().unwrap().reason, "DEADLINE_EXCEEDED");
        }
    }
    let call = tokio::spawn(async move { client.with("grpc-timeout", "3S").call("hold").await });
    let held = loop {
        // Those before may have held too; the last one is the one whose flag is down.
        let held = server.next_held().await;
        if !held.cancellation.is_cancelled() {
            break held;
        }
    };
    assert_eq!(call.await.unwrap().unwrap_err().code(), Code::DeadlineExceeded);
    tokio::time::timeout(SOON, held.gone).await.unwrap().unwrap_err();
    assert!(held.cancellation.is_cancelled());
}

#[tokio::test]
async fn calls_without_a_deadline_get_the_default_and_long_ones_are_brought_forward() {
    let short = Duration::from_millis(300);
    let config = ServerConfig { default_deadline: short, max_deadline: short, ..ServerConfig::default() };
    let server = Running::start(config).await;
    let client = Client::connect(server.address).await.unwrap();
    assert_eq!(client.call("hold").await.unwrap_err().code(), Code::DeadlineExceeded);
    assert_eq!(client.with("grpc-timeout", "1H").call("hold").await.unwrap_err().code(), Code::DeadlineExceeded);
    let in_time = async {
        loop {
            match client.call("in time").await {
                Ok(answer) => break answer,
                Err(status) => assert_eq!(status.code(), Code::DeadlineExceeded),
            }
        }
    };
    assert_eq!(tokio::time::timeout(SOON, in_time).await.unwrap(), "in time");
}

#[tokio::test]
async fn a_malformed_deadline_names_its_header() {
    let server = Running::start(ServerConfig::default()).await;
    let client = Client::connect(server.address).await.unwrap();
    for malformed in ["soon", "10s", "123456789m", "-1m"] {
        let status = client.with("grpc-timeout", malformed).call("x").await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument, "{malformed}");
        assert_eq!(status.get_details_bad_request().unwrap().field_violations[0].field, "grpc-timeout");
    }
}

#[tokio::test]
async fn a_message_that_cannot_be_read_is_its_callers_fault() {
    let server = Running::start(ServerConfig::default()).await;
    let client = Client::connect(server.address).await.unwrap();
    let mut grpc = tonic::client::Grpc::with_origin(client.connection.clone(), client.origin.clone());
    grpc.ready().await.unwrap();
    let path = http::uri::PathAndQuery::from_static("/test.Echo/Call");
    // Bytes where the service takes a string, which must be UTF-8.
    let codec = tonic_prost::ProstCodec::<Vec<u8>, String>::default();
    let status = grpc.unary(tonic::Request::new(vec![0xff]), path, codec).await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument, "{status}");
    assert_eq!(status.get_details_error_info().unwrap().reason, "INVALID_ARGUMENT");
    assert!(status.message().contains("cannot be read") && status.message().contains("UTF-8"), "{status}");
    // The server's own faults stay what they are.
    assert_eq!(client.call("panic").await.unwrap_err().code(), Code::Internal);
    assert_eq!(client.call("x").await.unwrap(), "x");
}

#[tokio::test]
async fn a_deadline_ends_a_stream_too() {
    let server = Running::start(ServerConfig::default()).await;
    let client = Client::connect(server.address).await.unwrap();
    let mut stream = client.with("grpc-timeout", "3S").stream("first").await.unwrap();
    assert_eq!(stream.message().await.unwrap().unwrap(), "first");
    let ended = tokio::time::timeout(SOON, stream.message()).await.unwrap().unwrap_err();
    assert_eq!(ended.code(), Code::DeadlineExceeded);
}

#[tokio::test]
async fn a_key_gives_the_principal_and_no_key_no_entry() {
    let mut keys = ApiKeys::default();
    keys.add("web", &hash_key("secret"), Tenant::new("acme").unwrap(), Role::Writer).unwrap();
    let server = Running::start(ServerConfig { keys, ..ServerConfig::default() }).await;
    let client = Client::connect(server.address).await.unwrap();
    assert_eq!(client.with("authorization", "Bearer secret").call("whoami").await.unwrap(), "web acme writer");
    assert_eq!(client.with("x-api-key", "secret").call("whoami").await.unwrap(), "web acme writer");

    let without = client.call("whoami").await.unwrap_err();
    assert_eq!(without.code(), Code::Unauthenticated);
    assert!(without.message().contains("authorization: Bearer <key>"), "{without}");
    let wrong = client.with("x-api-key", "Secret").call("whoami").await.unwrap_err();
    assert_eq!(wrong.code(), Code::Unauthenticated);
    // A stranger does not learn which methods there are.
    let unknown = client.call_path("/test.Echo/Nothing", "").await.unwrap_err();
    assert_eq!(unknown.code(), Code::Unauthenticated);

    let open = health(&client).check(of_service("test.Echo")).await.unwrap();
    assert_eq!(open.into_inner().status(), ServingStatus::Serving);
    assert!(reflected_services(&client).await.contains(&"test.Echo".to_owned()));
}

#[tokio::test]
async fn without_keys_everybody_is_anonymous() {
    let server = Running::start(ServerConfig::default()).await;
    let client = Client::connect(server.address).await.unwrap();
    assert_eq!(client.call("whoami").await.unwrap(), "anonymous default admin");
}

#[tokio::test]
async fn a_call_over_the_limit_is_refused_at_once_with_a_time_to_retry() {
    let mut server = Running::start(ServerConfig { max_concurrent_requests: 1, ..ServerConfig::default() }).await;
    let client = Client::connect(server.address).await.unwrap();
    let first = tokio::spawn({
        let client = client.clone();
        async move { client.call("hold").await }
    });
    let held = server.next_held().await;

    let refused = client.call("x").await.unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted);
    let delay = refused.get_details_retry_info().unwrap().retry_delay.unwrap();
    assert_eq!(refused.metadata().get(RETRY_PUSHBACK).unwrap(), &delay.as_millis().to_string());
    assert_eq!(refused.get_details_quota_failure().unwrap().violations.len(), 1);
    let open = health(&client).check(of_service("")).await.unwrap();
    assert_eq!(open.into_inner().status(), ServingStatus::Serving);

    held.release.send(()).unwrap();
    assert_eq!(first.await.unwrap().unwrap(), "released");
    // Its place is free a moment after its answer.
    let freed = async { while client.call("x").await.is_err() {} };
    tokio::time::timeout(SOON, freed).await.unwrap();

    // A stream keeps its place until it ends.
    let stream = client.stream("x").await.unwrap();
    assert_eq!(client.call("x").await.unwrap_err().code(), Code::ResourceExhausted);
    drop(stream);
    let freed = async { while client.call("x").await.is_err() {} };
    tokio::time::timeout(SOON, freed).await.unwrap();
}

#[tokio::test]
async fn a_panic_is_internal_and_the_connection_lives_on() {
    let server = Running::start(ServerConfig::default()).await;
    let client = Client::connect(server.address).await.unwrap();
    let panicked = client.call("panic").await.unwrap_err();
    assert_eq!(panicked.code(), Code::Internal);
    assert!(!panicked.message().contains("as asked"), "{panicked}");

    let mut stream = client.stream("panic").await.unwrap();
    assert_eq!(stream.message().await.unwrap().unwrap(), "panic");
    assert_eq!(stream.message().await.unwrap_err().code(), Code::Internal);

    assert_eq!(client.call("still here").await.unwrap(), "still here");
}

#[tokio::test]
async fn an_error_arrives_with_all_its_details() {
    let server = Running::start(ServerConfig::default()).await;
    let client = Client::connect(server.address).await.unwrap();
    let status = client.call("missing").await.unwrap_err();
    assert_eq!((status.code(), status.message()), (Code::NotFound, missing().message()));
    let resource = status.get_details_resource_info().unwrap();
    assert_eq!((resource.resource_type.as_str(), resource.resource_name.as_str()), ("collection", "docs"));
    let info = status.get_details_error_info().unwrap();
    assert_eq!((info.reason.as_str(), info.domain.as_str()), ("NOT_FOUND", "toller"));
    assert_eq!(info.metadata, missing().get_details_error_info().unwrap().metadata);
}

#[tokio::test]
async fn a_method_that_is_not_there_is_named() {
    let server = Running::start(ServerConfig::default()).await;
    let client = Client::connect(server.address).await.unwrap();
    let unknown = client.call_path("/nobody.Knows/This", "").await.unwrap_err();
    assert_eq!(unknown.code(), Code::Unimplemented);
    assert!(unknown.message().contains("does not have the method nobody.Knows/This"), "{unknown}");
    let info = unknown.get_details_error_info().unwrap();
    assert_eq!((info.reason.as_str(), info.domain.as_str()), ("UNIMPLEMENTED", "toller"));
    assert_eq!(info.metadata["method"], "nobody.Knows/This");
    // Whatever has a message keeps it.
    let own = client.call_path("/test.Echo/Nothing", "").await.unwrap_err();
    assert_eq!((own.code(), own.message()), (Code::Unimplemented, "no such method"));
    assert_eq!(own.get_details_error_info().unwrap().reason, "UNIMPLEMENTED");
}

#[tokio::test]
async fn bulk_calls_leave_room_for_others() {
    let mut server = Running::start(ServerConfig { max_concurrent_requests: 2, ..ServerConfig::default() }).await;
    let client = Client::connect(server.address).await.unwrap();
    let stream = client.stream("x").await.unwrap();
    let refused = client.stream("x").await.unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted);
    assert!(refused.message().contains("1 bulk calls already, which is their limit"), "{refused}");
    assert!(refused.get_details_retry_info().unwrap().retry_delay.is_some());

    assert_eq!(client.call("x").await.unwrap(), "x");
    // The place of a call is free a moment after its answer.
    let other = tokio::spawn({
        let client = client.clone();
        async move { while client.call("hold").await.is_err() {} }
    });
    let held = server.next_held().await;
    let refused = client.call("x").await.unwrap_err();
    assert!(refused.message().contains("2 calls already, which is its limit"), "{refused}");

    // A bulk call that is refused for the sake of all calls takes nothing from the bulk calls.
    drop(stream);
    let second = tokio::spawn({
        let client = client.clone();
        async move { while client.call("hold").await.is_err() {} }
    });
    let second_held = server.next_held().await;
    assert!(client.stream("x").await.unwrap_err().message().contains("2 calls already"));
    second_held.release.send(()).unwrap();
    second.await.unwrap();
    let freed = async { while client.stream("x").await.is_err() {} };
    tokio::time::timeout(SOON, freed).await.unwrap();
    held.release.send(()).unwrap();
    other.await.unwrap();
}

#[tokio::test]
async fn a_bulk_method_that_nobody_has_keeps_a_server_from_starting() {
    let listener = toller_serving::server::bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let server = toller_serving::server::Server::new(ServerConfig::default()).bulk_methods(&["test.Echo/Strem"]);
    let error = server.serve(listener, std::future::pending(), || ()).await.unwrap_err().to_string();
    assert!(error.contains("test.Echo/Strem"), "{error}");
}

#[tokio::test]
async fn a_request_that_does_not_arrive_is_ended_long_before_its_deadline() {
    let config = ServerConfig {
        max_concurrent_requests: 1,
        body_timeout: Duration::from_millis(200),
        ..ServerConfig::default()
    };
    let server = Running::start(config).await;
    let client = Client::connect(server.address).await.unwrap();
    // The beginning of "x", whose length is 3.
    let beginnings: [&[&'static [u8]]; 3] = [&[], &[b"\0"], &[b"\0\0\0\0\x03", b"\x0a\x01"]];
    for parts in beginnings {
        let unfinished = client.with("grpc-timeout", "600S");
        let answer = tokio::time::timeout(SOON, unfinished.send_unfinished("/test.Echo/Call", parts)).await;
        let status = tonic::Status::from_header_map(answer.unwrap().unwrap().headers()).unwrap();
        assert_eq!(status.code(), Code::DeadlineExceeded, "{parts:?}: {status}");
        assert_eq!(status.get_details_error_info().unwrap().reason, "DEADLINE_EXCEEDED");
        assert!(status.message().contains("before the request was complete"), "{status}");
        // Its place is free again; the next request may be late too.
        let freed = async { while client.call("x").await.is_err() {} };
        tokio::time::timeout(SOON, freed).await.unwrap();
    }
}

#[tokio::test]
async fn a_drain_does_not_wait_for_requests_that_have_not_begun() {
    let config = ServerConfig {
        body_timeout: Duration::from_secs(3600),
        drain_timeout: Duration::from_secs(3600),
        max_concurrent_requests: 1,
        ..ServerConfig::default()
    };
    let mut server = Running::start(config).await;
    let client = Client::connect(server.address).await.unwrap();
    let silent = client.with("grpc-timeout", "600S");
    let silent = tokio::spawn(async move { silent.send_unfinished("/test.Echo/Call", &[]).await });
    // It has arrived once it holds the only place.
    let arrived = async { while client.call("x").await.is_ok() {} };
    tokio::time::timeout(SOON, arrived).await.unwrap();
    server.request_shutdown();
    let answer = tokio::time::timeout(SOON, silent).await.unwrap().unwrap().unwrap();
    assert_eq!(tonic::Status::from_header_map(answer.headers()).unwrap().code(), Code::Unavailable);
    server.ended().await;
}

#[tokio::test]
async fn an_answer_that_is_not_read_ends_with_its_connection() {
    let server = Running::start(ServerConfig { max_concurrent_requests: 1, ..ServerConfig::default() }).await;
    let client = Client::connect(server.address).await.unwrap();
    let idle = Client::connect_without_reading(server.address).await.unwrap();
    let answer = idle.with("grpc-timeout", "3S").send("/test.Echo/Stream", MESSAGE).await.unwrap();
    assert!(answer.headers().get("grpc-status").is_none(), "the headers of an answer with a body");
    assert_eq!(client.call("x").await.unwrap_err().code(), Code::ResourceExhausted);

    let mut body = std::pin::pin!(answer.into_body());
    let read = std::future::poll_fn(|context| http_body::Body::poll_frame(body.as_mut(), context));
    let read = tokio::time::timeout(SOON, read).await.unwrap();
    assert!(read.is_some_and(|frame| frame.is_err()), "the connection is closed");
    let freed = async { while client.call("x").await.is_err() {} };
    tokio::time::timeout(SOON, freed).await.unwrap();
}

#[tokio::test]
async fn connections_over_the_limit_are_closed_at_once() {
    let server = Running::start(ServerConfig { max_connections: 1, ..ServerConfig::default() }).await;
    let first = Client::connect(server.address).await.unwrap();
    assert_eq!(first.call("x").await.unwrap(), "x");
    let mut second = tokio::net::TcpStream::connect(server.address).await.unwrap();
    let mut byte = [0; 1];
    let read = tokio::io::AsyncReadExt::read(&mut second, &mut byte);
    let read = tokio::time::timeout(SOON, read).await.unwrap();
    assert!(matches!(read, Ok(0) | Err(_)), "{read:?}");
    assert_eq!(first.call("still here").await.unwrap(), "still here");

    // Whoever goes makes room.
    drop(first);
    let next = async {
        loop {
            let client = Client::connect(server.address).await.unwrap();
            if client.send("/test.Echo/Stream", MESSAGE).await.is_ok() {
                break;
            }
        }
    };
    tokio::time::timeout(SOON, next).await.unwrap();
}

#[tokio::test]
async fn a_drain_says_so_first_serves_on_then_refuses_and_lets_calls_finish() {
    let config = ServerConfig {
        drain_grace: Duration::from_secs(5),
        drain_timeout: Duration::from_secs(60),
        ..ServerConfig::default()
    };
    let mut server = Running::start(config).await;
    let address = server.address;
    let client = Client::connect(address).await.unwrap();
    let mut whole = health(&client).watch(of_service("")).await.unwrap().into_inner();
    let mut echo = health(&client).watch(of_service("test.Echo")).await.unwrap().into_inner();
    assert_eq!(next_health(&mut whole).await.unwrap(), ServingStatus::Serving);
    assert_eq!(next_health(&mut echo).await.unwrap(), ServingStatus::Serving);
    let running = tokio::spawn(async move { client.call("hold").await });
    let held = server.next_held().await;

    server.request_shutdown();
    assert_eq!(next_health(&mut echo).await.unwrap(), ServingStatus::NotServing);
    assert_eq!(next_health(&mut whole).await.unwrap(), ServingStatus::NotServing);
    // Within the grace even new connections are served.
    let late = Client::connect(address).await.unwrap();
    assert_eq!(late.call("late").await.unwrap(), "late");

    // Then watches end, which would hold up the drain for ever, and nobody new gets in, while the running call goes on.
    assert_eq!(next_health(&mut whole).await.unwrap_err().code(), Code::Unavailable);
    let refused = async { while Client::connect(address).await.is_ok() {} };
    tokio::time::timeout(SOON, refused).await.unwrap();
    assert!(!held.cancellation.is_cancelled());
    held.release.send(()).unwrap();
    assert_eq!(running.await.unwrap().unwrap(), "released");
    server.ended().await;
}

#[tokio::test]
async fn calls_that_outlast_the_drain_are_cut_off_as_unavailable() {
    let config = ServerConfig { drain_timeout: Duration::from_millis(50), ..ServerConfig::default() };
    let mut server = Running::start(config).await;
    let client = Client::connect(server.address).await.unwrap();
    let mut stream = client.stream("first").await.unwrap();
    assert_eq!(stream.message().await.unwrap().unwrap(), "first");
    let running = tokio::spawn(async move { client.call("hold").await });
    let held = server.next_held().await;

    server.request_shutdown();
    assert_eq!(running.await.unwrap().unwrap_err().code(), Code::Unavailable);
    assert_eq!(stream.message().await.unwrap_err().code(), Code::Unavailable);
    tokio::time::timeout(SOON, held.gone).await.unwrap().unwrap_err();
    assert!(held.cancellation.is_cancelled());
    server.ended().await;
}

#[tokio::test]
async fn a_caller_that_goes_away_raises_the_flag() {
    let mut server = Running::start(ServerConfig::default()).await;
    let client = Client::connect(server.address).await.unwrap();
    let call = tokio::spawn(async move { client.call("hold").await });
    let held = server.next_held().await;
    call.abort();
    tokio::time::timeout(SOON, held.gone).await.unwrap().unwrap_err();
    assert!(held.cancellation.is_cancelled());
}

/// Names of the services that both versions of reflection list.
async fn reflected_services(client: &Client) -> Vec<String> {
    use tonic_reflection::pb::{v1, v1alpha};
    let query = v1::ServerReflectionRequest {
        host: String::new(),
        message_request: Some(v1::server_reflection_request::MessageRequest::ListServices(String::new())),
    };
    let mut reflection = v1::server_reflection_client::ServerReflectionClient::with_origin(
        client.connection.clone(),
        client.origin.clone(),
    );
    let answers = reflection.server_reflection_info(tokio_stream::iter([query])).await.unwrap();
    let answer = answers.into_inner().message().await.unwrap().unwrap().message_response.unwrap();
    let v1::server_reflection_response::MessageResponse::ListServicesResponse(list) = answer else {
        panic!("{answer:?}");
    };
    let names: Vec<String> = list.service.into_iter().map(|service| service.name).collect();

    let query = v1alpha::ServerReflectionRequest {
        host: String::new(),
        message_request: Some(v1alpha::server_reflection_request::MessageRequest::ListServices(String::new())),
    };
    let mut reflection = v1alpha::server_reflection_client::ServerReflectionClient::with_origin(
        client.connection.clone(),
        client.origin.clone(),
    );
    let answers = reflection.server_reflection_info(tokio_stream::iter([query])).await.unwrap();
    let answer = answers.into_inner().message().await.unwrap().unwrap().message_response.unwrap();
    let v1alpha::server_reflection_response::MessageResponse::ListServicesResponse(list) = answer else {
        panic!("{answer:?}");
    };
    for name in ["test.Echo", "grpc.health.v1.Health"] {
        assert!(names.iter().any(|listed| listed == name), "{names:?}");
        assert!(list.service.iter().any(|listed| listed.name == name), "{list:?}");
    }
    names
}

#[tokio::test]
async fn reflection_lists_the_services_in_both_versions() {
    let server = Running::start(ServerConfig::default()).await;
    let client = Client::connect(server.address).await.unwrap();
    reflected_services(&client).await;
}
