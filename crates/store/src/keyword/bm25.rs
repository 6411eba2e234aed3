//! The formula: BM25 as Lucene has it, with a fixed average length.
//!
//! S. Robertson, H. Zaragoza: The Probabilistic Relevance Framework: BM25 and Beyond, 2009. The inverse
//! document frequency is that of Lucene's `BM25Similarity`: with 1 added inside of the logarithm it is above 0 even for
//! a term that is in every document, where the original turns negative. Lucene leaves out the factor k1 + 1 since it
//! changes no order; it is kept here, as in the paper and in Qdrant's BM25.

/// How soon more occurrences of a term in a document count less.
pub const K1: f64 = 1.2;

/// How far long documents are discounted: 0 not at all, 1 in full.
pub const B: f64 = 0.75;

/// The length in terms that counts as average.
///
/// It is fixed, as in Qdrant's BM25: with the collection's own average, each write would change the vectors of all
/// other documents. 256 is the order of a passage.
pub const AVERAGE_LENGTH: f64 = 256.0;

/// The inverse document frequency of a term that is in `with_term` of `documents` documents. Above 0 for `with_term` up
/// to `documents`.
///
/// ```
/// use toller_store::keyword::bm25::idf;
/// assert!(idf(10, 1) > idf(10, 5));
/// assert!(idf(10, 10) > 0.0);
/// ```
pub fn idf(documents: u64, with_term: u64) -> f64 {
    let (all, with_term) = (documents as f64, with_term as f64);
    (1.0 + (all - with_term + 0.5) / (with_term + 0.5)).ln()
}

/// The weight of a term that stands `occurrences` times in a document of `length` terms. Above 0 from one occurrence
/// on, below k1 + 1.
pub fn weight(occurrences: u32, length: u32) -> f64 {
    let occurrences = f64::from(occurrences);
    let discount = 1.0 - B + B * f64::from(length) / AVERAGE_LENGTH;
    occurrences * (K1 + 1.0) / (occurrences + K1 * discount)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_by_hand() {
        assert!((idf(4, 2) - 2.0_f64.ln()).abs() < 1e-12, "half of the documents: ln(1 + 2.5 / 2.5)");
        assert!((idf(1, 1) - (4.0_f64 / 3.0).ln()).abs() < 1e-12);
        assert!((weight(1, 256) - 1.0).abs() < 1e-12, "one occurrence in a document of average length");
        assert!((weight(2, 256) - 4.4 / 3.2).abs() < 1e-12);
        assert!((weight(3, 512) - 6.6 / 5.1).abs() < 1e-12);
    }

    #[test]
    fn rarer_terms_more_occurrences_and_shorter_documents_score_higher() {
        for n in 1..100 {
            assert!(idf(100, n) > idf(100, n + 1));
            assert!(weight(n as u32, 500) < weight(n as u32 + 1, 500));
            assert!(weight(3, n as u32) > weight(3, n as u32 + 1));
            assert!(weight(u32::MAX, n as u32) <= K1 + 1.0);
        }
    }
}
