//! Sparse vectors of texts: terms as numbers, with weights.

use twox_hash::XxHash32;

use super::analyzer::Analyzer;
use super::bm25;

/// Seed of the hash that makes a number of a term. Part of what is stored.
const TERM_SEED: u32 = 0;

/// One element of a sparse vector.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TermWeight {
    /// The term: XXH32 of its UTF-8 bytes, the same on every machine.
    ///
    /// Engines name the dimensions of a sparse vector by such numbers. Two terms with the same number are one term:
    /// their occurrences are added, each is found by the other, and their common document frequency makes both count a
    /// little less. Among a hundred thousand different terms about one pair is to be expected.
    pub term: u32,
    /// Its weight; above 0.
    pub weight: f32,
}

/// The vector of a document's text: distinct terms, ascending, each with its [BM25 weight](bm25::weight). Empty for a
/// text without terms.
///
/// It depends on nothing but the text and the language. O(b + t·log t) for b bytes with t terms.
pub fn document_vector(analyzer: Analyzer, text: &str) -> Vec<TermWeight> {
    let terms = sorted_terms(analyzer, text);
    let length = u32::try_from(terms.len()).unwrap_or(u32::MAX);
    weighted(&terms, |occurrences| bm25::weight(occurrences, length) as f32)
}

/// The vector of a query: distinct terms, ascending, each weighted by its number of occurrences, so that a word that is
/// said twice counts twice.
pub fn query_vector(analyzer: Analyzer, text: &str) -> Vec<TermWeight> {
    weighted(&sorted_terms(analyzer, text), |occurrences| occurrences as f32)
}

/// The number of a term.
pub fn term_number(term: &str) -> u32 {
    XxHash32::oneshot(TERM_SEED, term.as_bytes())
}

fn sorted_terms(analyzer: Analyzer, text: &str) -> Vec<u32> {
    let mut terms = Vec::new();
    analyzer.each_term(text, |term| terms.push(term_number(term)));
    terms.sort_unstable();
    terms
}

fn weighted(sorted: &[u32], weight: impl Fn(u32) -> f32) -> Vec<TermWeight> {
    let equal_terms = sorted.chunk_by(|left, right| left == right);
    let weigh = |run: &[u32]| {
        let occurrences = u32::try_from(run.len()).unwrap_or(u32::MAX);
        run.first().map(|term| TermWeight { term: *term, weight: weight(occurrences) })
    };
    equal_terms.filter_map(weigh).collect()
}

#[cfg(test)]
mod tests {
    use toller_core::Language;

    use super::*;

    #[test]
    fn numbers_never_change() {
        // Vectors on disk depend on them. From xxhsum 0.8 (XXH32, seed 0).
        assert_eq!(term_number(""), 0x02cc_5d05);
        assert_eq!(term_number("abc"), 0x32d1_53ff);
    }

    #[test]
    fn documents_saturate_and_queries_add() {
        let analyzer = Analyzer::new(Language::None);
        let document = document_vector(analyzer, "toll toll bridge");
        let query = query_vector(analyzer, "toll toll bridge");
        let weight_of = |vector: &[TermWeight], term| {
            vector.iter().find(|element| element.term == term_number(term)).map(|element| element.weight)
        };
        assert_eq!((document.len(), query.len()), (2, 2));
        assert_eq!(weight_of(&document, "toll"), Some(bm25::weight(2, 3) as f32));
        assert_eq!(weight_of(&document, "bridge"), Some(bm25::weight(1, 3) as f32));
        assert_eq!((weight_of(&query, "toll"), weight_of(&query, "bridge")), (Some(2.0), Some(1.0)));
        assert!(document.is_sorted_by_key(|element| element.term));
        assert_eq!(document_vector(analyzer, " \n"), []);
    }
}
