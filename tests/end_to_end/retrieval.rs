//! Documents in, the right ones out.

use toller_api::v1;
use toller_api::v1::filter::Kind;
use toller_core::Metric;
use toller_core::mmr::maximal_marginal_relevance;
use toller_tests::TINY_MODEL;
use toller_tests::client::Client;
use toller_tests::request::*;
use toller_tests::server::{Server, Settings};

/// Texts to search, in no order that could be taken for the right one.
const TEXTS: [&str; 7] = [
    "the toller is the smallest of the retrievers",
    "ships leave the harbour at dawn",
    "a query is embedded with an instruction",
    "vectors of unit length",
    "the smallest dog in the harbour",
    "",
    "rain is expected in the north",
];

/// A server with a collection `points` of the client's own vectors, and no model.
async fn server_with_points(metric: v1::Metric, points: &[(&str, [f32; 2])]) -> (Server, Client) {
    let server = Settings::new().without_model().start().await;
    let client = server.client().await;
    client.create_for_vectors("points", 2, metric).await;
    client.add("points", points.iter().map(|(id, elements)| point(id, elements)).collect()).await;
    (server, client)
}

#[tokio::test]
async fn texts_find_the_most_similar_texts_with_exact_scores() {
    let server = Settings::new().start().await;
    let client = server.client().await;
    client.create("docs").await;
    let documents = TEXTS.iter().enumerate().map(|(number, text)| document(&format!("d{number}"), text)).collect();
    client.add("docs", documents).await;

    for query in ["which dog is the smallest?", "weather", "", TEXTS[2]] {
        // The score is the cosine of the vector of the text as a query with the stored vector, so both are asked for alone.
        let query_vector = elements(&client.embed_query(query).await.vector.unwrap());
        let mut expected: Vec<(String, f64)> = client
            .all("docs")
            .await
            .iter()
            .map(|document| (document.id_text().to_owned(), Metric::Cosine.score(&query_vector, &document.elements())))
            .collect();
        expected.sort_by(|left, right| right.1.total_cmp(&left.1));

        let hits = client.search(text_query(query), search_in("docs")).await;
        assert_eq!(hits.len(), 4, "k is 4 where it is not given");
        for ((hit, (id, score)), rank) in hits.iter().zip(&expected).zip(1..) {
            let document = hit.document.as_ref().unwrap();
            assert_eq!(document.id_text(), id, "{query:?}");
            assert_eq!(document.page_content, TEXTS[id[1..].parse::<usize>().unwrap()]);
            assert!((hit.score - score).abs() < 1e-6, "{query:?}: {} is not {score}", hit.score);
            assert_eq!(hit.relevance, Some(hit.score.clamp(0.0, 1.0)));
            assert_eq!((hit.metric(), hit.rank), (v1::Metric::Cosine, rank));
            assert_eq!(hit.vector, None, "vectors come only when they are asked for");
            let source = v1::SourceScore { source: "similarity".to_owned(), score: hit.score, rank };
            assert_eq!(hit.sources, [source]);
        }
    }
}

#[tokio::test]
async fn queries_and_documents_get_the_vectors_of_the_reference_in_their_role() {
    let server = Settings::new().start().await;
    let client = server.client().await;
    let reference = std::fs::read(format!("{TINY_MODEL}/reference.json")).unwrap();
    let reference: serde_json::Value = serde_json::from_slice(&reference).unwrap();
    let items = reference["items"].as_array().unwrap();
    assert!(items.len() >= 32);
    let vector = |value: &serde_json::Value| -> Vec<f32> {
        value.as_array().unwrap().iter().map(|element| element.as_f64().unwrap() as f32).collect()
    };
    let texts: Vec<&str> = items.iter().map(|item| item["text"].as_str().unwrap()).collect();
    let documents = client.embed_documents(&texts).await;
    let fingerprint = documents.fingerprint.unwrap();
    assert_eq!(fingerprint.query_instruction, reference["settings"]["query_prompt"]);
    assert_eq!(fingerprint.document_instruction, reference["settings"]["document_prompt"]);
    assert_eq!((fingerprint.dimension, fingerprint.pooling()), (64, v1::Pooling::Cls));

    for (item, answered) in items.iter().zip(&documents.vectors) {
        let text = item["text"].as_str().unwrap();
        let query = elements(&client.embed_query(text).await.vector.unwrap());
        let document = elements(answered);
        for (role, expected, found) in
            [("document", vector(&item["document"]), &document), ("query", vector(&item["query"]), &query)]
        {
            let cosine = Metric::Cosine.score(&expected, found);
            let difference = expected.iter().zip(found).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
            assert!(cosine >= 0.99999 && difference <= 5e-5, "{} as {role}: {cosine} {difference}", item["name"]);
        }
        assert_ne!(query, document, "the roles have different vectors");
    }
}

