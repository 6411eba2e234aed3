use super::*;
use crate::token_places::tests::Words;

fn read(json: &str) -> SplitterSpec {
    serde_json::from_str(json).unwrap()
}

fn texts(json: &str, text: &str) -> Vec<String> {
    match read(json).build(Some(Arc::new(Words))).unwrap() {
        BuiltSplitter::Plain(splitter) => {
            splitter.split(text).unwrap().into_iter().map(|chunk| chunk.text.to_owned()).collect()
        }
        BuiltSplitter::Semantic(_) => panic!("{json} is semantic"),
    }
}

#[test]
fn every_kind_is_built() {
    for (json, text, expected) in [
        (r#"{"whole": {}}"#, " a\n\nb ", vec![" a\n\nb "]),
        (r#"{"recursive": {"chunk_size": 6, "chunk_overlap": 0}}"#, "one two three", vec!["one", "two", "three"]),
        (
            r#"{"recursive": {"chunk_size": 3, "chunk_overlap": 0, "length": "tokens"}}"#,
            "a b c d e f",
            vec!["a b c", "d e f"],
        ),
        (
            r#"{"recursive": {"chunk_size": 9, "chunk_overlap": 0, "separators": {"language": "python"}}}"#,
            "a = 1\ndef b(): 2",
            vec!["a = 1", "def b():", "2"],
        ),
        (
            r#"{"recursive": {"chunk_size": 3, "chunk_overlap": 0, "separators": {"expressions": ["\\d"]}, "keep_separator": "no"}}"#,
            "ab1cd2ef",
            vec!["ab", "cd", "ef"],
        ),
        (
            r#"{"character": {"chunk_size": 2, "separator": ".", "keep_separator": "end"}}"#,
            "a.b.c",
            vec!["a.", "b.", "c"],
        ),
        (r#"{"token": {"chunk_size": 3, "chunk_overlap": 1}}"#, "1 2 3 4 5", vec!["1 2 3", "3 4 5"]),
        (r#"{"headings": {}}"#, "no headings", vec!["no headings"]),
        (r#"{"json": {"chunk_size": 6}}"#, "[1, 2, 3, 4]", vec!["[1, 2,", "3, 4]"]),
        (r#"{"sentence": {"chunk_size": 8}}"#, "One. Two. Three.", vec!["One.", "Two.", "Three."]),
        (r#"{"code": {"language": "rust", "chunk_size": 12}}"#, "fn a() {}\nfn b() {}", vec!["fn a() {}", "fn b() {}"]),
    ] {
        assert_eq!(texts(json, text), expected, "{json}");
    }
    let semantic = read(r#"{"semantic": {"threshold": {"gradient": 90}, "buffer_size": 2}}"#);
    assert!(matches!(semantic.build(None).unwrap(), BuiltSplitter::Semantic(_)));
    assert_eq!(semantic.kind(), "semantic");
}

#[test]
fn faults_name_the_field() {
    for (json, fault) in [
        (r#"{"recursive": {"chunk_size": 0}}"#, "splitter.recursive.chunk_size: must be at least 1, got 0"),
        (
            r#"{"recursive": {"chunk_size": 5, "chunk_overlap": 6}}"#,
            "splitter.recursive.chunk_overlap: must be at most the chunk size of 5, got 6",
        ),
        (
            r#"{"recursive": {"separators": {"literals": []}}}"#,
            "splitter.recursive.separators: must be 1 to 256 separators, got 0",
        ),
        (r#"{"character": {"chunk_size": 0}}"#, "splitter.character.chunk_size: must be at least 1, got 0"),
        (
            r#"{"token": {"chunk_size": 4, "chunk_overlap": 4}}"#,
            "splitter.token.chunk_overlap: must be less than the chunk size of 4, got 4",
        ),
        (r#"{"headings": {"levels": []}}"#, "splitter.headings.levels: must name at least one level"),
        (
            r#"{"headings": {"inner": {"sentence": {"chunk_size": 0}}}}"#,
            "splitter.headings.inner.sentence.chunk_size: must be at least 1, got 0",
        ),
        (r#"{"headings": {"inner": {"semantic": {}}}}"#, "splitter.headings.inner: must not be semantic"),
        (r#"{"json": {"chunk_size": 0}}"#, "splitter.json.chunk_size: must be at least 1, got 0"),
        (r#"{"semantic": {"buffer_size": 17}}"#, "splitter.semantic.buffer_size: must be at most 16 sentences, got 17"),
        (
            r#"{"semantic": {"threshold": {"percentile": 101}}}"#,
            "splitter.semantic.threshold: must be a percentile of 0 to 100, got 101",
        ),
        (r#"{"code": {"language": "c", "chunk_size": 0}}"#, "splitter.code.chunk_size: must be at least 1, got 0"),
    ] {
        assert_eq!(read(json).validate().unwrap_err().to_string(), fault);
    }
    for (json, start) in [
        (
            r#"{"character": {"separator": "(", "is_separator_regex": true}}"#,
            "splitter.character.separator: \"(\" is not",
        ),
        (r#"{"recursive": {"separators": {"expressions": ["("]}}}"#, "splitter.recursive.separators: \"(\" is not"),
    ] {
        let fault = read(json).validate().unwrap_err().to_string();
        assert!(fault.starts_with(start), "{fault}");
    }
    assert!(serde_json::from_str::<SplitterSpec>(r#"{"recursive": {"chunk": 5}}"#).is_err());
    assert!(serde_json::from_str::<SplitterSpec>(r#"{"whole": {"chunk": 5}}"#).is_err());
}

#[test]
fn tokens_need_a_model() {
    for (json, fault) in [
        (r#"{"token": {}}"#, "splitter.token.chunk_size: counts tokens, which needs a model that runs in this process"),
        (
            r#"{"headings": {"inner": {"recursive": {"length": "tokens"}}}}"#,
            "splitter.headings.inner.recursive.length: counts tokens, which needs a model that runs in this process",
        ),
    ] {
        let spec = read(json);
        assert!(spec.needs_tokenizer());
        spec.validate().unwrap();
        assert_eq!(spec.build(None).unwrap_err().to_string(), fault);
        assert!(spec.build(Some(Arc::new(Words))).is_ok());
    }
    assert!(!SplitterSpec::default().needs_tokenizer());
}
