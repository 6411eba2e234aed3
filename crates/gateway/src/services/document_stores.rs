//! `toller.v1.DocumentStores`.

use std::sync::Arc;

use toller_api::convert;
use toller_api::v1;
use toller_api::v1::document_stores_delete_request::Selector as SelectorMessage;
use toller_api::v1::document_stores_server::DocumentStores as DocumentStoresRpc;
use toller_core::filter::KeyPath;
use toller_core::retriever::DEFAULT_ID_KEY;
use toller_core::vector_store::Selector;
use toller_core::{
    CollectionName, Document, DocumentId, DocumentStore, Error, Filter, RequestContext, Result, Role, Value,
};
use toller_serving::context::answer;
use toller_store::Collections;
use tonic::{Request, Response, Status};

use super::page;
use crate::limits::Limits;

pub(crate) struct DocumentStoresService {
    pub(crate) documents: Arc<dyn DocumentStore>,
    pub(crate) collections: Arc<Collections>,
    pub(crate) limits: Limits,
}

impl DocumentStoresService {
    fn document(&self, index: usize, message: v1::Document) -> Result<Document> {
        let convert = || {
            self.limits.check_text(|| "page_content".to_owned(), &message.page_content)?;
            if message.vectors.is_some() {
                return Err(Error::invalid("vectors", "must be left out: a document store keeps no vectors"));
            }
            let id =
                message.id.ok_or_else(|| Error::invalid("id", "must be given: children name their parent by it"))?;
            let id = DocumentId::new(id).map_err(|fault| Error::invalid("id", fault))?;
            let metadata = v1::MapValue { entries: message.metadata };
            self.limits.check_metadata(prost::Message::encoded_len(&metadata))?;
            let metadata = convert::metadata_from_message(metadata.entries)?;
            Ok(Document { id, page_content: message.page_content, metadata })
        };
        convert().map_err(|error: Error| error.within(&format!("documents[{index}]")))
    }

    /// Deletes the children of the documents `ids`, and returns how many there were.
    async fn delete_children(
        &self,
        context: &RequestContext,
        children: v1::Children,
        ids: &[DocumentId],
    ) -> Result<u64> {
        let name = convert::collection_name_from_message("collection", &children.collection)?;
        let id_key = children.id_key.as_deref().unwrap_or(DEFAULT_ID_KEY);
        let id_key = KeyPath::parse(id_key).map_err(|fault| Error::invalid("id_key", fault))?;
        let collection = self.collections.open(context, &name).await?;
        let of_parents = Filter::In(id_key, ids.iter().map(|id| Value::from(id.as_str())).collect());
        collection.delete(context, &Selector::Filter(of_parents)).await
    }
}

#[tonic::async_trait]
impl DocumentStoresRpc for DocumentStoresService {
    async fn put(
        &self,
        request: Request<v1::DocumentStoresPutRequest>,
    ) -> Result<Response<v1::DocumentStoresPutResponse>, Status> {
        answer(request, Role::Writer, async |context, message| {
            self.limits.check_documents("documents", message.documents.len())?;
            let name = store_name(&message.document_store)?;
            let documents = message.documents.into_iter().enumerate();
            let documents =
                documents.map(|(index, document)| self.document(index, document)).collect::<Result<Vec<_>>>()?;
            self.documents.put(&context, &name, documents).await?;
            Ok(v1::DocumentStoresPutResponse {})
        })
        .await
    }

    async fn get(
        &self,
        request: Request<v1::DocumentStoresGetRequest>,
    ) -> Result<Response<v1::DocumentStoresGetResponse>, Status> {
        answer(request, Role::Reader, async |context, message| {
            self.limits.check_documents("ids", message.ids.len())?;
            let name = store_name(&message.document_store)?;
            let ids = convert::ids_from_message(&message.ids)?;
            let found = self.documents.get(&context, &name, &ids).await?;
            let mut answer = v1::DocumentStoresGetResponse::default();
            let mut bytes = 0;
            for (id, document) in ids.iter().zip(found) {
                match document {
                    None => answer.missing_ids.push(id.as_str().to_owned()),
                    Some(document) => {
                        let document = convert::document_to_message(&document, None);
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
        request: Request<v1::DocumentStoresDeleteRequest>,
    ) -> Result<Response<v1::DocumentStoresDeleteResponse>, Status> {
        answer(request, Role::Writer, async |context, message| {
            let name = store_name(&message.document_store)?;
            let ids = match message.selector {
                None => return Err(Error::invalid("selector", "must be ids, or all = true")),
                Some(SelectorMessage::All(false)) => {
                    return Err(Error::invalid("all", "must be true where it is the selector"));
                }
                Some(SelectorMessage::All(true)) if message.children.is_some() => {
                    return Err(Error::invalid("children", "is of use with ids only"));
                }
                Some(SelectorMessage::All(true)) => {
                    let deleted = self.documents.delete_all(&context, &name).await?;
                    return Ok(v1::DocumentStoresDeleteResponse { deleted, deleted_children: 0 });
                }
                Some(SelectorMessage::Ids(v1::DocumentIds { ids })) => {
                    self.limits.check_documents("ids.ids", ids.len())?;
                    convert::ids_from_message(&ids).map_err(|error| error.within("ids"))?
                }
            };
            let deleted_children = match message.children {
                None => 0,
                Some(children) => {
                    let deleted = self.delete_children(&context, children, &ids).await;
                    deleted.map_err(|error| error.within("children"))?
                }
            };
            let deleted = self.documents.delete(&context, &name, &ids).await?;
            Ok(v1::DocumentStoresDeleteResponse { deleted, deleted_children })
        })
        .await
    }

    async fn list(
        &self,
        request: Request<v1::DocumentStoresListRequest>,
    ) -> Result<Response<v1::DocumentStoresListResponse>, Status> {
        answer(request, Role::Reader, async |context, message| {
            let size = page::size(message.page_size)?;
            let name = store_name(&message.document_store)?;
            let after = page::id_from_token(&message.page_token)?;
            let ids_only = message.ids_only.unwrap_or(false);
            // One more, which says whether there is another page.
            let mut found = self.documents.scroll(&context, &name, after.as_ref(), size + 1).await?;
            let mut has_more = found.len() > size;
            found.truncate(size);

            let mut answer = v1::DocumentStoresListResponse::default();
            let mut last = None;
            let mut bytes = 0;
            for document in found {
                let message = if ids_only {
                    v1::Document { id: Some(document.id.as_str().to_owned()), ..Default::default() }
                } else {
                    convert::document_to_message(&document, None)
                };
                bytes += page::encoded_bytes(&message);
                // A page ends early where the next document would not fit into the message.
                if bytes + page::MAX_TOKEN_BYTES > self.limits.max_message_bytes() && last.is_some() {
                    has_more = true;
                    break;
                }
                self.limits.check_answer("page_size", bytes)?;
                answer.documents.push(message);
                last = Some(document.id);
            }
            answer.next_page_token = last.as_ref().filter(|_| has_more).map(page::token).unwrap_or_default();
            Ok(answer)
        })
        .await
    }
}

fn store_name(name: &str) -> Result<CollectionName> {
    convert::collection_name_from_message("document_store", name)
}
