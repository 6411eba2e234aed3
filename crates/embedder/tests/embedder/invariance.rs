//! A text's vector does not depend on its company.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicUsize, Ordering};

use candle_core::{DType, Device};
use toller_core::EmbeddingRole;
use toller_embedder::{EmbedderConfig, EncodeError, LocalEmbeddings, Overrides, Sequence};

use crate::fixtures;

fn texts() -> Vec<String> {
    let words = ["vector", "the", "retrieval", "of", "a", "dog", "and", "water", "house", "1984", "ü", "北", "?"];
    let text = |index: usize| {
        (0..1 + index * index % 97)
            .map(|word| words[(index * 7 + word * word) % words.len()])
            .collect::<Vec<_>>()
            .join(" ")
    };
    (0..40).map(text).chain([String::new(), "x".repeat(5000), "\u{0}\u{1}\u{7f}".to_owned()]).collect()
}

#[tokio::test]
async fn alone_together_or_in_another_order() {
    let model = fixtures::load(&fixtures::path("tiny-bge"), &Overrides::default());
    let texts = texts();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let large = fixtures::start(&model);
    let small_config = EmbedderConfig::builder().batch_tokens(100).build().unwrap();
    let small = LocalEmbeddings::start(model, small_config).unwrap();

    let together = fixtures::embed(&large, EmbeddingRole::Document, &texts).await;
    let in_small_batches = fixtures::embed(&small, EmbeddingRole::Document, &texts).await;
    let reversed: Vec<&str> = texts.iter().rev().copied().collect();
    let mut backwards = fixtures::embed(&large, EmbeddingRole::Document, &reversed).await;
    backwards.reverse();
    for (index, text) in texts.iter().enumerate() {
        let alone = fixtures::embed(&large, EmbeddingRole::Document, &[text]).await.remove(0);
        for other in [&together[index], &in_small_batches[index], &backwards[index]] {
            let difference = fixtures::largest_difference(&alone.vector, &other.vector);
            assert!(difference <= 1e-5, "text {index} is off by {difference}");
            assert_eq!((alone.token_count, alone.truncated), (other.token_count, other.truncated));
        }
    }
}

#[tokio::test]
async fn a_word_of_a_megabyte_is_a_text() {
    let embeddings = fixtures::start(&fixtures::load(&fixtures::path("tiny-bge"), &Overrides::default()));
    let megabyte = "x".repeat(1 << 20);
    let many = "word ".repeat(200_000);
    let answer = fixtures::embed(&embeddings, EmbeddingRole::Document, &[&megabyte, &many]).await;
    assert_eq!((answer[0].token_count, answer[0].truncated), (Some(3), false));
    assert_eq!((answer[1].token_count, answer[1].truncated), (Some(512), true));
}

#[tokio::test]
async fn roles_differ_exactly_by_the_instruction() {
    let folder = fixtures::path("tiny-bge");
    let embeddings = fixtures::start(&fixtures::load(&folder, &Overrides::default()));
    let query = fixtures::embed(&embeddings, EmbeddingRole::Query, &["dogs"]).await.remove(0);
    let document = fixtures::embed(&embeddings, EmbeddingRole::Document, &["dogs"]).await.remove(0);
    let by_hand = "Represent this sentence for searching relevant passages: dogs";
    let by_hand = fixtures::embed(&embeddings, EmbeddingRole::Document, &[by_hand]).await.remove(0);
    assert!(fixtures::largest_difference(&query.vector, &document.vector) > 1e-2);
    assert!(fixtures::largest_difference(&query.vector, &by_hand.vector) < 1e-6);

    let plain = Overrides { query_instruction: Some(String::new()), ..Overrides::default() };
    let embeddings = fixtures::start(&fixtures::load(&folder, &plain));
    let plain_query = fixtures::embed(&embeddings, EmbeddingRole::Query, &["dogs"]).await.remove(0);
    assert!(fixtures::largest_difference(&plain_query.vector, &document.vector) < 1e-6);
}

#[test]
fn a_pass_can_be_stopped_between_any_two_layers() {
    let model = fixtures::load(&fixtures::path("tiny-bge"), &Overrides::default());
    for layers in 0..3 {
        let asked = AtomicUsize::new(0);
        let checkpoint = || match asked.fetch_add(1, Ordering::Relaxed) {
            asked if asked == layers => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        };
        assert_eq!(model.encoder().encode(&[Sequence::single(&[101, 102])], &checkpoint), Err(EncodeError::Stopped));
        assert_eq!(asked.load(Ordering::Relaxed), layers + 1);
    }
}

#[test]
fn impossible_sequences_are_errors() {
    let model = fixtures::load(&fixtures::path("tiny-bge"), &Overrides::default());
    for bad in [vec![], vec![101; 513], vec![12_000]] {
        let result = model.encoder().encode(&[Sequence::single(&bad)], &|| ControlFlow::Continue(()));
        assert!(matches!(result, Err(EncodeError::Failed(_))), "{} tokens: {result:?}", bad.len());
    }
    assert_eq!(model.encoder().encode(&[], &|| ControlFlow::Continue(())), Ok(Vec::new()));
}

#[tokio::test]
async fn half_precision_files_and_files_with_a_head_load() {
    let text = ["What is the capital of France?"];
    let exact = fixtures::start(&fixtures::load(&fixtures::path("tiny-bge"), &Overrides::default()));
    let exact = fixtures::embed(&exact, EmbeddingRole::Query, &text).await.remove(0);
    for (dtype, tolerance) in [(DType::F32, 0.0), (DType::F16, 2e-3), (DType::BF16, 2e-2)] {
        let folder = fixtures::tiny_copy();
        let path = folder.path().join("model.safetensors");
        let tensors = candle_core::safetensors::load(&path, &Device::Cpu).unwrap();
        let renamed =
            tensors.into_iter().map(|(name, tensor)| (format!("bert.{name}"), tensor.to_dtype(dtype).unwrap()));
        candle_core::safetensors::save(&renamed.collect(), &path).unwrap();
        let embeddings = fixtures::start(&fixtures::load(folder.path(), &Overrides::default()));
        let vector = fixtures::embed(&embeddings, EmbeddingRole::Query, &text).await.remove(0).vector;
        let difference = fixtures::largest_difference(&exact.vector, &vector);
        assert!(difference <= tolerance, "{dtype:?} is off by {difference}");
        assert!(dtype == DType::F32 || difference > 0.0, "{dtype:?} must really be stored so");
    }
}
