//! Keyword search: BM25 over the texts of a collection, with the same scores on every backend.
//!
//! A text becomes terms ([`Analyzer`]), and the terms a sparse vector ([`document_vector`], [`query_vector`]). The
//! score of a document is the inner product of both vectors, each term times its inverse document frequency:
//!
//! ```text
//! score(q, d)  = Σ over the terms t of q and d:  occurrences of t in q · idf(t) · weight(t, d)
//! idf(t)       = ln(1 + (N − n + 0.5) / (n + 0.5))
//! weight(t, d) = tf · (k1 + 1) / (tf + k1 · (1 − b + b · length / 256))
//! ```
//!
//! with N records in the collection of which n have the term, tf occurrences of t among the `length` terms of d, k1 =
//! 1.2 and b = 0.75 ([`bm25`]). So every occurrence in the query adds, as in Lucene, and the whole is above 0 wherever
//! one term is in both. Of a query the first 1024 different terms count. A document's vector depends on nothing but its text and the collection's language; the
//! frequencies are counted when a query comes.
//!
//! What analysis makes of a text is stored by backends that keep their vectors. Whoever changes it changes what is
//! found in their collections until the documents are written again.

pub mod analyzer;
pub mod bm25;
mod fold;
mod language;
mod segments;
pub mod terms;

pub use analyzer::Analyzer;
pub use terms::{MAX_QUERY_TERMS, TermWeight, document_vector, query_vector};
