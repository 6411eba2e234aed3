//! `EmbedStream`: texts with ids come in, vectors with those ids go out, in the order in which they are ready.
//!
//! A session is one stream of answers that nobody but its caller drives: it reads texts, groups them into calls of the model,
//! and gives out what is ready. It reads no further than its window, so a caller that sends faster than the model computes, or
//! that does not read its answers, is held up by HTTP/2 and not by memory here. Dropping the stream drops all its work.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use futures::future::{BoxFuture, Fuse, FusedFuture};
use futures::stream::{BoxStream, FuturesUnordered};
use futures::{FutureExt, Stream, StreamExt};
use tokio::time::Instant;
use toller_api::convert::{self, Encoding};
use toller_api::v1;
use toller_api::v1::embed_stream_response::Outcome;
use toller_core::context::CancelOnDrop;
use toller_core::document::MAX_ID_BYTES;
use toller_core::error::FieldViolation;
use toller_core::{EmbeddingRole, Embeddings, Error, Models, RequestContext, Result};
use toller_serving::status::status;
use tonic::Status;

use super::{check_truncation, to_message};
use crate::limits::Limits;

/// Most texts of a stream that are read and not yet answered: several forward passes of a small model, so that it never waits
/// for the network.
const WINDOW_TEXTS: usize = 256;

/// Most bytes of them; one longer text goes alone. About 2 KiB, or 500 tokens, for each text of a full window.
const WINDOW_BYTES: usize = 512 << 10;

/// Most texts of one call of the model. Its texts are answered together, so this also bounds how long the first waits for the
/// last.
const BATCH_TEXTS: usize = 32;

/// Most bytes of one call; one longer text goes alone.
const BATCH_BYTES: usize = 64 << 10;

/// Longest wait of a text for others to share its call: little beside a forward pass, and enough for what is on its way.
const BATCH_WAIT: Duration = Duration::from_millis(3);

/// Pause before a call is tried again where the queue was full and did not say when.
const RETRY_PAUSE: Duration = Duration::from_millis(100);

/// The server's side of the stream.
pub(super) type Answers = BoxStream<'static, Result<v1::EmbedStreamResponse, Status>>;

/// A text that waits for its call.
#[derive(Debug, Clone)]
struct Text {
    id: String,
    text: String,
}

impl Text {
    fn bytes(&self) -> usize {
        self.id.len() + self.text.len()
    }
}

/// An answer with the bytes of the window that it gives back.
struct Answer {
    id: String,
    outcome: Outcome,
    bytes: usize,
}

/// What the first message fixed for all.
#[derive(Clone)]
struct Terms {
    model: Arc<dyn Embeddings>,
    /// As the first message had it; none for the default.
    model_name: Option<String>,
    role: EmbeddingRole,
    truncate: bool,
    encoding: Encoding,
}

impl Terms {
    /// The terms that a first message asks for.
    fn of(message: &v1::EmbedStreamRequest, models: &Models) -> Result<Self> {
        Ok(Self {
            role: convert::role_from_message(message.role)?,
            encoding: convert::encoding_from_message(message.encoding)?,
            model: Arc::clone(models.embedding_model(message.model.as_deref())?),
            model_name: message.model.clone(),
            truncate: message.truncate.unwrap_or(true),
        })
    }

    /// Faults of a later message that asks for something else. What it leaves out stays as it is; the role is always there.
    fn check(&self, message: &v1::EmbedStreamRequest) -> Result<()> {
        let role = convert::role_from_message(message.role)?;
        let encoding = convert::encoding_from_message(message.encoding)?;
        let asks_for_encoding = message.encoding != i32::from(v1::VectorEncoding::Unspecified);
        let contradictions = [
            ("role", role != self.role),
            ("model", message.model.is_some() && message.model != self.model_name),
            ("truncate", message.truncate.is_some_and(|truncate| truncate != self.truncate)),
            ("encoding", asks_for_encoding && encoding != self.encoding),
        ];
        let violations = contradictions.into_iter().filter(|(_, contradicts)| *contradicts).map(|(field, _)| {
            let description = "contradicts the first message of the stream; open another stream for it".to_owned();
            FieldViolation { field: field.to_owned(), description }
        });
        Error::from_violations(violations.collect())
    }
}

/// The client's side of the stream.
enum Input {
    Open,
    /// The client has sent all it had.
    Ended,
    /// Nothing more is read; what was read is answered, and then the stream ends with this.
    Failed(Status),
}

