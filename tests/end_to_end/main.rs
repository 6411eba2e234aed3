//! End to end: every test starts its own `toller` processes on free ports and folders, and speaks to them as any caller would.

mod auth;
mod bad_input;
mod cli;
mod collections;
mod composed;
mod documents;
mod edge;
mod embedder;
mod embedding_pool;
mod expect;
mod keyword;
mod lifecycle;
mod protocol;
mod qdrant;
mod remote_embedder;
mod retrieval;
mod retrievers;
mod telemetry;
