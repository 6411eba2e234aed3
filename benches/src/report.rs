//! The figures of a benchmark, on the terminal and in a file, by object and name.

use std::error::Error;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Map, Value, json};

/// Figures in the order in which they came.
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
        eprintln!("{object:18} {name:32} {rounded}");
        let figures = self.0.entry(object).or_insert_with(|| json!({}));
        if let Value::Object(figures) = figures {
            figures.insert(name.to_owned(), json!(rounded));
        }
    }

    /// A number that was added before.
    pub fn get(&self, object: &str, name: &str) -> f64 {
        self.0.get(object).and_then(|figures| figures.get(name)).and_then(Value::as_f64).unwrap_or(f64::NAN)
    }

    /// Writes `bench/NAME.json` into the target folder.
    pub fn write(mut self, name: &str) -> Result<(), Box<dyn Error>> {
        self.0.insert("load_average_after".to_owned(), json!(load_average()));
        let file = folder()?.join(format!("{name}.json"));
        fs::write(&file, serde_json::to_string_pretty(&self.0)?)?;
        println!("{}", file.display());
        Ok(())
    }
}

impl Default for Report {
    fn default() -> Self {
        Self::new()
    }
}

/// Where the figures go, and what is written meanwhile.
pub fn folder() -> Result<PathBuf, Box<dyn Error>> {
    let target = std::env::var("CARGO_TARGET_DIR").map_or_else(|_| PathBuf::from("target"), PathBuf::from);
    let folder = target.join("bench");
    fs::create_dir_all(&folder)?;
    Ok(folder)
}

/// The value below which that share lies (nearest rank); zero of nothing.
pub fn percentile(spent: &mut [Duration], share: f64) -> Duration {
    spent.sort_unstable();
    let rank = (spent.len() as f64 * share).ceil() as usize;
    spent.get(rank.saturating_sub(1)).copied().unwrap_or_default()
}

/// A duration in milliseconds.
pub fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

/// A duration in microseconds.
pub fn micros(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e6
}

fn load_average() -> String {
    fs::read_to_string("/proc/loadavg")
        .map(|text| text.split_whitespace().take(3).collect::<Vec<_>>().join(" "))
        .unwrap_or_default()
}
