//! End to end: every test starts its own `toller` processes on free ports and folders, and speaks to them as any caller would.

mod auth;
mod backup;
mod bad_input;
mod cli;
mod collections;
mod composed;
mod document_stores;
mod documents;
mod edge;
mod embedder;
mod embedding_pool;
mod expect;
mod formats;
mod ingest;
mod keyword;
mod lifecycle;
mod named_vectors;
mod protocol;
mod qdrant;
mod reembed;
mod remote_embedder;
mod retrieval;
mod retrievers;
mod telemetry;
mod tenants;
mod watch;
