//! From paths to batches of documents, on a thread of its own.

use std::path::PathBuf;

use toller_api::convert::document_to_message;
use toller_api::v1;
use toller_ingest::{Loader, RecursiveSplitter, SkipReason, Skipped, SourceFile, documents, walk};

/// Most text bytes of a batch (unless one document alone has more), well below the 16 MiB that servers take in one message.
const MAX_BATCH_BYTES: usize = 4 << 20;

/// How files are read and split.
pub(crate) struct Plan {
    pub(crate) loader: Loader,
    pub(crate) splitter: RecursiveSplitter,
    /// Most documents of a batch; at least 1.
    pub(crate) batch_size: usize,
}

/// A file or folder that was not used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Skip {
    pub(crate) source: String,
    pub(crate) reason: String,
    pub(crate) kind: SkipKind,
}

/// What to make of a skip.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SkipKind {
    /// Folders hold such things: not worth a line of its own.
    Expected,
    /// Worth a line.
    Noted,
    /// Worth a line; and as the file holds nothing now, its older chunks go.
    Empty,
    /// The caller named it and it cannot be used.
    Failure,
}

impl From<Skipped> for Skip {
    fn from(skipped: Skipped) -> Self {
        let kind = match &skipped.reason {
            reason if reason.is_expected() => SkipKind::Expected,
            SkipReason::Empty => SkipKind::Empty,
            _ if skipped.named => SkipKind::Failure,
            _ => SkipKind::Noted,
        };
        Self { source: skipped.source, reason: skipped.reason.to_string(), kind }
    }
}

/// A file whose last chunk is in this batch or an earlier one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Finished {
    pub(crate) source: String,
    /// How many chunks it has now; its chunks of this number and above are left over from an older version.
    pub(crate) chunks: usize,
}

/// What is sent in one request, and what is true once it has been written.
#[derive(Debug, Default)]
pub(crate) struct Batch {
    pub(crate) documents: Vec<v1::Document>,
    pub(crate) finished: Vec<Finished>,
    /// Share of the work, in bytes of files.
    pub(crate) bytes: u64,
}

/// What the reading thread has to say.
#[derive(Debug)]
pub(crate) enum Event {
    Batch(Batch),
    Skipped { skip: Skip, bytes: u64 },
}

/// What the paths led to.
pub(crate) struct Work {
    found: Vec<Result<(SourceFile, u64), Skip>>,
}

impl Work {
    /// Walks the paths. Keeps the names of all files, none of their text.
    pub(crate) fn find(paths: &[PathBuf]) -> Self {
        let found = walk(paths).map(|found| match found {
            // A size is for the progress bar only; a file that cannot be looked at says so when it is read.
            Ok(file) => {
                let bytes = std::fs::metadata(&file.path).map_or(0, |metadata| metadata.len());
                Ok((file, bytes))
            }
            Err(skipped) => Err(skipped.into()),
        });
        Self { found: found.collect() }
    }

    /// Is there anything to read?
    pub(crate) fn has_files(&self) -> bool {
        self.found.iter().any(Result::is_ok)
    }

    /// Size of all files together.
    pub(crate) fn bytes(&self) -> u64 {
        self.found.iter().flatten().map(|(_, bytes)| bytes).sum()
    }

    /// What was not used, without reading anything.
    pub(crate) fn into_skipped(self) -> impl Iterator<Item = Skip> {
        self.found.into_iter().filter_map(Result::err)
    }

    /// Reads everything; ends early when `send` says that nobody listens any more.
    pub(crate) fn read(self, plan: &Plan, mut send: impl FnMut(Event) -> bool) {
        let mut batch = Batch::default();
        let mut batch_bytes = 0;
        for found in self.found {
            let outcome = found.map_err(|skip| (skip, 0)).and_then(|(file, bytes)| read_file(plan, file, bytes));
            let (source, bytes, made) = match outcome {
                Ok(read) => read,
                Err((skip, bytes)) => {
                    if skip.kind == SkipKind::Empty {
                        batch.finished.push(Finished { source: skip.source.clone(), chunks: 0 });
                    }
                    if !send(Event::Skipped { skip, bytes }) {
                        return;
                    }
                    continue;
                }
            };
            let chunks = made.len();
            for (number, document) in made.into_iter().enumerate() {
                let text_bytes = document.page_content.len();
                let is_full = batch.documents.len() >= plan.batch_size || batch_bytes + text_bytes > MAX_BATCH_BYTES;
                if is_full && !batch.documents.is_empty() {
                    batch_bytes = 0;
                    if !send(Event::Batch(std::mem::take(&mut batch))) {
                        return;
                    }
                }
                batch_bytes += text_bytes;
                batch.bytes += share(bytes, number, chunks);
                batch.documents.push(document);
            }
            batch.finished.push(Finished { source, chunks });
        }
        if !batch.documents.is_empty() || !batch.finished.is_empty() {
            send(Event::Batch(batch));
        }
    }
}

