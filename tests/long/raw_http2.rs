//! Connections that break the rules of HTTP/2, or never come to speak it.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

use fastrand::Rng;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::fuzz::KEY_OF_THE_FUZZER;

/// Connections of an attacker that stay open while others are made.
const MAX_HELD: usize = 32;

/// Most time that an attacker gives one connection; afterwards he goes, whether he was answered or not.
const ATTENTION: Duration = Duration::from_millis(200);

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const PRIORITY: u8 = 2;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;

const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

/// Connections that are kept open and silent, oldest first.
#[derive(Default)]
pub struct Held(VecDeque<TcpStream>);

impl Held {
    fn keep(&mut self, connection: TcpStream) {
        self.0.push_back(connection);
        if self.0.len() > MAX_HELD {
            self.0.pop_front();
        }
    }
}

/// Makes one bad connection; returns what was bad about it.
pub async fn attack(random: &mut Rng, address: SocketAddr, held: &mut Held) -> &'static str {
    let (name, bytes) = match random.u32(..16) {
        0 => ("random bytes", noise(random, 4096)),
        1 => ("HTTP/1.1", b"GET / HTTP/1.1\r\nhost: toller\r\n\r\n".to_vec()),
        2 => ("TLS", [b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".to_vec(), noise(random, 600)].concat()),
        3 => ("half a preface", PREFACE[..random.usize(..PREFACE.len())].to_vec()),
        4 => (
            "a wrong preface",
            PREFACE.iter().map(|byte| if random.u32(..8) == 0 { random.u8(..) } else { *byte }).collect(),
        ),
        5 => ("random frames", random_frames(random)),
        6 => ("one huge header", huge_header(random)),
        7 => ("endless headers", endless_headers(random)),
        8 => ("rapid resets", rapid_resets(random)),
        9 => (
            "bad header compression",
            [begin(), frame(HEADERS, END_HEADERS | END_STREAM, 1, &noise(random, 300))].concat(),
        ),
        10 => ("windows that overflow", windows(random)),
        11 => ("a flood of settings and pings", flood(random)),
        12 => ("bodies that never end", unfinished_calls(random)),
        13 => (
            "a frame that says to be longer than allowed",
            [begin(), vec![0xff, 0xff, 0xff, random.u8(..10), random.u8(..), 0, 0, 0, 1], noise(random, 20_000)]
                .concat(),
        ),
        14 => ("streams in the wrong state", wrong_states(random)),
        _ => ("nothing", Vec::new()),
    };
    let Ok(mut connection) = TcpStream::connect(address).await else { panic!("the port is closed") };
    let talk = async {
        // The server may close the connection at any time, which is its right.
        let chunk = if random.u32(..10) == 0 { 1 + random.usize(..7) } else { usize::MAX };
        for part in bytes.chunks(chunk.min(bytes.len().max(1))) {
            if connection.write_all(part).await.is_err() {
                return;
            }
        }
        if random.bool() {
            let _ = connection.shutdown().await;
        }
        if random.bool() {
            let mut answer = Vec::new();
            let _ = connection.read_to_end(&mut answer).await;
        }
    };
    let _ = timeout(ATTENTION, talk).await;
    // Some go, some stay and say nothing more.
    if random.bool() {
        held.keep(connection);
    }
    name
}

fn noise(random: &mut Rng, longest: usize) -> Vec<u8> {
    let mut bytes = vec![0; random.usize(..longest)];
    random.fill(&mut bytes);
    bytes
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("a length").to_be_bytes();
    let mut frame = vec![length[1], length[2], length[3], kind, flags];
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

/// The preface and empty settings.
fn begin() -> Vec<u8> {
    [PREFACE.to_vec(), frame(SETTINGS, 0, 0, &[])].concat()
}

/// A header without compression.
fn literal(name: &str, value: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0];
    for part in [name.as_bytes(), value] {
        // An integer with a prefix of seven bits (RFC 7541, section 5.1).
        let mut rest = part.len();
        if rest < 127 {
            bytes.push(rest as u8);
        } else {
            bytes.push(127);
            rest -= 127;
            while rest >= 128 {
                bytes.push((rest % 128) as u8 | 128);
                rest /= 128;
            }
            bytes.push(rest as u8);
        }
        bytes.extend(part);
    }
    bytes
}

/// The headers of a call that would be a good one; of the fuzzing tenant, or of nobody.
fn call_of(key: &str) -> Vec<u8> {
    [
        literal(":method", b"POST"),
        literal(":scheme", b"http"),
        literal(":authority", b"toller"),
        literal(":path", b"/toller.v1.Embedder/EmbedQuery"),
        literal("content-type", b"application/grpc"),
        literal("authorization", format!("Bearer {key}").as_bytes()),
        literal("te", b"trailers"),
    ]
    .concat()
}

fn call() -> Vec<u8> {
    call_of(KEY_OF_THE_FUZZER)
}

fn random_frames(random: &mut Rng) -> Vec<u8> {
    let mut bytes = begin();
    for _ in 0..random.usize(..40) {
        let kind = if random.u32(..8) == 0 { random.u8(..) } else { random.u8(..10) };
        let stream = if random.bool() { random.u32(..8) } else { random.u32(..) };
        let payload = noise(random, 200);
        bytes.extend(frame(kind, random.u8(..), stream, &payload));
    }
    bytes
}

fn huge_header(random: &mut Rng) -> Vec<u8> {
    let value = vec![b'a'; random.usize(10_000..1 << 20)];
    let block = [call(), literal("x-huge", &value)].concat();
    let mut bytes = begin();
    let chunks: Vec<&[u8]> = block.chunks(16_384).collect();
    for (index, chunk) in chunks.iter().enumerate() {
        let kind = if index == 0 { HEADERS } else { CONTINUATION };
        let flags = if index + 1 == chunks.len() { END_HEADERS } else { 0 };
        bytes.extend(frame(kind, flags, 1, chunk));
    }
    bytes
}

/// Continuations without end, empty ones too.
fn endless_headers(random: &mut Rng) -> Vec<u8> {
    let mut bytes = [begin(), frame(HEADERS, 0, 1, &call())].concat();
    for number in 0..random.u32(..20_000) {
        let header = if random.bool() { literal(&format!("x-{number}"), b"") } else { Vec::new() };
        bytes.extend(frame(CONTINUATION, 0, 1, &header));
    }
    bytes
}

fn rapid_resets(random: &mut Rng) -> Vec<u8> {
    let mut bytes = begin();
    for number in 0..random.u32(..3000) {
        let stream = 2 * number + 1;
        bytes.extend(frame(HEADERS, END_HEADERS, stream, &call()));
        bytes.extend(frame(RST_STREAM, 0, stream, &8_u32.to_be_bytes()));
    }
    bytes
}

fn windows(random: &mut Rng) -> Vec<u8> {
    let mut bytes = [begin(), frame(HEADERS, END_HEADERS, 1, &call())].concat();
    for _ in 0..random.usize(..50) {
        let increment = [0, 1, i32::MAX as u32, u32::MAX][random.usize(..4)];
        bytes.extend(frame(WINDOW_UPDATE, 0, random.u32(..3), &increment.to_be_bytes()));
    }
    // An initial window that is too large, and a frame size that is too small.
    for (setting, value) in [(4_u16, u32::MAX), (5, 1), (3, 0), (1, u32::MAX)] {
        if random.bool() {
            bytes.extend(frame(SETTINGS, 0, 0, &[setting.to_be_bytes().as_slice(), &value.to_be_bytes()].concat()));
        }
    }
    bytes
}

/// Each of these must be acknowledged, to somebody who does not read.
fn flood(random: &mut Rng) -> Vec<u8> {
    let mut bytes = begin();
    for _ in 0..random.usize(..20_000) {
        if random.bool() {
            bytes.extend(frame(PING, 0, 0, &[0; 8]));
        } else {
            bytes.extend(frame(SETTINGS, 0, 0, &[0, 3, 0, 0, 0, 100]));
        }
    }
    bytes
}

/// Calls whose messages were announced, large, and do not come. Who has a key holds one of the server's calls with each until
/// its deadline, so that there are few of those: the rest is to be served.
fn unfinished_calls(random: &mut Rng) -> Vec<u8> {
    let (headers, calls) = if random.bool() { (call(), 4) } else { (call_of("nobody's"), 400) };
    let mut bytes = begin();
    for number in 0..calls {
        let stream = 2 * number + 1;
        bytes.extend(frame(HEADERS, END_HEADERS, stream, &headers));
        bytes.extend(frame(DATA, 0, stream, &[0, 0, 0xff, 0xff, 0xff, 1, 2, 3]));
    }
    bytes
}

fn wrong_states(random: &mut Rng) -> Vec<u8> {
    let mut bytes = begin();
    for _ in 0..random.usize(1..10) {
        let stream = random.u32(..6);
        let part = match random.u32(..7) {
            0 => frame(DATA, END_STREAM, stream, b"data"),
            1 => frame(RST_STREAM, 0, stream, &[0, 0, 0, 1]),
            2 => frame(HEADERS, END_HEADERS | END_STREAM, stream, &call()),
            3 => frame(CONTINUATION, END_HEADERS, stream, &call()),
            // A stream that depends on itself.
            4 => frame(PRIORITY, 0, stream, &[stream.to_be_bytes().as_slice(), &[255]].concat()),
            5 => frame(HEADERS, END_HEADERS | END_STREAM, stream, &literal(":path", b"/")),
            _ => frame(DATA, 8, stream, &[255, 1, 2]),
        };
        bytes.extend(part);
    }
    bytes
}