#[tokio::test]
async fn every_metric_gives_its_value_and_its_relevance() {
    let points = [("near", [3.0, 4.0]), ("along", [0.5, 0.0]), ("across", [0.0, 2.0]), ("against", [-1.0, 0.0])];
    let half_root = 1.0 / std::f64::consts::SQRT_2;
    let sigmoid = |value: f64| 1.0 / (1.0 + (-value).exp());
    // With query (1, 0): in order, the raw value, the default relevance.
    let cases = [
        (
            v1::Metric::Cosine,
            vec![("along", 1.0, 1.0), ("near", 0.6, 0.6), ("across", 0.0, 0.0), ("against", -1.0, 0.0)],
        ),
        (v1::Metric::Dot, vec![("near", 3.0, 1.0), ("along", 0.5, 0.5), ("across", 0.0, 0.0), ("against", -1.0, 0.0)]),
        (
            v1::Metric::Euclidean,
            vec![
                ("along", 0.5, 1.0 - 0.5 * half_root),
                ("against", 2.0, 0.0),
                ("across", 5.0_f64.sqrt(), 0.0),
                ("near", 20.0_f64.sqrt(), 0.0),
            ],
        ),
    ];
    for (metric, expected) in cases {
        let (_server, client) = server_with_points(metric, &points).await;
        let hits = client.search(vector_query(&[1.0, 0.0]), search_in("points")).await;
        let found: Vec<(String, f64)> = hits.clone().ids().into_iter().zip(hits.iter().map(|hit| hit.score)).collect();
        let wanted: Vec<(String, f64)> = expected.iter().map(|(id, score, _)| ((*id).to_owned(), *score)).collect();
        assert_eq!(found, wanted, "{metric:?}");
        for (hit, (id, score, relevance)) in hits.iter().zip(&expected) {
            assert_eq!(hit.metric(), metric);
            assert!((hit.relevance.unwrap() - relevance).abs() < 1e-12, "{metric:?} {id}: {:?}", hit.relevance);

            for (function, value) in [
                (v1::RelevanceFunction::HalfCosine, (1.0 + score) / 2.0),
                (v1::RelevanceFunction::Sigmoid, sigmoid(*score)),
                (
                    v1::RelevanceFunction::Reciprocal,
                    if metric == v1::Metric::Cosine { 1.0 / (2.0 - score) } else { 1.0 / (1.0 + score) },
                ),
            ] {
                let search = v1::VectorStoreRetriever { relevance_fn: function.into(), ..search_in("points") };
                let Ok(hits) = client.try_search(vector_query(&[1.0, 0.0]), search).await else { continue };
                let position = hits.clone().ids().iter().position(|found| found == id).unwrap();
                let found = hits[position].relevance.unwrap();
                assert!((found - value.clamp(0.0, 1.0)).abs() < 1e-12, "{metric:?} {function:?} {id}: {found}");
            }
        }
    }
}

