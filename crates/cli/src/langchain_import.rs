//! From a dump of LangChain's `InMemoryVectorStore` into a collection with client vectors.

use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;

use prost::Message as _;
use serde::Serialize;
use toller_api::convert::{Encoding, document_to_message, vectors_to_message};
use toller_api::v1;
use toller_api::v1::collections_create_request::Vectors;
use toller_core::Record;
use toller_core::fingerprint::CLIENT_PROVIDER;
use toller_store::backends::memory::read_langchain_dump;
use tonic::Code;

use crate::client::Connection;
use crate::error::Error;
use crate::names::Metric;

/// Most documents of one request; servers take 1000 unless they are told otherwise.
const BATCH_DOCUMENTS: usize = 256;

/// Most bytes of one request. gRPC servers take 4 MiB unless they are told otherwise; one document may be larger.
const BATCH_BYTES: usize = 2 << 20;

/// What to import, and where to.
#[derive(Debug)]
pub(crate) struct Import {
    /// Name of the collection.
    pub(crate) collection: String,
    /// The dump.
    pub(crate) file: PathBuf,
    /// Metric where the collection is made; must agree where it exists.
    pub(crate) metric: Option<Metric>,
}

/// What was imported.
#[derive(Debug, Serialize)]
pub(crate) struct Imported {
    collection: String,
    created: bool,
    documents: usize,
}

impl fmt::Display for Imported {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = if self.created { "made collection" } else { "collection" };
        write!(
            formatter,
            "{what} \"{}\": imported {} {}",
            self.collection,
            self.documents,
            if self.documents == 1 { "document" } else { "documents" }
        )
    }
}

impl Import {
    /// Checks the whole file first, then writes it in batches.
    ///
    /// # Errors
    /// `Failed` for a dump that cannot be read or does not fit the collection, before anything is written; `Call` for what
    /// the server refuses.
    pub(crate) async fn run(self, connection: &Connection) -> Result<Imported, Error> {
        let mut collections = connection.collections();
        let request = v1::CollectionsGetRequest { name: self.collection.clone() };
        let existing = match collections.get(request).await {
            Ok(answer) => Some(answer.into_inner().collection.unwrap_or_default()),
            Err(status) if status.code() == Code::NotFound => None,
            Err(status) => return Err(status.into()),
        };
        let metric = self.metric_of(existing.as_ref())?;
        let records =
            read_langchain_dump(&self.file, metric.into()).map_err(|fault| Error::Failed(fault.to_string()))?;
        refuse_repeated_ids(&records)?;

        let dimension = records.first().map(|record| record.vector.dimension());
        let created = match (&existing, dimension) {
            (Some(collection), Some(dimension)) => {
                check_fit(collection, dimension)?;
                false
            }
            (Some(_), None) => false,
            (None, None) => {
                return Err(Error::Failed(format!(
                    "{} has no documents, so the dimension of collection \"{}\" is not known; make it with `toller collections create`",
                    self.file.display(),
                    self.collection
                )));
            }
            (None, Some(dimension)) => {
                let dimension = u32::try_from(dimension).unwrap_or(u32::MAX);
                let request = v1::CollectionsCreateRequest {
                    name: self.collection.clone(),
                    metric: metric.into(),
                    vectors: Some(Vectors::Client(v1::ClientVectors { dimension })),
                    ..Default::default()
                };
                collections.create(request).await?;
                true
            }
        };

        let mut documents = connection.documents();
        let count = records.len();
        for batch in batches(records.iter().map(message), BATCH_DOCUMENTS, BATCH_BYTES) {
            let request =
                v1::DocumentsAddRequest { collection: self.collection.clone(), documents: batch, ..Default::default() };
            documents.add(request).await?;
        }
        Ok(Imported { collection: self.collection, created, documents: count })
    }

    fn metric_of(&self, existing: Option<&v1::Collection>) -> Result<Metric, Error> {
        let Some(collection) = existing else { return Ok(self.metric.unwrap_or(Metric::Cosine)) };
        let metric = Metric::from_message(collection.metric).ok_or_else(|| {
            Error::Failed(format!("collection \"{}\" has a metric that this version does not know", self.collection))
        })?;
        match self.metric {
            Some(wanted) if wanted != metric => {
                Err(Error::Failed(format!("collection \"{}\" has metric {metric}, not {wanted}", self.collection)))
            }
            _ => Ok(metric),
        }
    }
}

