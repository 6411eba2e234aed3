//! The figures, on the terminal and in a file: one object for each store.

use std::error::Error;
use std::fs;
use std::path::PathBuf;

use serde_json::{Map, Value, json};

/// Figures by object and name, in the order in which they came.
pub struct Report(Map<String, Value>);

impl Report {
    /// A report of this machine.
    pub fn new() -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self(Map::from_iter([
            ("cores".to_owned(), json!(cores)),
            ("load_average_before".to_owned(), json!(load_average())),
        ]))
    }

    /// Adds a number to an object.
    pub fn number(&mut self, object: &str, name: &str, value: f64) {
        // Four significant digits: more would be noise.
        let digits = (3 - value.abs().max(1e-9).log10().floor() as i32).max(0);
        let rounded: f64 = format!("{value:.*}", digits as usize).parse().unwrap_or(value);
        eprintln!("{object:16} {name:32} {rounded}");
        let figures = self.0.entry(object).or_insert_with(|| json!({}));
        if let Value::Object(figures) = figures {
            figures.insert(name.to_owned(), json!(rounded));
        }
    }

    /// Writes the file.
    pub fn write(mut self) -> Result<(), Box<dyn Error>> {
        self.0.insert("load_average_after".to_owned(), json!(load_average()));
        let file = folder()?.join("store.json");
        fs::write(&file, serde_json::to_string_pretty(&self.0)?)?;
        println!("{}", file.display());
        Ok(())
    }
}

/// Where the figures go, and what is written meanwhile.
pub fn folder() -> Result<PathBuf, Box<dyn Error>> {
    let target = std::env::var("CARGO_TARGET_DIR").map_or_else(|_| PathBuf::from("target"), PathBuf::from);
    let folder = target.join("bench");
    fs::create_dir_all(&folder)?;
    Ok(folder)
}

fn load_average() -> String {
    fs::read_to_string("/proc/loadavg")
        .map(|text| text.split_whitespace().take(3).collect::<Vec<_>>().join(" "))
        .unwrap_or_default()
}
