//! `make bench-embed`: how fast the embedder is, against this machine's peak and against candle's stock BERT, in process and
//! over gRPC, idle and flooded. Writes bench/embed.json into the target folder.
//!
//! Everything that is compared runs in this one process run, in turns, since machines are noisy: ratios of one run mean more
//! than figures of two. The model is the folder in TOLLER_TEST_MODEL (MiniLM); the texts are 512 of the Cranfield collection,
//! or pieces of docs/ where it is absent. The server is a real one ($TOLLER_BIN) with the vector cache off.

mod in_process;
mod padded;
mod report;
mod served;
mod texts;

use std::error::Error;
use std::path::PathBuf;

use report::Report;
use texts::Texts;

fn main() -> Result<(), Box<dyn Error>> {
    // `cargo test --benches` and `cargo bench -- --list` also come here.
    if !std::env::args().any(|argument| argument == "--bench") {
        return Ok(());
    }
    let folder =
        PathBuf::from(std::env::var("TOLLER_TEST_MODEL").map_err(|_| "TOLLER_TEST_MODEL: set it to a model's folder")?);
    let texts = Texts::read()?;
    eprintln!("{} texts from {}", texts.documents.len(), texts.source);

    let mut report = Report::new(&folder, &texts);
    in_process::measure(&folder, &texts, &mut report)?;
    served::measure(&folder, &texts, &mut report)?;
    report.write(&texts)?;
    Ok(())
}
