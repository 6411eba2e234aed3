//! `toller.v1.Documents`.

use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use toller_api::convert::{self, Encoding};
use toller_api::v1;
use toller_api::v1::documents_server::Documents as DocumentsRpc;
use toller_core::vector_store::Selector;
use toller_core::{DocumentId, Error, Record, RequestContext, Result, Role};
use toller_serving::context::answer;
use toller_store::{AddOptions, CollectionHandle, Collections, NewDocument};
use tonic::{Request, Response, Status};

use crate::limits::Limits;

const DEFAULT_PAGE_SIZE: u32 = 100;
const MAX_PAGE_SIZE: u32 = 1000;

pub(crate) struct DocumentsService {
    pub(crate) collections: Arc<Collections>,
    pub(crate) limits: Limits,
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
                        bytes += encoded_bytes(&document);
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
            let deleted = collection.delete(&context, &selector).await?;
            Ok(v1::DocumentsDeleteResponse { deleted })
        })
        .await
    }

    async fn list(
        &self,
        request: Request<v1::DocumentsListRequest>,
    ) -> Result<Response<v1::DocumentsListResponse>, Status> {
        answer(request, Role::Reader, async |context, message| {
            let page_size = message.page_size.unwrap_or(DEFAULT_PAGE_SIZE);
            if !(1..=MAX_PAGE_SIZE).contains(&page_size) {
                return Err(Error::invalid("page_size", format!("must be from 1 to {MAX_PAGE_SIZE}, got {page_size}")));
            }
            let ids_only = message.ids_only.unwrap_or(false);
            if ids_only && message.with_vectors == Some(true) {
                return Err(Error::invalid("with_vectors", "contradicts ids_only"));
            }
            let encoding = wanted_vectors(message.with_vectors, message.encoding)?;
            let filter = convert::optional_filter_from_message(message.filter)?;
            self.limits.check_filter(filter.as_ref())?;
            let from = id_from_page_token(&message.page_token)?;
            let collection = self.open(&context, &message.collection).await?;
            let page = collection.scroll(&context, filter.as_ref(), from.as_ref(), page_size as usize).await?;

            let mut answer = v1::DocumentsListResponse {
                next_page_token: page.next.as_ref().map(page_token).unwrap_or_default(),
                ..Default::default()
            };
            let mut bytes = 0;
            for record in &page.records {
                let document = if ids_only {
                    v1::Document { id: Some(record.document.id.as_str().to_owned()), ..Default::default() }
                } else {
                    record_to_message(record, encoding)
                };
                bytes += encoded_bytes(&document);
                // A page ends early where the next document would not fit into the message.
                if bytes + MAX_PAGE_TOKEN_BYTES > self.limits.max_message_bytes() && !answer.documents.is_empty() {
                    answer.next_page_token = page_token(&record.document.id);
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

/// An id of the longest allowed length, in base64, with the bytes of its field.
const MAX_PAGE_TOKEN_BYTES: usize = 1400;

/// The bytes that a document adds to an answer.
fn encoded_bytes(document: &v1::Document) -> usize {
    /// Tag and length of a repeated message.
    const OVERHEAD_BYTES: usize = 6;
    prost::Message::encoded_len(document) + OVERHEAD_BYTES
}

fn wanted_vectors(with_vectors: Option<bool>, encoding: i32) -> Result<Option<Encoding>> {
    let encoding = convert::encoding_from_message(encoding)?;
    Ok(with_vectors.unwrap_or(false).then_some(encoding))
}

fn record_to_message(record: &Record, encoding: Option<Encoding>) -> v1::Document {
    let vectors = encoding.map(|encoding| convert::vectors_to_message(record, encoding));
    convert::document_to_message(&record.document, vectors)
}

/// The token of the page that begins with `id`; opaque to clients.
fn page_token(id: &DocumentId) -> String {
    URL_SAFE_NO_PAD.encode(id.as_str())
}

fn id_from_page_token(token: &str) -> Result<Option<DocumentId>> {
    if token.is_empty() {
        return Ok(None);
    }
    let id = URL_SAFE_NO_PAD.decode(token).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    let id = id.and_then(|id| DocumentId::new(id).ok());
    id.map(Some).ok_or_else(|| Error::invalid("page_token", "must be the next_page_token of an earlier answer"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_tokens_survive_the_round_trip() {
        for id in ["a", "docs/ünï.md#1", "\u{10FFFF}"] {
            let id = DocumentId::new(id).unwrap();
            assert_eq!(id_from_page_token(&page_token(&id)), Ok(Some(id)));
        }
        assert!(id_from_page_token("???").is_err());
        assert_eq!(id_from_page_token(""), Ok(None));
    }
}
