//! Sparse vectors of texts: terms as numbers, with weights.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

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

/// Most different terms of a query: what comes after the first so many is left out, on every backend. Each costs a look at an
/// index, or a call to a server, and what a person asks has a few.
pub const MAX_QUERY_TERMS: usize = 1024;

/// The vector of a query: its first [`MAX_QUERY_TERMS`] distinct terms, ascending, each weighted by its number of occurrences, so
/// that a word that is said twice counts twice.
pub fn query_vector(analyzer: Analyzer, text: &str) -> Vec<TermWeight> {
    let mut occurrences: BTreeMap<u32, u32> = BTreeMap::new();
    analyzer.each_term(text, |term| {
        let term = term_number(term);
        let is_full = occurrences.len() >= MAX_QUERY_TERMS;
        match occurrences.entry(term) {
            Entry::Occupied(mut known) => *known.get_mut() = known.get().saturating_add(1),
            Entry::Vacant(new) if !is_full => drop(new.insert(1)),
            Entry::Vacant(_) => {}
        }
    });
    occurrences.into_iter().map(|(term, count)| TermWeight { term, weight: count as f32 }).collect()
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

    #[test]
    fn a_query_counts_by_its_first_terms() {
        let analyzer = Analyzer::new(Language::None);
        let words = |count: usize| (0..count).map(|n| format!("w{n} ")).collect::<String>();
        let most = query_vector(analyzer, &words(MAX_QUERY_TERMS));
        assert_eq!(most.len(), MAX_QUERY_TERMS);
        assert!(most.is_sorted_by(|left, right| left.term < right.term));
        assert_eq!(query_vector(analyzer, &words(100_000)), most);
        // What was said before counts on.
        let again = query_vector(analyzer, &format!("{} w7", words(100_000)));
        let weight = |term| again.iter().find(|element| element.term == term_number(term)).map(|found| found.weight);
        assert_eq!((weight("w7"), weight("w8"), weight("w99999")), (Some(2.0), Some(1.0), None));
    }
}