type ReadFile = (String, u64, Vec<v1::Document>);

fn read_file(plan: &Plan, file: SourceFile, bytes: u64) -> Result<ReadFile, (Skip, u64)> {
    let loaded = plan.loader.load(&file).map_err(|skipped| (Skip::from(skipped), bytes))?;
    match documents(&loaded, &plan.splitter) {
        Ok(made) => {
            let made = made.iter().map(|document| document_to_message(document, None)).collect();
            Ok((loaded.source, bytes, made))
        }
        Err(fault) => {
            let kind = if file.named { SkipKind::Failure } else { SkipKind::Noted };
            Err((Skip { source: loaded.source, reason: fault.to_string(), kind }, bytes))
        }
    }
}

/// What chunk `number` of `chunks` counts of a file's bytes; all of them together make exactly the file.
fn share(bytes: u64, number: usize, chunks: usize) -> u64 {
    let until = |number: usize| u128::from(bytes) * number as u128 / (chunks.max(1) as u128);
    u64::try_from(until(number + 1) - until(number)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    fn plan(batch_size: usize, chunk_size: usize) -> Plan {
        let splitter = RecursiveSplitter::builder().chunk_size(chunk_size).chunk_overlap(0).build().unwrap();
        Plan { loader: Loader::default().max_file_bytes(10_000_000), splitter, batch_size }
    }

    fn read(root: &Path, plan: &Plan) -> (Vec<Batch>, Vec<Skip>, u64) {
        let work = Work::find(&[root.to_owned()]);
        let bytes = work.bytes();
        let (mut batches, mut skips) = (Vec::new(), Vec::new());
        let mut counted = 0;
        work.read(plan, |event| {
            match event {
                Event::Batch(batch) => {
                    counted += batch.bytes;
                    batches.push(batch);
                }
                Event::Skipped { skip, bytes } => {
                    counted += bytes;
                    skips.push(skip);
                }
            }
            true
        });
        assert_eq!(counted, bytes, "progress reaches the end exactly");
        (batches, skips, bytes)
    }

    #[test]
    fn batches_span_files_and_say_which_are_finished() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("a.txt"), "one two three").unwrap();
        fs::write(root.path().join("b.txt"), "four").unwrap();
        fs::write(root.path().join("c.txt"), " \n").unwrap();
        let (batches, skips, _) = read(root.path(), &plan(2, 6));
        let shape: Vec<(usize, Vec<usize>)> = batches
            .iter()
            .map(|batch| (batch.documents.len(), batch.finished.iter().map(|finished| finished.chunks).collect()))
            .collect();
        assert_eq!(shape, [(2, vec![]), (2, vec![3, 1, 0])]);
        assert!(batches[1].documents[0].id().ends_with("a.txt#2"));
        assert_eq!(
            skips.iter().map(|skip| (skip.reason.as_str(), skip.kind)).collect::<Vec<_>>(),
            [("empty", SkipKind::Empty)]
        );
    }

    #[test]
    fn batches_are_bounded_in_bytes() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("a.txt"), "x".repeat(3 * MAX_BATCH_BYTES / 2)).unwrap();
        let (batches, _, _) = read(root.path(), &plan(1000, 1 << 20));
        assert_eq!(batches.iter().map(|batch| batch.documents.len()).collect::<Vec<_>>(), [4, 2]);
    }

    #[test]
    fn reading_stops_when_nobody_listens() {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("a.txt"), "one two three four").unwrap();
        let mut events = 0;
        Work::find(&[root.path().to_owned()]).read(&plan(1, 5), |_| {
            events += 1;
            false
        });
        assert_eq!(events, 1);
    }

    #[test]
    fn only_named_files_fail() {
        let skip = |named, reason| Skip::from(Skipped { source: "x".to_owned(), named, reason }).kind;
        assert_eq!(skip(true, SkipReason::Binary), SkipKind::Failure);
        assert_eq!(skip(false, SkipReason::Binary), SkipKind::Noted);
        assert_eq!(skip(true, SkipReason::Empty), SkipKind::Empty, "nothing of it is missing from the collection");
        assert_eq!(skip(false, SkipReason::Unsupported), SkipKind::Expected);
    }
}