#[tokio::test]
async fn thresholds_are_inclusive() {
    // With query (1, 0) the cosine of (3, 4) is exactly 0.6, its dot product 3, and its distance the root of 20.
    let next_above = |value: f64| f64::from_bits(value.to_bits() + 1);
    let next_below = |value: f64| f64::from_bits(value.to_bits() - 1);
    let distance = 20.0_f64.sqrt();
    for (metric, exact, stricter) in [
        (v1::Metric::Cosine, 0.6, next_above(0.6)),
        (v1::Metric::Dot, 3.0, next_above(3.0)),
        (v1::Metric::Euclidean, distance, next_below(distance)),
    ] {
        let (_server, client) = server_with_points(metric, &[("only", [3.0, 4.0])]).await;
        for (threshold, expected) in [(exact, 1), (stricter, 0)] {
            for search_type in
                [v1::SearchType::Similarity, v1::SearchType::SimilarityScoreThreshold, v1::SearchType::Mmr]
            {
                let search = v1::VectorStoreRetriever {
                    search_type: search_type.into(),
                    raw_score_threshold: Some(threshold),
                    ..search_in("points")
                };
                let hits = client.search(vector_query(&[1.0, 0.0]), search).await;
                assert_eq!(hits.len(), expected, "{metric:?} {search_type:?} {threshold}");
            }
        }
    }

    let (_server, client) = server_with_points(v1::Metric::Cosine, &[("a", [3.0, 4.0]), ("b", [0.0, 1.0])]).await;
    for (threshold, expected) in [(0.0, vec!["a", "b"]), (0.6, vec!["a"]), (next_above(0.6), vec![]), (1.0, vec![])] {
        let search = v1::VectorStoreRetriever {
            search_type: v1::SearchType::SimilarityScoreThreshold.into(),
            score_threshold: Some(threshold),
            ..search_in("points")
        };
        assert_eq!(client.search(vector_query(&[1.0, 0.0]), search).await.ids(), expected, "{threshold}");
    }
    // A threshold is on the relevance of the function that is asked for.
    let search = v1::VectorStoreRetriever {
        relevance_fn: v1::RelevanceFunction::HalfCosine.into(),
        score_threshold: Some(0.5),
        ..search_in("points")
    };
    assert_eq!(client.search(vector_query(&[1.0, 0.0]), search).await.ids(), ["a", "b"]);
}

#[tokio::test]
async fn marginal_relevance_picks_what_is_new_and_carries_both_scores() {
    let points = [("a", [1.0, 0.1]), ("b", [1.0, 0.11]), ("c", [0.2, 1.0]), ("d", [1.0, 0.9]), ("e", [-1.0, 0.2])];
    let query = [1.0, 0.3];
    let (_server, client) = server_with_points(v1::Metric::Cosine, &points).await;
    let by_similarity = client.search(
        vector_query(&query),
        v1::VectorStoreRetriever { k: Some(5), with_vectors: Some(true), ..search_in("points") },
    );
    let by_similarity = by_similarity.await;

    for (k, fetch_k, lambda) in
        [(3, 5, 0.3), (5, 5, 0.5), (2, 5, 0.0), (5, 1, 0.5), (3, 3, 1.0), (1, 4, 0.5), (3, 4, 0.7)]
    {
        let hits = client.search(vector_query(&query), mmr_in("points", k, fetch_k, lambda)).await;
        let pool = &by_similarity[..(k.max(fetch_k) as usize).min(points.len())];
        let vectors: Vec<Vec<f32>> = pool.iter().map(|hit| elements(hit.vector.as_ref().unwrap())).collect();
        let picks = maximal_marginal_relevance(&query, &vectors, k as usize, lambda);
        assert_eq!(hits.len(), picks.len());
        assert_eq!(hits.len(), k as usize, "k is a promise, also where fetch_k is less");
        for ((hit, pick), rank) in hits.iter().zip(picks).zip(1..) {
            let candidate = &pool[pick.index];
            assert_eq!(hit.document, candidate.document, "{k} {fetch_k} {lambda}");
            assert_eq!((hit.rank, hit.score), (rank, candidate.score));
            let [similarity, mmr] = hit.sources.as_slice() else { panic!("two sources, not {:?}", hit.sources) };
            assert_eq!((similarity.source.as_str(), similarity.score), ("similarity", candidate.score));
            assert_eq!(similarity.rank, candidate.rank);
            assert_eq!((mmr.source.as_str(), mmr.rank), ("mmr", rank));
            assert!((mmr.score - pick.score).abs() < 1e-12, "{} is not {}", mmr.score, pick.score);
            assert_eq!(hit.vector, None, "vectors come only when they are asked for");
        }
    }
    // By hand: after the most similar one its twin is nearly worthless, so the next is d and not b.
    let hits = client.search(vector_query(&[1.0, 0.1]), mmr_in("points", 2, 5, 0.5)).await;
    assert_eq!(hits.ids()[0], "a");
    assert!(
        !client.search(vector_query(&[1.0, 0.1]), mmr_in("points", 2, 5, 0.3)).await.ids().contains(&"b".to_owned())
    );
}

