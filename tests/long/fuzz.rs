//! Random bytes, mutated messages and structurally random messages for every unary RPC that reflection shows, wrong framing
//! around good messages, and garbage on raw connections. The server must answer every well-formed HTTP/2 call with a status that
//! does not blame itself, never end, and serve everybody else as before.

mod known;
mod messages;
mod mutation;
mod reflection;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use fastrand::Rng;
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use prost::Message;
use prost::bytes::{Buf, BufMut};
use prost_reflect::{DynamicMessage, MethodDescriptor};
use tokio::task::JoinSet;
use tokio::time::timeout;
use toller_tests::PATIENCE;
use toller_tests::client::{Client, PlainService, Service, plain_http};
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::{Code, Request, Status};

use crate::run::Run;
use crate::{process, raw_http2};
pub use known::KEY_OF_THE_FUZZER;
use known::Known;
use messages::{Messages, Taste};

/// Calls at a time.
const CALLERS: u64 = 6;

/// Calls of a caller between two looks at whether everybody else is served as before.
const CALLS_PER_CHECK: u64 = 500;

/// Most memory that a server may keep after all of this.
const MAX_MEMORY_KIB: u64 = 256 * 1024;

/// Most bytes of a message that a failed test shows.
const SHOWN_BYTES: usize = 4096;

/// How a call came to its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Recipe {
    Random,
    Plausible,
    Nasty,
    Mutated,
    Deep,
}

/// What became of the calls of one method.
#[derive(Debug, Default, Clone)]
struct Tally {
    codes: BTreeMap<String, u64>,
    slowest: Duration,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "long: run with make test-long"]
async fn fuzz_messages() {
    let run = Run::start("fuzz_messages");
    let known = Known::start().await;
    let methods = Arc::new(reflection::unary_methods(&known.client().await).await);
    run.say(format_args!("{} unary methods", methods.len()));
    assert!(!methods.is_empty());

    let known = Arc::new(known);
    let memory_before = process::resident_kib(known.server.id());
    let mut callers = JoinSet::new();
    for number in 0..CALLERS {
        let caller = Caller {
            number,
            random: run.random(number),
            known: Arc::clone(&known),
            methods: Arc::clone(&methods),
            tallies: BTreeMap::new(),
        };
        callers.spawn(caller.work(Arc::clone(&run)));
    }
    let mut tallies = BTreeMap::<String, Tally>::new();
    while let Some(finished) = callers.join_next().await {
        for (method, tally) in finished.expect("a call found a fault") {
            let sum = tallies.entry(method).or_default();
            sum.slowest = sum.slowest.max(tally.slowest);
            for (code, count) in tally.codes {
                *sum.codes.entry(code).or_default() += count;
            }
        }
    }
    known.is_served().await;
    known.reset().await;
    let memory = process::resident_kib(known.server.id());
    run.say(format_args!("resident memory: {memory_before} KiB before, {memory} KiB after"));
    assert!(memory < memory_before + MAX_MEMORY_KIB, "resident memory went from {memory_before} to {memory} KiB");
    for (method, tally) in &tallies {
        run.say(format_args!("{method}: {:?}, slowest {:?}", tally.codes, tally.slowest));
    }
    // Messages that are all refused would test nothing behind the first check.
    if run.steps() > 200 * methods.len() as u64 {
        for method in methods.iter() {
            let successes = tallies.get(method.full_name()).and_then(|tally| tally.codes.get("Ok"));
            assert!(successes.is_some(), "no call of {} succeeded", method.full_name());
        }
    }
    Arc::into_inner(known).expect("all callers are done").stop().await;
}

struct Caller {
    number: u64,
    random: Rng,
    known: Arc<Known>,
    methods: Arc<Vec<MethodDescriptor>>,
    tallies: BTreeMap<String, Tally>,
}