/// One stream.
pub(super) struct Session<M> {
    messages: M,
    input: Input,
    /// Completes when the server stops.
    drain: Fuse<BoxFuture<'static, ()>>,
    models: Models,
    limits: Limits,
    context: RequestContext,
    _cancel_when_dropped: CancelOnDrop,
    terms: Option<Terms>,
    /// Texts of the next call.
    batch: Vec<Text>,
    batch_bytes: usize,
    /// When the next call begins at the latest.
    batch_due: Option<Instant>,
    running: FuturesUnordered<BoxFuture<'static, Vec<Answer>>>,
    ready: VecDeque<Answer>,
    /// Texts that are read and not answered, and their bytes.
    open_texts: usize,
    open_bytes: usize,
}

/// What a session waits for.
enum Event {
    Message(Option<Result<v1::EmbedStreamRequest, Status>>),
    Answered(Vec<Answer>),
    BatchDue,
    Draining,
}

impl<M> Session<M>
where
    M: Stream<Item = Result<v1::EmbedStreamRequest, Status>> + Send + Unpin + 'static,
{
    /// A stream over `messages`; when `drain` completes no more of them are read.
    pub(super) fn new(
        messages: M,
        models: Models,
        limits: Limits,
        context: RequestContext,
        drain: BoxFuture<'static, ()>,
    ) -> Self {
        Self {
            messages,
            input: Input::Open,
            drain: drain.fuse(),
            models,
            limits,
            _cancel_when_dropped: context.cancellation().cancel_on_drop(),
            context,
            terms: None,
            batch: Vec::new(),
            batch_bytes: 0,
            batch_due: None,
            running: FuturesUnordered::new(),
            ready: VecDeque::new(),
            open_texts: 0,
            open_bytes: 0,
        }
    }

    /// The answers.
    pub(super) fn answers(self) -> Answers {
        futures::stream::unfold(Some(self), async |session| {
            let mut session = session?;
            match session.next().await? {
                Ok(answer) => Some((Ok(answer), Some(session))),
                // The last word.
                Err(status) => Some((Err(status), None)),
            }
        })
        .boxed()
    }

    async fn next(&mut self) -> Option<Result<v1::EmbedStreamResponse, Status>> {
        loop {
            if let Some(Answer { id, outcome, bytes }) = self.ready.pop_front() {
                self.open_texts = self.open_texts.saturating_sub(1);
                self.open_bytes = self.open_bytes.saturating_sub(bytes);
                return Some(Ok(v1::EmbedStreamResponse { id, outcome: Some(outcome) }));
            }
            let reads = matches!(self.input, Input::Open) && self.has_room();
            if !reads {
                // Nothing more can come to share the call.
                self.call_model();
            }
            if self.running.is_empty() && self.batch.is_empty() {
                match std::mem::replace(&mut self.input, Input::Ended) {
                    Input::Open => self.input = Input::Open,
                    Input::Ended => return None,
                    Input::Failed(status) => return Some(Err(status)),
                }
            }
            match self.event(reads).await {
                Event::Message(Some(Ok(message))) => {
                    if let Err(error) = self.take(message) {
                        self.input = Input::Failed(status(&error));
                    }
                }
                Event::Message(Some(Err(status))) => self.input = Input::Failed(status),
                Event::Message(None) => self.input = Input::Ended,
                Event::Answered(answers) => self.ready.extend(answers),
                Event::BatchDue => self.call_model(),
                Event::Draining if matches!(self.input, Input::Open) => {
                    let error = Error::Unavailable("the server stops; send the rest to another one".to_owned());
                    self.input = Input::Failed(status(&error));
                }
                Event::Draining => {}
            }
        }
    }

    async fn event(&mut self, reads: bool) -> Event {
        let due = self.batch_due;
        tokio::select! {
            // What is ready gives back room, so it comes first.
            biased;
            Some(answers) = self.running.next(), if !self.running.is_empty() => Event::Answered(answers),
            () = tokio::time::sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => Event::BatchDue,
            () = &mut self.drain, if !self.drain.is_terminated() => Event::Draining,
            message = self.messages.next(), if reads => Event::Message(message),
        }
    }

    /// May another message be read?
    fn has_room(&self) -> bool {
        self.open_texts < WINDOW_TEXTS && self.open_bytes < WINDOW_BYTES
    }

    /// Puts a message's text into the next call, or answers it where it cannot be embedded.
    ///
    /// # Errors
    /// What ends the stream: terms that are wrong or contradict the first ones, and ids that cannot be answered to.
    fn take(&mut self, message: v1::EmbedStreamRequest) -> Result<()> {
        match &self.terms {
            Some(terms) => terms.check(&message)?,
            None => self.terms = Some(Terms::of(&message, &self.models)?),
        }
        if !(1..=MAX_ID_BYTES).contains(&message.id.len()) {
            let description = format!("must be 1 to {MAX_ID_BYTES} bytes long, got {}", message.id.len());
            return Err(Error::invalid("id", description));
        }
        let text = Text { id: message.id, text: message.text };
        let bytes = text.bytes();
        self.open_texts += 1;
        self.open_bytes += bytes;
        if let Err(error) = self.limits.check_text(|| "text".to_owned(), &text.text) {
            self.ready.push_back(failure(text, &error));
            return Ok(());
        }
        if self.batch_bytes + bytes > BATCH_BYTES {
            self.call_model();
        }
        self.batch_due.get_or_insert_with(|| Instant::now() + BATCH_WAIT);
        self.batch_bytes += bytes;
        self.batch.push(text);
        if self.batch.len() >= BATCH_TEXTS || self.batch_bytes >= BATCH_BYTES {
            self.call_model();
        }
        Ok(())
    }

    /// Begins the call that was being put together, if there is one.
    fn call_model(&mut self) {
        self.batch_due = None;
        self.batch_bytes = 0;
        let texts = std::mem::take(&mut self.batch);
        if let Some(terms) = self.terms.clone().filter(|_| !texts.is_empty()) {
            let context = self.context.clone();
            self.running.push(async move { embed(&terms, &context, texts).await }.boxed());
        }
    }
}

