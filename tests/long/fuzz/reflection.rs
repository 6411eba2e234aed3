//! The methods of a server, as its reflection service tells them.

use std::collections::BTreeMap;

use prost::Message;
use prost_reflect::{DescriptorPool, MethodDescriptor};
use prost_types::{FileDescriptorProto, FileDescriptorSet};
use tokio_stream::StreamExt;
use toller_tests::client::{Client, Service};
use tonic_reflection::pb::v1::ServerReflectionRequest;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;

/// Every unary method of every service, but for those of gRPC itself.
pub async fn unary_methods(client: &Client) -> Vec<MethodDescriptor> {
    let mut reflection = ServerReflectionClient::new(client.service());
    let MessageResponse::ListServicesResponse(list) =
        ask(&mut reflection, MessageRequest::ListServices(String::new())).await
    else {
        panic!("no list of services")
    };
    let services: Vec<String> =
        list.service.into_iter().map(|service| service.name).filter(|name| !name.starts_with("grpc.")).collect();

    let mut files = BTreeMap::<String, FileDescriptorProto>::new();
    let mut wanted: Vec<MessageRequest> = services.iter().cloned().map(MessageRequest::FileContainingSymbol).collect();
    while let Some(request) = wanted.pop() {
        let MessageResponse::FileDescriptorResponse(answer) = ask(&mut reflection, request.clone()).await else {
            panic!("no file for {request:?}")
        };
        for file in answer.file_descriptor_proto {
            let file = FileDescriptorProto::decode(file.as_slice()).expect("a descriptor");
            files.insert(file.name().to_owned(), file);
        }
        let missing = files.values().flat_map(|file| &file.dependency).find(|name| !files.contains_key(*name));
        wanted.extend(missing.cloned().map(MessageRequest::FileByFilename));
    }
    let set = FileDescriptorSet { file: files.into_values().collect() };
    let pool = DescriptorPool::from_file_descriptor_set(set).expect("the descriptors belong together");
    let mut methods = Vec::new();
    for service in services {
        let service = pool.get_service_by_name(&service).expect("its file has the service");
        methods
            .extend(service.methods().filter(|method| !method.is_client_streaming() && !method.is_server_streaming()));
    }
    methods
}

async fn ask(reflection: &mut ServerReflectionClient<Service>, request: MessageRequest) -> MessageResponse {
    let request = ServerReflectionRequest { host: String::new(), message_request: Some(request) };
    let mut answers =
        reflection.server_reflection_info(tokio_stream::once(request)).await.expect("reflection").into_inner();
    answers.next().await.expect("an answer").expect("an answer").message_response.expect("an answer")
}