impl Caller {
    async fn work(mut self, run: Arc<Run>) -> BTreeMap<String, Tally> {
        let client = self.known.fuzzer().await;
        let mut calls = 0_u64;
        while run.step() {
            let method = self.methods[self.random.usize(..self.methods.len())].clone();
            let (recipe, message) = self.message(&method);
            self.call(&client, &method, recipe, message).await;
            calls += 1;
            if calls.is_multiple_of(CALLS_PER_CHECK) {
                self.known.is_served().await;
                if self.number == 0 {
                    self.known.reset().await;
                }
            }
        }
        self.tallies
    }

    fn message(&mut self, method: &MethodDescriptor) -> (Recipe, Vec<u8>) {
        let recipes = [
            Recipe::Random,
            Recipe::Plausible,
            Recipe::Nasty,
            Recipe::Nasty,
            Recipe::Mutated,
            Recipe::Mutated,
            Recipe::Deep,
        ];
        let recipe = recipes[self.random.usize(..recipes.len())];
        let random = &mut self.random;
        let message = match recipe {
            Recipe::Random => {
                let longest = 1 << random.u32(..16);
                let mut bytes = vec![0; random.usize(..longest)];
                random.fill(&mut bytes);
                bytes
            }
            Recipe::Plausible => Messages { random, taste: Taste::Plausible }.message(&method.input()).encode_to_vec(),
            Recipe::Nasty => Messages { random, taste: Taste::Nasty }.message(&method.input()).encode_to_vec(),
            Recipe::Mutated => {
                let message = Messages { random, taste: Taste::Plausible }.message(&method.input()).encode_to_vec();
                mutation::mutate(random, message)
            }
            Recipe::Deep => mutation::deep(random, &method.input()),
        };
        (recipe, message)
    }

    async fn call(&mut self, client: &Client, method: &MethodDescriptor, recipe: Recipe, message: Vec<u8>) {
        let started = Instant::now();
        let answer = unary(client, method, message.clone()).await;
        let elapsed = started.elapsed();
        let (code, fault) = match answer {
            Ok(bytes) => match DynamicMessage::decode(method.output(), bytes.as_slice()) {
                Ok(answer) if answer.unknown_fields().next().is_none() => (Code::Ok, None),
                Ok(_) => (Code::Ok, Some("the answer has unknown fields".to_owned())),
                Err(error) => (Code::Ok, Some(format!("the answer cannot be read: {error}"))),
            },
            Err(status) => (status.code(), fault_of(&status)),
        };
        if let Some(fault) = fault {
            let shown: String = message.iter().take(SHOWN_BYTES).map(|byte| format!("{byte:02x}")).collect();
            panic!("{} ({recipe:?}, {} bytes): {fault}\n{shown}", method.full_name(), message.len());
        }
        let tally = self.tallies.entry(method.full_name().to_owned()).or_default();
        *tally.codes.entry(format!("{code:?}")).or_default() += 1;
        tally.slowest = tally.slowest.max(elapsed);
    }
}

/// What is wrong with a refusal; nothing when it tells the caller what is wrong with his call.
fn fault_of(status: &Status) -> Option<String> {
    let is_honest = matches!(
        status.code(),
        Code::InvalidArgument
            | Code::NotFound
            | Code::AlreadyExists
            | Code::FailedPrecondition
            | Code::Aborted
            | Code::OutOfRange
            | Code::ResourceExhausted
            | Code::DeadlineExceeded
    );
    (!is_honest || status.message().is_empty()).then(|| format!("{status:?}"))
}

/// Calls a method with any bytes as the message.
async fn unary(client: &Client, method: &MethodDescriptor, message: Vec<u8>) -> Result<Vec<u8>, Status> {
    let service: Service = client.service();
    let mut grpc = tonic::client::Grpc::new(service).max_decoding_message_size(64 << 20);
    grpc.ready().await.map_err(|error| Status::unknown(format!("the connection broke: {error}")))?;
    let path = path(method).parse().expect("a path");
    Ok(grpc.unary(Request::new(message), path, AnyBytes).await?.into_inner())
}

fn path(method: &MethodDescriptor) -> String {
    format!("/{}/{}", method.parent_service().full_name(), method.name())
}

/// Messages as they are.
#[derive(Debug, Clone, Copy)]
struct AnyBytes;