/// One call of the model. A full queue is waited for, since a stream is held up anyway; a call that fails over one of its texts
/// is repeated text by text, so that only that one fails.
async fn embed(terms: &Terms, context: &RequestContext, texts: Vec<Text>) -> Vec<Answer> {
    let error = match embed_together(terms, context, &texts).await {
        Ok(outcomes) => {
            return texts.into_iter().zip(outcomes).map(|(text, outcome)| answer(text, outcome)).collect();
        }
        Err(error) => error,
    };
    let may_be_one_text = matches!(error, Error::Internal(_) | Error::InvalidArgument(_));
    if texts.len() == 1 || !may_be_one_text {
        return texts.into_iter().map(|text| failure(text, &error)).collect();
    }
    tracing::debug!(%error, texts = texts.len(), "a call of a stream failed; its texts are tried one by one");
    let mut answers = Vec::with_capacity(texts.len());
    for text in texts {
        let alone = embed_together(terms, context, std::slice::from_ref(&text)).await;
        answers.push(match alone.map(|mut outcomes| outcomes.pop()) {
            Ok(Some(outcome)) => answer(text, outcome),
            Ok(None) => failure(text, &Error::Internal("the model gave no vector".to_owned())),
            Err(error) => failure(text, &error),
        });
    }
    answers
}

/// The outcomes, aligned with the texts.
async fn embed_together(terms: &Terms, context: &RequestContext, texts: &[Text]) -> Result<Vec<Outcome>> {
    let embeddings = loop {
        let contents = texts.iter().map(|text| text.text.clone()).collect();
        match terms.model.embed(context, terms.role, contents).await {
            Err(Error::ResourceExhausted { retry_after, .. }) => {
                let pause = retry_after.unwrap_or(RETRY_PAUSE);
                tokio::time::sleep(context.remaining().map_or(pause, |remaining| pause.min(remaining))).await;
                context.check("while the queue was full")?;
            }
            other => break other?,
        }
    };
    if embeddings.len() != texts.len() {
        let (vectors, texts) = (embeddings.len(), texts.len());
        return Err(Error::Internal(format!("the model gave {vectors} vectors for {texts} texts")));
    }
    let outcomes = embeddings.iter().map(|embedding| {
        match check_truncation(Some(terms.truncate), std::slice::from_ref(embedding), |_| "text".to_owned()) {
            Ok(()) => {
                let (vector, usage) = to_message(embedding, terms.encoding);
                Outcome::Embedded(v1::EmbeddedText { vector: Some(vector), usage: Some(usage) })
            }
            Err(error) => failed(&error),
        }
    });
    Ok(outcomes.collect())
}

fn answer(text: Text, outcome: Outcome) -> Answer {
    Answer { bytes: text.bytes(), id: text.id, outcome }
}

fn failure(text: Text, error: &Error) -> Answer {
    answer(text, failed(error))
}

fn failed(error: &Error) -> Outcome {
    let status = status(error);
    Outcome::Failure(v1::EmbedFailure { code: status.code().into(), message: status.message().to_owned() })
}

#[cfg(test)]
mod tests;