#[tokio::test]
async fn every_filter_operator_decides_before_scoring() {
    let server = Settings::new().without_model().start().await;
    let client = server.client().await;
    client.create_for_vectors("points", 2, v1::Metric::Cosine).await;
    let author = |name: &str| map([("name", string(name)), ("a.b", int(7))]);
    let documents = vec![
        point("int", &[1.0, 0.0])
            .with("x", int(1))
            .with("author", author("ada"))
            .with("tags", list([string("red"), int(1)])),
        point("double", &[1.0, 0.1]).with("x", double(1.5)).with("author", author("bob")),
        point("whole", &[1.0, 0.2]).with("x", double(2.0)).with("tags", list([])),
        point("text", &[1.0, 0.3]).with("x", string("1")).with("title", string("straße am fluss")),
        point("flag", &[1.0, 0.4]).with("x", boolean(true)),
        point("null", &[1.0, 0.5]).with("x", null()),
        point("none", &[1.0, 0.6]),
    ];
    client.add("points", documents).await;

    let all = ["int", "double", "whole", "text", "flag", "null", "none"];
    let cases: Vec<(&str, v1::Filter, Vec<&str>)> = vec![
        ("eq int", compare(Kind::Eq, "x", int(1)), vec!["int"]),
        ("eq crosses int and double", compare(Kind::Eq, "x", int(2)), vec!["whole"]),
        ("eq string", compare(Kind::Eq, "x", string("1")), vec!["text"]),
        ("eq bool is not 1", compare(Kind::Eq, "x", boolean(true)), vec!["flag"]),
        ("eq null is not missing", compare(Kind::Eq, "x", null()), vec!["null"]),
        ("eq list", compare(Kind::Eq, "tags", list([])), vec!["whole"]),
        (
            "ne matches a missing key",
            compare(Kind::Ne, "x", int(1)),
            vec!["double", "whole", "text", "flag", "null", "none"],
        ),
        ("in", compare_list(Kind::InValues, "x", [int(1), string("1"), null()]), vec!["int", "text", "null"]),
        ("in nothing", compare_list(Kind::InValues, "x", []), vec![]),
        (
            "nin",
            compare_list(Kind::NinValues, "x", [int(1), string("1"), null()]),
            vec!["double", "whole", "flag", "none"],
        ),
        ("nin nothing", compare_list(Kind::NinValues, "x", []), all.to_vec()),
        ("lt", compare(Kind::Lt, "x", double(1.5)), vec!["int"]),
        ("lte", compare(Kind::Lte, "x", double(1.5)), vec!["int", "double"]),
        ("gt", compare(Kind::Gt, "x", int(1)), vec!["double", "whole"]),
        ("gte", compare(Kind::Gte, "x", int(1)), vec!["int", "double", "whole"]),
        ("gte string", compare(Kind::Gte, "x", string("0")), vec!["text"]),
        ("exists", filter(Kind::Exists(v1::Exists { key: "x".into(), exists: None })), all[..6].to_vec()),
        ("exists not", filter(Kind::Exists(v1::Exists { key: "x".into(), exists: Some(false) })), vec!["none"]),
        ("contains element", compare(Kind::Contains, "tags", string("red")), vec!["int"]),
        ("contains number", compare(Kind::Contains, "tags", double(1.0)), vec!["int"]),
        ("contains part", compare(Kind::Contains, "title", string("aße am")), vec!["text"]),
        ("path", compare(Kind::Eq, "author.name", string("ada")), vec!["int"]),
        ("escaped dot", compare(Kind::Eq, "author.a\\.b", int(7)), vec!["int", "double"]),
        ("negate", negate(compare(Kind::Gt, "x", int(0))), vec!["text", "flag", "null", "none"]),
        (
            "all of",
            combine(Kind::AllOf, [compare(Kind::Gte, "x", int(1)), compare(Kind::Lt, "x", int(2))]),
            vec!["int", "double"],
        ),
        ("all of nothing", combine(Kind::AllOf, []), all.to_vec()),
        (
            "any of",
            combine(Kind::AnyOf, [compare(Kind::Eq, "x", int(1)), compare(Kind::Eq, "x", null())]),
            vec!["int", "null"],
        ),
        ("any of nothing", combine(Kind::AnyOf, []), vec![]),
    ];
    for (name, filter, expected) in cases {
        for k in [1, 3, 100] {
            let search = v1::VectorStoreRetriever { k: Some(k), filter: Some(filter.clone()), ..search_in("points") };
            let hits = client.search(vector_query(&[1.0, 0.0]), search).await;
            // Exactly min(k, matches), the best first: the points stand in the order of similarity.
            assert_eq!(hits.ids(), expected[..expected.len().min(k as usize)], "{name}, k {k}");
        }
        let mmr = v1::VectorStoreRetriever { filter: Some(filter.clone()), ..mmr_in("points", 100, 100, 1.0) };
        assert_eq!(client.search(vector_query(&[1.0, 0.0]), mmr).await.ids(), expected, "{name} by mmr");
        assert_eq!(client.count_matching("points", Some(filter.clone())).await, expected.len() as u64, "{name}");
        let list = v1::DocumentsListRequest { collection: "points".into(), filter: Some(filter), ..Default::default() };
        let mut listed = client.documents().list(list).await.unwrap().into_inner().documents.ids();
        let mut expected: Vec<&str> = expected;
        listed.sort();
        expected.sort_unstable();
        assert_eq!(listed, expected, "{name} listed");
    }
}

