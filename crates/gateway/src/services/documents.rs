//! `toller.v1.Documents`.

mod index;
mod index_settings;
mod splitter;

use std::sync::Arc;

use toller_api::convert::{self, Encoding};
use toller_api::v1;
use toller_api::v1::documents_server::Documents as DocumentsRpc;
use toller_core::vector_store::Selector;
use toller_core::{DocumentStore, Error, Record, RequestContext, Result, Role};
use toller_indexing::ParentRoom;
use toller_serving::context::{answer, request_context, require};
use toller_serving::drain::draining;
use toller_serving::read_ahead::read_ahead;
use toller_serving::status::status;
use toller_store::{AddOptions, CollectionHandle, Collections, NewDocument};
use toller_telemetry::metrics::IndexMetrics;
use tonic::{Request, Response, Status, Streaming};

use self::index::{IndexAnswers, Indexing};
use super::page;
use crate::limits::Limits;

/// Bytes of an index run that are read ahead: some ten thousand small messages, or one of the largest.
const READ_AHEAD: u32 = 16 << 20;

pub(crate) struct DocumentsService {
    pub(crate) collections: Arc<Collections>,
    /// Where the parents of chunks are.
    pub(crate) parents: Arc<dyn DocumentStore>,
    pub(crate) limits: Limits,
    pub(crate) index_metrics: Arc<IndexMetrics>,
}

impl DocumentsService {
    async fn open(&self, context: &RequestContext, name: &str) -> Result<CollectionHandle> {
        let name = convert::collection_name_from_message("collection", name)?;
        self.collections.open(context, &name).await
    }

    fn new_document(&self, index: usize, message: v1::Document) -> Result<NewDocument> {
        let convert = || {
            self.limits.check_text(|| "page_content".to_owned(), &message.page_content)?;
            let vectors = message.vectors.map(convert::vectors_from_message).transpose();
            let (vector, named) = vectors.map_err(|error| error.within("vectors"))?.unwrap_or_default();
            let metadata = v1::MapValue { entries: message.metadata };
            self.limits.check_metadata(prost::Message::encoded_len(&metadata))?;
            let metadata = convert::metadata_from_message(metadata.entries)?;
            Ok(NewDocument { id: message.id, page_content: message.page_content, metadata, vector, named })
        };
        convert().map_err(|error: Error| error.within(&format!("documents[{index}]")))
    }
}

#[tonic::async_trait]
impl DocumentsRpc for DocumentsService {
    type IndexStream = IndexAnswers;

    async fn index(
        &self,
        request: Request<Streaming<v1::DocumentsIndexRequest>>,
    ) -> Result<Response<IndexAnswers>, Status> {
        let context = request_context(&request).map_err(|error| status(&error))?;
        require(&context, Role::Writer).map_err(|error| status(&error))?;
        let drain = draining(&request);
        let indexing = Indexing {
            collections: Arc::clone(&self.collections),
            parents: Arc::clone(&self.parents),
            limits: self.limits.clone(),
            metrics: Arc::clone(&self.index_metrics),
        };
        Ok(Response::new(index::answers(indexing, read_ahead(request.into_inner(), READ_AHEAD), context, drain)))
    }

    async fn add(
        &self,
        request: Request<v1::DocumentsAddRequest>,
    ) -> Result<Response<v1::DocumentsAddResponse>, Status> {
        answer(request, Role::Writer, async |context, message| {
            self.limits.check_documents("documents", message.documents.len())?;
            let documents = message.documents.into_iter().enumerate();
            let documents =
                documents.map(|(index, document)| self.new_document(index, document)).collect::<Result<Vec<_>>>()?;
            let collection = self.open(&context, &message.collection).await?;
            let options = AddOptions {
                request_id: message.request_id.as_deref(),
                refuse_truncation: message.truncate == Some(false),
            };
            let added = collection.add_with(&context, documents, options).await?;
            Ok(v1::DocumentsAddResponse {
                ids: added.ids.iter().map(|id| id.as_str().to_owned()).collect(),
                usage: added
                    .usage
                    .iter()
                    .map(|usage| v1::TextUsage { token_count: usage.token_count, truncated: usage.truncated })
                    .collect(),
            })
        })
        .await
    }

    async fn get(
        &self,
        request: Request<v1::DocumentsGetRequest>,
    ) -> Result<Response<v1::DocumentsGetResponse>, Status> {
        answer(request, Role::Reader, async |context, message| {
            self.limits.check_documents("ids", message.ids.len())?;
            let ids = convert::ids_from_message(&message.ids)?;
            let encoding = wanted_vectors(message.with_vectors, message.encoding)?;
            let collection = self.open(&context, &message.collection).await?;
            let records = collection.get(&context, &ids).await?;
            let mut answer = v1::DocumentsGetResponse::default();
            let mut bytes = 0;
            for (id, record) in ids.iter().zip(records) {
                match record {
                    None => answer.missing_ids.push(id.as_str().to_owned()),
                    Some(record) => {
                        let document = record_to_message(&record, encoding);
                        bytes += page::encoded_bytes(&document);
                        self.limits.check_answer("ids", bytes)?;
                        answer.documents.push(document);
                    }
                }
            }
            Ok(answer)
        })
        .await
    }

