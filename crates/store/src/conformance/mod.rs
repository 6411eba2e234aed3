//! The definition of right: what every backend does, as tests that are generic over the traits.
//!
//! A backend's test file calls the three macros; each makes one `#[tokio::test]` per case, so that a failure names its rule:
//!
//! ```ignore
//! toller_store::vector_store_conformance!(async { Arc::new(MyStore::open().await) as Arc<dyn VectorStore> });
//! ```
//!
//! The expression is evaluated for every case and must give an empty store. Search must be exact: approximate search is
//! judged by recall, elsewhere. Ids of equal scores are chosen so that insertion order and byte order agree. Scores may differ
//! from their definition by [`fixture::SCORE_TOLERANCE`], since engines compute in `f32`. The calling crate needs tokio with
//! `macros` and `rt-multi-thread`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::missing_panics_doc,
    reason = "these are tests: they fail by panicking"
)]

pub mod catalog;
pub mod change_sets;
pub mod collections;
pub mod concurrency;
pub mod deletes;
pub mod document_store;
pub mod filters;
pub mod fixture;
pub mod keyword;
pub mod mmr;
pub mod named_vectors;
pub mod relevance;
pub mod scroll;
pub mod search;
pub mod selectivity;
pub mod snapshots;
pub mod tenants;
pub mod writes;

/// One test per rule of `VectorStore`; takes an expression that gives a future of an empty `Arc<dyn VectorStore>`.
#[macro_export]
macro_rules! vector_store_conformance {
    ($make:expr) => {
        $crate::conformance_cases! { $make;
            collections::a_collection_is_made_once_and_keeps_its_parameters,
            collections::dimensions_out_of_range_are_refused,
            collections::an_unknown_collection_is_not_found,
            collections::an_empty_collection_answers_with_nothing,
            collections::a_dropped_collection_leaves_nothing_behind,
            writes::ids_are_any_text,
            writes::documents_come_back_as_they_were_written,
            writes::an_upsert_replaces_whole_records,
            writes::an_upsert_is_all_or_none,
            writes::get_is_aligned_with_its_ids,
            search::scores_and_order_follow_the_metric,
            search::ties_are_broken_the_same_way_every_time,
            search::the_limit_is_an_upper_bound,
            search::queries_that_do_not_fit_are_refused,
            filters::every_operator_means_what_it_says,
            filters::filtered_counts_and_scrolls_agree_with_search,
            selectivity::exactly_the_best_matches_at_any_selectivity,
            relevance::relevance_follows_the_metric_within_zero_and_one,
            relevance::thresholds_are_inclusive,
            relevance::a_relevance_function_must_fit_the_metric,
            mmr::diversity_is_traded_for_relevance,
            mmr::the_pool_holds_at_least_k_candidates,
            mmr::filters_and_thresholds_apply_before_the_choice,
            keyword::keyword_scores_follow_the_formula,
            keyword::only_records_with_a_word_of_the_query_are_found,
            keyword::keyword_filters_apply_before_the_limit,
            keyword::keyword_statistics_follow_every_write,
            keyword::keyword_statistics_follow_a_change_set,
            keyword::keyword_ties_and_limits,
            keyword::a_query_without_terms_finds_nothing,
            keyword::keywords_are_found_in_any_spelling,
            keyword::a_collection_without_a_keyword_index_is_refused,
            keyword::keywords_of_tenants_are_apart,
            named_vectors::each_space_is_searched_by_itself,
            named_vectors::limits_and_filters_count_those_with_a_vector,
            named_vectors::an_upsert_replaces_named_vectors,
            named_vectors::deletes_reach_every_space,
            named_vectors::relevance_and_mmr_are_those_of_the_space,
            named_vectors::what_does_not_fit_a_space_is_refused,
            named_vectors::spaces_of_collections_are_apart,
            deletes::by_ids,
            deletes::by_filter,
            deletes::all,
            deletes::what_was_deleted_can_be_written_again,
            change_sets::a_change_set_removes_replaces_and_writes,
            change_sets::an_empty_change_set_changes_nothing,
            change_sets::an_id_that_stands_twice_is_refused,
            change_sets::a_source_that_fails_changes_nothing,
            change_sets::readers_see_all_of_a_change_set_or_nothing,
            change_sets::reads_of_many_pages_see_all_of_a_change_set_or_nothing,
            change_sets::change_sets_do_what_deletes_and_upserts_do,
            change_sets::change_sets_of_tenants_are_apart,
            change_sets::ids_come_in_order_from_an_id_on,
            scroll::pages_are_in_id_order_and_complete,
            scroll::filtered_pages_are_full,
            scroll::a_cursor_stays_right_while_others_write,
            concurrency::readers_see_whole_batches,
            concurrency::no_write_is_lost,
            snapshots::a_snapshot_holds_every_record_with_all_vectors,
            snapshots::writes_during_a_snapshot_are_in_it_whole_or_not_at_all,
            snapshots::a_fault_of_the_sink_ends_a_snapshot,
            tenants::no_operation_reaches_another_tenant,
        }
    };
}

/// One test per rule of `DocumentStore`; takes an expression that gives a future of an empty `Arc<dyn DocumentStore>`.
#[macro_export]
macro_rules! document_store_conformance {
    ($make:expr) => {
        $crate::conformance_cases! { $make;
            document_store::documents_are_kept_replaced_and_removed,
            document_store::a_put_is_all_or_none,
            document_store::pages_are_in_id_order,
            document_store::all_documents_of_a_collection_are_removed,
            document_store::documents_of_tenants_and_collections_are_apart,
            document_store::names_are_those_with_documents,
            snapshots::a_snapshot_of_documents_is_of_one_moment,
        }
    };
}

/// One test per rule of `Catalog`; takes an expression that gives a future of an empty `Arc<dyn Catalog>`.
#[macro_export]
macro_rules! catalog_conformance {
    ($make:expr) => {
        $crate::conformance_cases! { $make;
            catalog::a_swap_needs_the_expected_state,
            catalog::versions_are_never_given_twice,
            catalog::records_are_listed_by_name_and_kind,
            catalog::records_of_tenants_are_apart,
            catalog::tenants_with_records_of_a_kind_are_found,
            catalog::of_many_swaps_at_once_one_wins,
        }
    };
}

/// Makes one test per case.
#[doc(hidden)]
#[macro_export]
macro_rules! conformance_cases {
    ($make:expr; $($module:ident::$case:ident),+ $(,)?) => {$(
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $case() {
            $crate::conformance::$module::$case($make.await).await;
        }
    )+};
}
