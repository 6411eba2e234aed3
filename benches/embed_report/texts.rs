//! The texts that are embedded: the same in every run.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

/// Documents that are embedded.
const DOCUMENTS: usize = 512;
/// The seed of the choice.
const SEED: u64 = 7;
/// Words of a piece of docs/, where the collection is absent: short and long ones in turn.
const PIECE_WORDS: [usize; 4] = [40, 200, 120, 80];

/// Documents and queries.
pub struct Texts {
    /// Where they come from.
    pub source: String,
    /// In an order that mixes lengths, as text arrives.
    pub documents: Vec<String>,
}

impl Texts {
    /// Reads them.
    pub fn read() -> Result<Self, Box<dyn Error>> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let cranfield = match std::env::var("TOLLER_CRANFIELD") {
            Ok(path) => PathBuf::from(path),
            Err(_) => root.join("../shared/data/cranfield/corpus.jsonl"),
        };
        let (source, mut all) = if cranfield.exists() {
            ("Cranfield".to_owned(), read_collection(&cranfield)?)
        } else {
            eprintln!("{} is absent: measuring pieces of docs/ instead", cranfield.display());
            ("docs/".to_owned(), read_docs(&root.join("docs"))?)
        };
        fastrand::Rng::with_seed(SEED).shuffle(&mut all);
        let documents = all.into_iter().cycle().take(DOCUMENTS).collect();
        Ok(Self { source, documents })
    }

    /// Query number `number`, of 12 tokens for BERT vocabularies (ten words and the two special tokens), and unlike any other
    /// so that nothing remembers its vector.
    pub fn query(number: usize) -> String {
        const WORDS: [&str; 10] =
            ["wing", "flow", "heat", "speed", "pressure", "shock", "layer", "body", "plate", "jet"];
        let word = |place: usize| WORDS[number / 10_usize.pow(place as u32) % 10];
        format!("what is the {} {} {} {} of a {}", word(0), word(1), word(2), word(3), word(4))
    }
}

fn read_collection(path: &Path) -> Result<Vec<String>, Box<dyn Error>> {
    let mut documents = Vec::new();
    for line in fs::read_to_string(path)?.lines() {
        let document: serde_json::Value = serde_json::from_str(line)?;
        let text = |key: &str| document.get(key).and_then(|value| value.as_str()).unwrap_or_default().to_owned();
        documents.push(format!("{} {}", text("title"), text("text")));
    }
    Ok(documents)
}

fn read_docs(folder: &Path) -> Result<Vec<String>, Box<dyn Error>> {
    let mut files: Vec<PathBuf> =
        fs::read_dir(folder)?.map(|entry| entry.map(|entry| entry.path())).collect::<Result<_, _>>()?;
    files.sort();
    let mut pieces = Vec::new();
    for file in files {
        let text = fs::read_to_string(file)?;
        let words: Vec<&str> = text.split_whitespace().collect();
        let mut rest = words.as_slice();
        for length in PIECE_WORDS.iter().cycle() {
            let (piece, after) = rest.split_at((*length).min(rest.len()));
            if piece.is_empty() {
                break;
            }
            pieces.push(piece.join(" "));
            rest = after;
        }
    }
    Ok(pieces)
}