#[tokio::test]
async fn integers_stay_exact() {
    const PAST_DOUBLES: i64 = (1 << 53) + 1;
    let server = Settings::new().without_model().start().await;
    let client = server.client().await;
    client.create_for_vectors("points", 2, v1::Metric::Cosine).await;
    let numbers = [PAST_DOUBLES, PAST_DOUBLES - 1, i64::MAX, i64::MIN];
    let documents = numbers.iter().map(|number| point(&number.to_string(), &[1.0, 0.0]).with("n", int(*number)));
    client.add("points", documents.collect()).await;

    for number in numbers {
        let only = compare(Kind::Eq, "n", int(number));
        let search = v1::VectorStoreRetriever { filter: Some(only), ..search_in("points") };
        let hits = client.search(vector_query(&[1.0, 0.0]), search).await;
        assert_eq!(hits.ids(), [number.to_string()]);
        assert_eq!(hits[0].document.as_ref().unwrap().metadata["n"], int(number));
    }
    // As a double, 2^53 is 2^53 and not the integer after it.
    let filter = compare(Kind::Eq, "n", double(9_007_199_254_740_992.0));
    assert_eq!(client.count_matching("points", Some(filter)).await, 1);
}

#[tokio::test]
async fn the_order_is_total_and_the_same_every_time() {
    let server = Settings::new().without_model().start().await;
    let client = server.client().await;
    client.create_for_vectors("points", 2, v1::Metric::Cosine).await;
    // Every third point is a twin of the others of its kind: true ties, inserted in an order that is not that of their ids.
    let ids: Vec<String> = (0..30).map(|number| format!("{:02}", (number * 7) % 30)).collect();
    for chunk in ids.chunks(11) {
        let documents = chunk.iter().map(|id| point(id, &[1.0, (id.parse::<usize>().unwrap() % 3) as f32]));
        client.add("points", documents.collect()).await;
    }
    // Replacing a document leaves it where it was.
    client.add("points", vec![point(&ids[5], &[1.0, (ids[5].parse::<usize>().unwrap() % 3) as f32])]).await;

    let mut expected = ids;
    expected.sort_by_key(|id| id.parse::<usize>().unwrap() % 3);
    for k in [30, 7, 30] {
        let search = v1::VectorStoreRetriever { k: Some(k), ..search_in("points") };
        assert_eq!(client.search(vector_query(&[1.0, 0.0]), search).await.ids(), expected[..k as usize]);
    }
}