fn refuse_repeated_ids(records: &[Record]) -> Result<(), Error> {
    let mut seen = BTreeSet::new();
    match records.iter().find(|record| !seen.insert(&record.document.id)) {
        Some(record) => {
            Err(Error::Failed(format!("the id {:?} stands twice in the dump", record.document.id.as_str())))
        }
        None => Ok(()),
    }
}

fn check_fit(collection: &v1::Collection, dimension: usize) -> Result<(), Error> {
    let fingerprint = collection.fingerprint.clone().unwrap_or_default();
    if fingerprint.provider != CLIENT_PROVIDER {
        return Err(Error::Failed(format!(
            "collection \"{}\" is filled by {} {}, and a dump does not say which model made its vectors; import into a collection of another name",
            collection.name, fingerprint.provider, fingerprint.model
        )));
    }
    if fingerprint.dimension as usize != dimension {
        return Err(Error::Failed(format!(
            "collection \"{}\" has dimension {}, the dump has {dimension}",
            collection.name, fingerprint.dimension
        )));
    }
    Ok(())
}

fn message(record: &Record) -> v1::Document {
    document_to_message(&record.document, Some(vectors_to_message(record, Encoding::Packed)))
}

/// Groups documents into batches of at most `most_documents`, and of at most `most_bytes` where more than one fits.
fn batches(
    documents: impl Iterator<Item = v1::Document>,
    most_documents: usize,
    most_bytes: usize,
) -> impl Iterator<Item = Vec<v1::Document>> {
    let mut documents = documents.peekable();
    std::iter::from_fn(move || {
        let mut batch = vec![documents.next()?];
        let mut bytes: usize = batch.iter().map(v1::Document::encoded_len).sum();
        while batch.len() < most_documents
            && let Some(next) = documents.next_if(|next| bytes + next.encoded_len() <= most_bytes)
        {
            bytes += next.encoded_len();
            batch.push(next);
        }
        Some(batch)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn document(text_bytes: usize) -> v1::Document {
        v1::Document { page_content: "x".repeat(text_bytes), ..Default::default() }
    }

    proptest! {
        #[test]
        fn batches_keep_order_and_bounds(sizes in prop::collection::vec(0_usize..300, 0..40)) {
            let batches: Vec<_> = batches(sizes.iter().copied().map(document), 5, 500).collect();
            let lengths: Vec<usize> = batches.iter().flatten().map(|document| document.page_content.len()).collect();
            prop_assert_eq!(lengths, sizes);
            for batch in &batches {
                let bytes: usize = batch.iter().map(v1::Document::encoded_len).sum();
                prop_assert!(!batch.is_empty() && batch.len() <= 5 && bytes <= 500);
            }
        }
    }

    #[test]
    fn a_document_over_the_bound_goes_alone() {
        let lengths: Vec<usize> =
            batches([10, 900, 10].map(document).into_iter(), 5, 500).map(|batch| batch.len()).collect();
        assert_eq!(lengths, [1, 1, 1]);
    }

    fn collection(provider: &str, dimension: u32, metric: v1::Metric) -> v1::Collection {
        let fingerprint = v1::Fingerprint { provider: provider.to_owned(), dimension, ..Default::default() };
        v1::Collection {
            name: "c".to_owned(),
            metric: metric.into(),
            fingerprint: Some(fingerprint),
            ..Default::default()
        }
    }

    #[test]
    fn a_dump_must_fit_the_collection() {
        assert!(check_fit(&collection("client", 3, v1::Metric::Cosine), 3).is_ok());
        let fault = check_fit(&collection("client", 3, v1::Metric::Cosine), 4).unwrap_err().to_string();
        assert!(fault.contains("has dimension 3, the dump has 4"), "{fault}");
        let fault = check_fit(&collection("candle", 3, v1::Metric::Cosine), 3).unwrap_err().to_string();
        assert!(fault.contains("filled by candle"), "{fault}");
    }

    #[test]
    fn the_metric_of_an_existing_collection_stands() {
        let import = |metric| Import { collection: "c".to_owned(), file: PathBuf::new(), metric };
        let dot = collection("client", 3, v1::Metric::Dot);
        assert_eq!(import(None).metric_of(None).unwrap(), Metric::Cosine);
        assert_eq!(import(None).metric_of(Some(&dot)).unwrap(), Metric::Dot);
        assert_eq!(import(Some(Metric::Euclidean)).metric_of(None).unwrap(), Metric::Euclidean);
        assert!(import(Some(Metric::Cosine)).metric_of(Some(&dot)).is_err());
    }
}
