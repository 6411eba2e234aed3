//! The gRPC services, one file each. They convert, check limits, and call the layers below.

mod backups;
mod collections;
mod document_stores;
mod documents;
mod embedder;
mod operations;
mod page;
mod retrieval;
mod retrievers;

pub(crate) use backups::BackupsService;
pub(crate) use collections::CollectionsService;
pub(crate) use document_stores::DocumentStoresService;
pub(crate) use documents::DocumentsService;
pub(crate) use embedder::EmbedderService;
pub(crate) use operations::OperationsService;
pub(crate) use retrieval::RetrievalService;
pub(crate) use retrievers::RetrieversService;