impl Codec for AnyBytes {
    type Encode = Vec<u8>;
    type Decode = Vec<u8>;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for AnyBytes {
    type Item = Vec<u8>;
    type Error = Status;

    fn encode(&mut self, message: Vec<u8>, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.put_slice(&message);
        Ok(())
    }
}

impl Decoder for AnyBytes {
    type Item = Vec<u8>;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<Vec<u8>>, Status> {
        Ok(Some(buffer.copy_to_bytes(buffer.remaining()).to_vec()))
    }
}

/// A good HTTP/2 request whose body or headers are no good gRPC.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "long: run with make test-long"]
async fn fuzz_framing() {
    let run = Run::start("fuzz_framing");
    let known = Known::start().await;
    let methods = reflection::unary_methods(&known.client().await).await;
    let http = plain_http();
    let mut random = run.random(0);
    let mut codes = BTreeMap::<String, u64>::new();
    while run.step() {
        let method = &methods[random.usize(..methods.len())];
        let request = framed(&mut random, &known.server.url(), method);
        let shown = format!("{} {:?}", request.uri(), request.headers());
        let status = timeout(PATIENCE, http_call(&http, request)).await;
        let status = status.unwrap_or_else(|_| panic!("{shown} was not answered"));
        let code = match status {
            Outcome::Grpc(status) => {
                let is_plain_refusal = matches!(status.code(), Code::Ok | Code::Unimplemented | Code::Unauthenticated);
                let fault = if is_plain_refusal { None } else { fault_of(&status) };
                assert_eq!(fault, None, "{shown}");
                format!("{:?}", status.code())
            }
            // What is no gRPC at all.
            Outcome::Http(code) => {
                assert!((400..500).contains(&code), "HTTP {code}: {shown}");
                format!("HTTP {code}")
            }
        };
        *codes.entry(code).or_default() += 1;
        if run.steps().is_multiple_of(CALLS_PER_CHECK) {
            known.is_served().await;
            known.reset().await;
        }
    }
    run.say(format_args!("{codes:?}"));
    known.is_served().await;
    known.stop().await;
}

enum Outcome {
    Grpc(Status),
    Http(u16),
}

async fn http_call(http: &PlainService<Full<Bytes>>, request: hyper::Request<Full<Bytes>>) -> Outcome {
    let answer = http.request(request).await.expect("the server answers");
    if answer.status() != hyper::StatusCode::OK {
        return Outcome::Http(answer.status().as_u16());
    }
    if let Some(status) = Status::from_header_map(answer.headers()) {
        return Outcome::Grpc(status);
    }
    let body = answer.into_body().collect().await.expect("the answer is whole");
    let status = body.trailers().and_then(Status::from_header_map).expect("the answer has a status");
    Outcome::Grpc(status)
}

/// A good message in a frame that is wrong in one way or another, or that comes with headers that are.
fn framed(random: &mut Rng, url: &str, method: &MethodDescriptor) -> hyper::Request<Full<Bytes>> {
    let message = Messages { random, taste: Taste::Plausible }.message(&method.input()).encode_to_vec();
    let mut length = message.len() as u32;
    let mut flag = 0;
    let mut copies = 1;
    let mut content_type = "application/grpc".to_owned();
    let mut extra: Vec<(String, Vec<u8>)> = Vec::new();
    let mut cut = usize::MAX;
    let nasty = |random: &mut Rng| (0..random.usize(..40)).map(|_| random.u8(0x21..0x7f)).collect::<Vec<u8>>();
    match random.u32(..12) {
        0 => flag = random.u8(..),
        1 => length = [0, 1, u32::MAX, 1 << 24, 1 << 31, length + 1, length.saturating_sub(1)][random.usize(..7)],
        2 => copies = random.usize(..4),
        3 => cut = random.usize(..=message.len() + 5),
        4 => {
            flag = 1;
            let encodings = ["gzip", "zstd", "identity", "deflate", "br", "", "gzip,gzip"];
            extra.push(("grpc-encoding".to_owned(), encodings[random.usize(..encodings.len())].into()));
        }
        5 => {
            let types = [
                "application/grpc+json",
                "application/grpc-web",
                "text/plain",
                "",
                "application/grpc+proto",
                "application/json",
            ];
            content_type = types[random.usize(..types.len())].to_owned();
        }
        6 => {
            let timeouts = ["1H", "99999999H", "", "0n", "1n", "-1S", "1e3S", "999999999S", "\u{7f}", "5 S", "١S"];
            extra.push(("grpc-timeout".to_owned(), timeouts[random.usize(..timeouts.len())].into()));
        }
        7 => extra.push(("grpc-accept-encoding".to_owned(), nasty(random))),
        8 => {
            let traces = [
                "00-00000000000000000000000000000000-0000000000000000-00",
                "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
                "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-zz",
                "é",
                "-",
            ];
            extra.push(("traceparent".to_owned(), traces[random.usize(..traces.len())].into()));
            extra.push(("tracestate".to_owned(), nasty(random)));
        }
        9 => extra.push(("authorization".to_owned(), nasty(random))),
        10 => extra.extend((0..random.usize(..60)).map(|number| (format!("x-{number}-bin"), nasty(random)))),
        _ => extra.push(("x-long".to_owned(), vec![b'a'; random.usize(..12_000)])),
    }
    let mut body = Vec::new();
    for _ in 0..copies {
        body.push(flag);
        body.extend(length.to_be_bytes());
        body.extend(&message);
    }
    body.truncate(cut);
    let mut request = hyper::Request::post(format!("{url}{}", path(method)))
        .header("content-type", content_type)
        .header("te", "trailers");
    if !extra.iter().any(|(name, _)| name == "authorization") {
        request = request.header("authorization", format!("Bearer {KEY_OF_THE_FUZZER}"));
    }
    for (name, value) in extra {
        if let Ok(value) = hyper::header::HeaderValue::from_bytes(&value) {
            request = request.header(name, value);
        }
    }
    request.body(Full::new(Bytes::from(body))).expect("a request")
}

/// Connections that speak bad HTTP/2, or none.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "long: run with make test-long"]
async fn fuzz_connections() {
    let run = Run::start("fuzz_connections");
    let known = Known::start().await;
    let process = known.server.id();
    known.is_served().await;
    let files_before = process::open_files(process);
    let memory_before = process::resident_kib(process);

    let address = known.server.address;
    let mut attackers = JoinSet::new();
    for number in 0..CALLERS {
        let (run, mut random) = (Arc::clone(&run), run.random(number));
        attackers.spawn(async move {
            let mut held = raw_http2::Held::default();
            let mut attacks = BTreeMap::<&str, u64>::new();
            while run.step() {
                *attacks.entry(raw_http2::attack(&mut random, address, &mut held).await).or_default() += 1;
            }
            attacks
        });
    }
    let mut ticks = tokio::time::interval(Duration::from_millis(200));
    while run.elapsed() < run.length() {
        ticks.tick().await;
        // With a connection of its own each time: the port is open for others too.
        known.is_served().await;
    }
    let mut attacks = BTreeMap::<&str, u64>::new();
    while let Some(finished) = attackers.join_next().await {
        for (attack, count) in finished.expect("an attacker found a fault") {
            *attacks.entry(attack).or_default() += count;
        }
    }
    run.say(format_args!("{attacks:?}"));

    // All connections are closed on this side, so none may stay open on the other.
    let give_up = Instant::now() + PATIENCE;
    loop {
        known.is_served().await;
        let files = process::open_files(process);
        if files <= files_before + 2 {
            break;
        }
        assert!(Instant::now() < give_up, "{files} files are open, {files_before} were before");
        ticks.tick().await;
    }
    let memory = process::resident_kib(process);
    run.say(format_args!("resident memory: {memory_before} KiB before, {memory} KiB after"));
    assert!(memory < memory_before + MAX_MEMORY_KIB, "resident memory went from {memory_before} to {memory} KiB");
    known.stop().await;
}