#[tokio::test]
async fn vectors_come_with_hits_in_either_encoding() {
    let (_server, client) = server_with_points(v1::Metric::Dot, &[("a", [0.1, -2.5])]).await;
    for encoding in [v1::VectorEncoding::Unspecified, v1::VectorEncoding::Packed, v1::VectorEncoding::Floats] {
        let request = v1::SearchRequest {
            query: Some(v1::Query { kind: Some(v1::query::Kind::Vector(floats(&[1.0, 0.0]))) }),
            search: Some(v1::VectorStoreRetriever { with_vectors: Some(true), ..search_in("points") }),
            encoding: encoding.into(),
        };
        let hits = client.retrieval().search(request).await.unwrap().into_inner().hits;
        let vector = hits[0].vector.as_ref().unwrap();
        let as_floats = encoding == v1::VectorEncoding::Floats;
        assert_eq!((vector.values.len(), vector.packed.len()), if as_floats { (2, 0) } else { (0, 8) });
        assert_eq!(elements(vector), [0.1, -2.5]);
    }
}

#[tokio::test]
async fn a_retriever_runs_inline_and_by_reference_alike() {
    let server = Settings::new().start().await;
    let client = server.client().await;
    client.create("docs").await;
    client.add("docs", TEXTS.iter().map(|text| document(&format!("id of {text}"), text)).collect()).await;
    let inline = vector_store("nearest", v1::VectorStoreRetriever { k: Some(3), ..search_in("docs") });
    let put = v1::RetrieversPutRequest { retriever: Some(inline.clone()), expected_version: None };
    client.retrievers().put(put).await.unwrap();

    let retrieve = async |retriever: v1::Retriever| {
        let query = Some(text_query("the smallest dog"));
        let request = v1::RetrieveRequest { query, retriever: Some(retriever), ..Default::default() };
        client.retrieval().retrieve(request).await.unwrap().into_inner().hits
    };
    let hits = retrieve(inline.clone()).await;
    assert_eq!(hits.len(), 3);
    assert_eq!(retrieve(reference("", "nearest")).await, hits);
    let search = v1::VectorStoreRetriever { k: Some(3), ..search_in("docs") };
    assert_eq!(client.search(text_query("the smallest dog"), search).await, hits);

    // A batch is the answers to its queries, in their order.
    let queries = ["the smallest dog", "weather", "the smallest dog", ""];
    let request = v1::BatchRetrieveRequest {
        queries: queries.iter().map(|query| text_query(query)).collect(),
        retriever: Some(reference("", "nearest")),
        ..Default::default()
    };
    let results = client.retrieval().batch_retrieve(request).await.unwrap().into_inner().results;
    assert_eq!(results.len(), queries.len());
    for (result, query) in results.iter().zip(queries) {
        let search = v1::VectorStoreRetriever { k: Some(3), ..search_in("docs") };
        let alone = client.search(text_query(query), search).await;
        assert_eq!(result.hits.clone().ids(), alone.clone().ids(), "{query:?}");
        for (hit, alone) in result.hits.iter().zip(alone) {
            assert!((hit.score - alone.score).abs() < 1e-6);
        }
    }
    let empty = v1::BatchRetrieveRequest { retriever: Some(inline), ..Default::default() };
    assert_eq!(client.retrieval().batch_retrieve(empty).await.unwrap().into_inner().results, []);
}

#[tokio::test]
async fn an_empty_collection_answers_nothing() {
    let server = Settings::new().start().await;
    let client = server.client().await;
    client.create("docs").await;
    assert_eq!(client.find("anything", search_in("docs")).await, [""; 0]);
    assert_eq!(client.find("anything", mmr_in("docs", 3, 10, 0.5)).await, [""; 0]);
    assert_eq!(client.search(vector_query(&[0.5; 64]), search_in("docs")).await, []);
}

#[tokio::test]
async fn a_collection_of_the_model_takes_vectors_of_the_client_too() {
    let server = Settings::new().start().await;
    let client = server.client().await;
    client.create("docs").await;
    let text = "the smallest dog";
    let vector = elements(&client.embed_documents(&[text]).await.vectors[0]);
    client.add("docs", vec![document("embedded", text), document("brought", "another text").vector(&vector)]).await;
    let query = elements(&client.embed_query("dogs").await.vector.unwrap());
    let by_vector = client.search(vector_query(&query), search_in("docs")).await;
    let by_text = client.search(text_query("dogs"), search_in("docs")).await;
    assert_eq!(by_vector.clone().ids(), ["embedded", "brought"]);
    assert_eq!(by_text.ids(), ["embedded", "brought"]);
    assert!((by_vector[0].score - by_vector[1].score).abs() < 1e-6);
}