    async fn delete(
        &self,
        request: Request<v1::DocumentsDeleteRequest>,
    ) -> Result<Response<v1::DocumentsDeleteResponse>, Status> {
        use v1::documents_delete_request::Selector as Message;

        answer(request, Role::Writer, async |context, message| {
            let selector = match message.selector {
                None => return Err(Error::invalid("selector", "must be ids, a filter, or all = true")),
                Some(Message::Ids(ids)) => {
                    self.limits.check_documents("ids.ids", ids.ids.len())?;
                    Selector::Ids(convert::ids_from_message(&ids.ids).map_err(|error| error.within("ids"))?)
                }
                Some(Message::Filter(filter)) => {
                    let filter = convert::filter_from_message(filter).map_err(|error| error.within("filter"))?;
                    self.limits.check_filter(Some(&filter))?;
                    Selector::Filter(filter)
                }
                Some(Message::All(true)) => Selector::All,
                Some(Message::All(false)) => {
                    return Err(Error::invalid("all", "must be true where it is the selector"));
                }
            };
            let collection = self.open(&context, &message.collection).await?;
            let ids = match &selector {
                Selector::Ids(ids) => Some(ids.as_slice()),
                Selector::Filter(_) | Selector::All => None,
            };
            let room = ParentRoom::new(collection.clone(), Arc::clone(&self.parents));
            let note = room.before_children_go(&context, ids).await?;
            let deleted = collection.delete(&context, &selector).await?;
            if let Some(note) = note {
                room.sweep_later(&context, note, ids);
            }
            Ok(v1::DocumentsDeleteResponse { deleted })
        })
        .await
    }

    async fn list(
        &self,
        request: Request<v1::DocumentsListRequest>,
    ) -> Result<Response<v1::DocumentsListResponse>, Status> {
        answer(request, Role::Reader, async |context, message| {
            let page_size = page::size(message.page_size)?;
            let ids_only = message.ids_only.unwrap_or(false);
            if ids_only && message.with_vectors == Some(true) {
                return Err(Error::invalid("with_vectors", "contradicts ids_only"));
            }
            let encoding = wanted_vectors(message.with_vectors, message.encoding)?;
            let filter = convert::optional_filter_from_message(message.filter)?;
            self.limits.check_filter(filter.as_ref())?;
            let from = page::id_from_token(&message.page_token)?;
            let collection = self.open(&context, &message.collection).await?;
            let page = collection.scroll(&context, filter.as_ref(), from.as_ref(), page_size).await?;

            let mut answer = v1::DocumentsListResponse {
                next_page_token: page.next.as_ref().map(page::token).unwrap_or_default(),
                ..Default::default()
            };
            let mut bytes = 0;
            for record in &page.records {
                let document = if ids_only {
                    v1::Document { id: Some(record.document.id.as_str().to_owned()), ..Default::default() }
                } else {
                    record_to_message(record, encoding)
                };
                bytes += page::encoded_bytes(&document);
                // A page ends early where the next document would not fit into the message.
                if bytes + page::MAX_TOKEN_BYTES > self.limits.max_message_bytes() && !answer.documents.is_empty() {
                    answer.next_page_token = page::token(&record.document.id);
                    break;
                }
                self.limits.check_answer("page_size", bytes)?;
                answer.documents.push(document);
            }
            Ok(answer)
        })
        .await
    }

    async fn count(
        &self,
        request: Request<v1::DocumentsCountRequest>,
    ) -> Result<Response<v1::DocumentsCountResponse>, Status> {
        answer(request, Role::Reader, async |context, message| {
            let filter = convert::optional_filter_from_message(message.filter)?;
            self.limits.check_filter(filter.as_ref())?;
            let collection = self.open(&context, &message.collection).await?;
            let count = collection.count(&context, filter.as_ref()).await?;
            Ok(v1::DocumentsCountResponse { count })
        })
        .await
    }
}

fn wanted_vectors(with_vectors: Option<bool>, encoding: i32) -> Result<Option<Encoding>> {
    let encoding = convert::encoding_from_message(encoding)?;
    Ok(with_vectors.unwrap_or(false).then_some(encoding))
}

fn record_to_message(record: &Record, encoding: Option<Encoding>) -> v1::Document {
    let vectors = encoding.map(|encoding| convert::vectors_to_message(record, encoding));
    convert::document_to_message(&record.document, vectors)
}
