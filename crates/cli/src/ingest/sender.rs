//! Sending batches to the server, a few at a time, and removing what files no longer have.

use std::collections::VecDeque;

use tokio::sync::mpsc::Receiver;
use tokio::task::JoinHandle;
use toller_api::convert::filter_to_message;
use toller_api::v1;
use toller_api::v1::documents_client::DocumentsClient;
use toller_api::v1::documents_delete_request::Selector;
use toller_core::filter::KeyPath;
use toller_core::{Filter, Value};
use toller_ingest::key;

use crate::client::Service;
use crate::error::Error;
use crate::ingest::batches::{Batch, Event, Finished};
use crate::ingest::progress::Progress;
use crate::ingest::retry::with_retries;
use crate::ingest::summary::Summary;

/// Batches on their way at a time: the server embeds one while the next arrives. More would only wait in its queue, and their
/// deadlines with them.
const IN_FLIGHT: usize = 2;

/// Files whose left-over chunks are removed by one request.
const FILES_PER_DELETE: usize = 100;

/// A batch on its way.
struct Sent {
    usage: JoinHandle<Result<Vec<v1::TextUsage>, Error>>,
    documents: usize,
    finished: Vec<Finished>,
    bytes: u64,
}

/// Sends what the reading thread makes.
pub(crate) struct Sender {
    client: DocumentsClient<Service>,
    collection: String,
    /// A collection that was just made holds no older version of a file.
    is_new: bool,
    progress: Progress,
    /// Begins every request id of this run.
    run: String,
    batches: u64,
    in_flight: VecDeque<Sent>,
    /// Files that are written whole, whose older chunks may still be there.
    written: Vec<Finished>,
}

impl Sender {
    /// # Errors
    /// `Failed` when the system gives no random number.
    pub(crate) fn new(
        client: DocumentsClient<Service>,
        collection: &str,
        is_new: bool,
        progress: Progress,
    ) -> Result<Self, Error> {
        let run =
            getrandom::u64().map_err(|fault| Error::Failed(format!("the system gives no random number: {fault}")))?;
        Ok(Self {
            client,
            collection: collection.to_owned(),
            is_new,
            progress,
            run: format!("ingest-{run:016x}"),
            batches: 0,
            in_flight: VecDeque::new(),
            written: Vec::new(),
        })
    }

    /// Sends until there is no more; counts into the summary what the server has acknowledged, in the order of the files.
    ///
    /// # Errors
    /// The first answer that is an error and not worth another attempt.
    pub(crate) async fn run(mut self, mut events: Receiver<Event>, summary: &mut Summary) -> Result<(), Error> {
        let mut is_open = true;
        while is_open || !self.in_flight.is_empty() {
            tokio::select! {
                answer = oldest(&mut self.in_flight), if !self.in_flight.is_empty() => {
                    let sent = self.in_flight.pop_front();
                    self.settle(sent, answer?, summary).await?;
                }
                event = events.recv(), if is_open && self.in_flight.len() < IN_FLIGHT => match event {
                    None => is_open = false,
                    Some(Event::Batch(batch)) => self.send(batch),
                    Some(Event::Skipped { skip, bytes }) => {
                        summary.skip(skip);
                        self.progress.advance(bytes, summary.chunks());
                    }
                },
            }
        }
        self.remove_left_overs(summary).await
    }

    fn send(&mut self, batch: Batch) {
        self.batches += 1;
        let Batch { documents, finished, bytes } = batch;
        let count = documents.len();
        let request = v1::DocumentsAddRequest {
            collection: self.collection.clone(),
            documents,
            request_id: Some(format!("{}-{}", self.run, self.batches)),
            truncate: None,
        };
        let (client, progress) = (self.client.clone(), self.progress.clone());
        let usage = tokio::spawn(async move {
            if request.documents.is_empty() {
                return Ok(Vec::new());
            }
            let answer = with_retries(&progress, || {
                let (mut client, request) = (client.clone(), request.clone());
                async move { client.add(request).await }
            });
            Ok(answer.await?.into_inner().usage)
        });
        self.in_flight.push_back(Sent { usage, documents: count, finished, bytes });
    }

    async fn settle(
        &mut self,
        sent: Option<Sent>,
        usage: Vec<v1::TextUsage>,
        summary: &mut Summary,
    ) -> Result<(), Error> {
        let Some(sent) = sent else { return Ok(()) };
        summary.add_chunks(sent.documents, &usage);
        self.progress.advance(sent.bytes, summary.chunks());
        for finished in sent.finished {
            // A file without chunks was skipped as empty.
            if finished.chunks > 0 {
                summary.add_file();
            }
            self.written.push(finished);
        }
        if self.written.len() >= FILES_PER_DELETE {
            self.remove_left_overs(summary).await?;
        }
        Ok(())
    }

    /// Deletes the chunks of older versions of the files written so far. Their new chunks are there already, so that a file is
    /// never missing meanwhile.
    async fn remove_left_overs(&mut self, summary: &mut Summary) -> Result<(), Error> {
        let written = std::mem::take(&mut self.written);
        if self.is_new {
            return Ok(());
        }
        for files in written.chunks(FILES_PER_DELETE) {
            let filter = filter_to_message(&left_overs(files)?);
            let request = v1::DocumentsDeleteRequest {
                collection: self.collection.clone(),
                selector: Some(Selector::Filter(filter)),
            };
            let answer = with_retries(&self.progress, || {
                let (mut client, request) = (self.client.clone(), request.clone());
                async move { client.delete(request).await }
            });
            summary.add_removed(answer.await?.into_inner().deleted);
        }
        Ok(())
    }
}

impl Drop for Sender {
    /// After an error, what is still on its way is of no use.
    fn drop(&mut self) {
        self.in_flight.iter().for_each(|sent| sent.usage.abort());
    }
}

/// Waits for the batch that was sent first. Losing a race against another branch loses nothing.
async fn oldest(in_flight: &mut VecDeque<Sent>) -> Result<Vec<v1::TextUsage>, Error> {
    match in_flight.front_mut() {
        None => std::future::pending().await,
        Some(sent) => match (&mut sent.usage).await {
            Ok(usage) => usage,
            Err(fault) => Err(Error::Failed(format!("the task that sends a batch ended: {fault}"))),
        },
    }
}

/// Matches the chunks that the files no longer have.
fn left_overs(files: &[Finished]) -> Result<Filter, Error> {
    let path = |key| KeyPath::parse(key).map_err(|fault| Error::Failed(format!("metadata key {key:?} {fault}")));
    let (source, chunk) = (path(key::SOURCE)?, path(key::CHUNK)?);
    let left_over = |file: &Finished| {
        Filter::And(vec![
            Filter::Eq(source.clone(), Value::from(file.source.as_str())),
            Filter::Gte(chunk.clone(), Value::Int(i64::try_from(file.chunks).unwrap_or(i64::MAX))),
        ])
    };
    Ok(Filter::Or(files.iter().map(left_over).collect()))
}
