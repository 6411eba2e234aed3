//! What holds for all lists.

use std::collections::BTreeSet;

use proptest::prelude::*;
use toller_core::metric::cosine;
use toller_retrieval::fusion::{distinct, distribution_based, fuse, min_max, reciprocal_ranks};
use toller_retrieval::selection::{long_context_order, nearest, non_redundant, round_robin};

use crate::specs::*;
use crate::world::World;

/// Every order in which three legs can complete gives the same answer.
#[tokio::test]
async fn the_order_of_completion_never_shows() {
    let lists: [&[u32]; 3] = [&[0, 10, 20], &[20, 30], &[10, 30, 0]];
    let mut answers = Vec::new();
    for delays in [[0, 15, 30], [0, 30, 15], [15, 0, 30], [15, 30, 0], [30, 0, 15], [30, 15, 0]] {
        let world = World::new();
        let mut legs = Vec::new();
        for (number, (list, delay)) in lists.iter().zip(delays).enumerate() {
            let name = format!("slow{delay}-{number}");
            world.fill_degrees(&name, list).await;
            legs.push(named(&format!("leg{number}"), all_of(&name)));
        }
        let fused = world.hits(&ensemble(legs.clone(), |_| ()), "at 0").await;
        let merged = world.hits(&merger(legs, |_| ()), "at 0").await;
        answers.push((fused, merged));
    }
    assert!(answers.iter().all(|answer| *answer == answers[0]));
}

fn lists() -> impl Strategy<Value = Vec<Vec<u8>>> {
    prop::collection::vec(prop::collection::vec(0_u8..12, 0..9), 1..5)
}

proptest! {
    #[test]
    fn turns_keep_everything_and_the_order_of_each_list(lists in lists()) {
        let tagged: Vec<Vec<(usize, usize)>> = lists.iter().enumerate()
            .map(|(list, items)| (0..items.len()).map(|rank| (list, rank)).collect()).collect();
        let merged = round_robin(tagged.clone());
        for (number, list) in tagged.iter().enumerate() {
            let own: Vec<_> = merged.iter().filter(|(list, _)| *list == number).copied().collect();
            prop_assert_eq!(&own, list);
        }
        prop_assert!(merged.is_sorted_by_key(|(list, rank)| (*rank, *list)));
    }

    #[test]
    fn a_reordering_is_a_permutation_with_the_best_first(count in 0_usize..200) {
        let order = long_context_order(count);
        prop_assert_eq!(order.iter().copied().collect::<BTreeSet<_>>(), (0..count).collect::<BTreeSet<_>>());
        prop_assert_eq!(order.len(), count);
        prop_assert_eq!(order.first().copied(), (count > 0).then_some(0));
        prop_assert_eq!(order.get(1.max(count) - 1).copied(), (count > 0).then_some(usize::from(count > 1)));
    }

    #[test]
    fn fusion_does_not_depend_on_the_order_of_lists_but_for_ties(lists in lists(), c in 0_u32..100) {
        let entries = |list: &Vec<u8>| {
            let keys: Vec<u8> = distinct(list).into_iter().map(|position| list[position]).collect();
            let contributions = reciprocal_ranks(keys.len(), 0.5, c);
            keys.into_iter().zip(contributions).collect::<Vec<_>>()
        };
        let forward: Vec<_> = lists.iter().map(entries).collect();
        let backward: Vec<_> = forward.iter().rev().cloned().collect();
        let scores = |lists: &[Vec<(u8, f64)>]| {
            fuse(lists).into_iter().map(|fused| (fused.key, fused.score.to_bits())).collect::<BTreeSet<_>>()
        };
        prop_assert_eq!(scores(&forward), scores(&backward));
        let fused = fuse(&forward);
        prop_assert!(fused.is_sorted_by(|left, right| left.score >= right.score));
        prop_assert_eq!(fused.len(), lists.iter().flatten().collect::<BTreeSet<_>>().len());
    }

    #[test]
    fn scaled_scores_are_in_their_range_and_in_their_order(scores in prop::collection::vec(-1e6_f64..1e6, 0..20)) {
        for scaled in [min_max(&scores), distribution_based(&scores)] {
            prop_assert!(scaled.iter().all(|value| (0.0..=1.0).contains(value)), "{:?}", scaled);
            for (left, right) in scores.iter().zip(&scaled).zip(scores.iter().zip(&scaled).skip(1)) {
                prop_assert!((left.0 <= right.0) == (left.1 <= right.1) || left.1 == right.1);
            }
        }
    }

    #[test]
    fn what_is_kept_is_not_redundant_and_what_is_dropped_is(
        vectors in prop::collection::vec(prop::array::uniform3(-1.0_f32..1.0), 0..12), threshold in -0.5_f64..1.0,
    ) {
        let kept = non_redundant(&vectors, threshold);
        for (position, vector) in vectors.iter().enumerate() {
            let is_like_a_better_one = kept.iter().filter(|kept| **kept < position)
                .any(|kept| cosine(&vectors[*kept], vector) > threshold);
            prop_assert_eq!(kept.contains(&position), !is_like_a_better_one);
        }
    }

    #[test]
    fn the_nearest_are_a_prefix_of_more(
        vectors in prop::collection::vec(prop::array::uniform2(-1.0_f32..1.0), 0..12), limit in 0_usize..12,
    ) {
        let all = nearest(&[1.0, 0.5], &vectors, None, None);
        prop_assert!(all.is_sorted_by(|left, right| left.1 >= right.1));
        let some = nearest(&[1.0, 0.5], &vectors, None, Some(limit));
        prop_assert_eq!(&some[..], &all[..limit.min(all.len())]);
    }
}
