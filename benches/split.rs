//! Splitters: linear in the text. Prose as it comes, one long line of words, and one long word, ten megabytes of each.

use std::hint::black_box;
use std::ops::Range;
use std::sync::Arc;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use toller_benches::text;
use toller_core::{Metric, Tokenizer, Vector};
use toller_ingest::{
    CharacterSplitter, CodeSplitter, Format, HeadingSplitter, JsonSplitter, Language, LoadOptions, RecursiveSplitter,
    SemanticSplitter, SentenceSplitter, Separator, Splitter, TokenSplitter, load,
};

const BYTES: usize = 10_000_000;

/// Four bytes of a word are a token: a tokenizer that costs next to nothing, so that the splitter is measured.
struct FourBytes;

impl Tokenizer for FourBytes {
    fn token_ranges(&self, text: &str) -> toller_core::Result<Vec<Range<usize>>> {
        let mut ranges: Vec<Range<usize>> = Vec::with_capacity(text.len() / 4);
        for (at, byte) in text.bytes().enumerate().filter(|(_, byte)| !byte.is_ascii_whitespace()) {
            match ranges.last_mut() {
                Some(last) if last.end == at && last.len() < 4 && byte.is_ascii_alphanumeric() => last.end += 1,
                _ => ranges.push(at..at + 1),
            }
        }
        Ok(ranges)
    }

    fn max_text_tokens(&self) -> usize {
        254
    }
}

fn recursive(criterion: &mut Criterion) {
    let splitter = RecursiveSplitter::builder().chunk_size(1000).chunk_overlap(150).build().unwrap();
    let mut group = criterion.benchmark_group("split_recursive_1000_150");
    group.sample_size(10);
    for words in [20_000, 200_000] {
        let prose = text(words, 1);
        group.throughput(Throughput::Bytes(prose.len() as u64));
        group.bench_with_input(BenchmarkId::new("prose", prose.len()), &prose, |bencher, prose| {
            bencher.iter(|| splitter.split(black_box(prose)).unwrap().len());
        });
    }
    let line = "x".repeat(1 << 20);
    group.throughput(Throughput::Bytes(line.len() as u64));
    group.bench_with_input(BenchmarkId::new("one_word", line.len()), &line, |bencher, line| {
        bencher.iter(|| splitter.split(black_box(line)).unwrap().len());
    });
    group.finish();
}

fn every(criterion: &mut Criterion) {
    // A sentence goes on before a lower-case letter.
    let words = text(BYTES / 6, 1).replace('\n', " ").replace(". ", ". The ");
    let line = words.get(..BYTES).unwrap_or(&words).to_owned();
    let json = format!("[\"{}\"]", line.replace(". ", "\",\""));
    // What is longer has no syntax.
    let code = format!("f({});", line.get(..1_000_000).unwrap_or_default().replace(". ", ");g(").replace(' ', ","));
    let word = "x".repeat(BYTES);
    let mut splitters: Vec<(&str, &str, Box<dyn Splitter>)> = Vec::new();
    for (shape, text) in [("line", line.as_str()), ("word", word.as_str())] {
        let tokenizer = || Arc::new(FourBytes);
        splitters.push((shape, text, Box::new(RecursiveSplitter::builder().build().unwrap())));
        splitters.push((shape, text, Box::new(RecursiveSplitter::builder().always_overlap(true).build().unwrap())));
        let in_tokens = RecursiveSplitter::builder().chunk_size(250).chunk_overlap(30).counted_in_tokens(tokenizer());
        splitters.push((shape, text, Box::new(in_tokens.build().unwrap())));
        let spaces = CharacterSplitter::builder().separator(Separator::literal(" "));
        splitters.push((shape, text, Box::new(spaces.build().unwrap())));
        splitters.push((shape, text, Box::new(TokenSplitter::new(tokenizer(), None, None).unwrap())));
        splitters.push((shape, text, Box::new(HeadingSplitter::default())));
        splitters.push((shape, text, Box::new(SentenceSplitter::new(1000, 150).unwrap())));
    }
    splitters.push(("line", &json, Box::new(JsonSplitter::default())));
    splitters.push(("line", &code, Box::new(CodeSplitter::new(Language::JavaScript, 1000).unwrap())));
    splitters.push(("word", &word, Box::new(CodeSplitter::new(Language::JavaScript, 1000).unwrap())));
    splitters.push(("line of no code", &line, Box::new(CodeSplitter::new(Language::Lua, 1000).unwrap())));
    let names = [
        "recursive",
        "always_overlap",
        "in_tokens",
        "character",
        "token",
        "headings",
        "sentence",
        "recursive",
        "always_overlap",
        "in_tokens",
        "character",
        "token",
        "headings",
        "sentence",
        "json",
        "code",
        "code",
        "code",
    ];

    let mut group = criterion.benchmark_group("split_long_lines");
    group.sample_size(10);
    for (name, (shape, text, splitter)) in names.iter().zip(&splitters) {
        group.throughput(Throughput::Bytes(text.len() as u64));
        group.bench_function(BenchmarkId::new(*name, shape), |bencher| {
            bencher.iter(|| splitter.split(black_box(text)).unwrap().len());
        });
    }
    let semantic = SemanticSplitter::default();
    group.bench_function(BenchmarkId::new("semantic", "line"), |bencher| {
        bencher.iter(|| {
            let sentences = semantic.sentences(black_box(&line));
            let vector = |index: usize| Vector::new(vec![1.0, (index % 7) as f32], Metric::Cosine).unwrap();
            let vectors: Vec<Vector> = (0..sentences.windows().len()).map(vector).collect();
            semantic.split(&line, &sentences, &vectors).unwrap().len()
        });
    });
    let markdown = text(BYTES / 6, 1).replace("\n\n", "\n\n## A heading\n\n");
    group.bench_function(BenchmarkId::new("headings", "markdown"), |bencher| {
        bencher.iter(|| {
            let bytes = black_box(&markdown).clone().into_bytes();
            let document = load(Format::Markdown, bytes, &LoadOptions::default()).unwrap().next().unwrap().unwrap();
            HeadingSplitter::default().split_structured(&document.text, &document.structure).unwrap().len()
        });
    });
    group.finish();
}

criterion_group!(benches, recursive, every);
criterion_main!(benches);
