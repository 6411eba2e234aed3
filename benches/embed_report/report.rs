//! The figures, on the terminal and in a file.

use std::error::Error;
use std::path::{Path, PathBuf};
use std::{fs, io};

use serde_json::{Map, Value, json};

use crate::texts::Texts;

/// Queries for those who measure others.
const SHARED_QUERIES: usize = 300;

/// Figures by name, in the order in which they came.
pub struct Report(Map<String, Value>);

impl Report {
    /// A report of this model on these texts, and on this machine.
    pub fn new(folder: &Path, texts: &Texts) -> Self {
        let mut report = Self(Map::new());
        report.text("model", &folder.display().to_string());
        report.text("texts", &format!("{} of {}", texts.documents.len(), texts.source));
        report.number("threads", toller_embedder::cpu::available() as f64);
        report.text("load_average_before", &load_average());
        report
    }

    /// Adds a number.
    pub fn number(&mut self, name: &str, value: f64) {
        // Four significant digits: more would be noise.
        let digits = (3 - value.abs().max(1e-9).log10().floor() as i32).max(0);
        let rounded = format!("{value:.*}", digits as usize).parse().unwrap_or(value);
        eprintln!("{name:32} {rounded}");
        self.0.insert(name.to_owned(), json!(rounded));
    }

    /// Adds a text.
    pub fn text(&mut self, name: &str, value: &str) {
        eprintln!("{name:32} {value}");
        self.0.insert(name.to_owned(), json!(value));
    }

    /// A number that was added before.
    pub fn get(&self, name: &str) -> f64 {
        self.0.get(name).and_then(Value::as_f64).unwrap_or(f64::NAN)
    }

    /// Writes the file, and beside it the texts for those who measure others on the same.
    pub fn write(mut self, texts: &Texts) -> Result<(), Box<dyn Error>> {
        self.text("load_average_after", &load_average());
        let target = std::env::var("CARGO_TARGET_DIR").map_or_else(|_| PathBuf::from("target"), PathBuf::from);
        let file = target.join("bench/embed.json");
        fs::create_dir_all(file.parent().unwrap_or(&target))?;
        serde_json::to_writer_pretty(io::BufWriter::new(fs::File::create(&file)?), &self.0)?;
        let input = json!({
            "documents": texts.documents,
            "queries": (0..SHARED_QUERIES).map(Texts::query).collect::<Vec<_>>(),
            "model": self.0.get("model"),
            "threads": self.0.get("threads"),
        });
        fs::write(file.with_file_name("embed_texts.json"), input.to_string())?;
        println!("{}", file.display());
        Ok(())
    }
}

fn load_average() -> String {
    fs::read_to_string("/proc/loadavg")
        .map(|text| text.split_whitespace().take(3).collect::<Vec<_>>().join(" "))
        .unwrap_or_default()
}
