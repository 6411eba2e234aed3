//! Fetching models from a hub, and living without one.

use std::fs;
use std::net::TcpListener;
use std::time::{Duration, Instant};

use toller_embedder::hub::Hub;
use toller_embedder::hub::settings::HubSettings;
use toller_embedder::{Error, Model, Overrides, Repository, Source};

use crate::fixtures;
use crate::hub_server::{Behaviour, FIRST_COMMIT, HubServer, REPOSITORY};

const SECOND_COMMIT: &str = "2222222222222222222222222222222222222222";

/// Small files are asked for twice: once for what they are, once for their content.
const WEIGHTS_REQUESTS: usize = 4;

struct Setup {
    server: HubServer,
    cache: tempfile::TempDir,
}

impl Setup {
    fn new() -> Self {
        Self { server: HubServer::start(&fixtures::path("tiny-bge")), cache: tempfile::tempdir().unwrap() }
    }

    fn settings(&self) -> HubSettings {
        HubSettings::new(self.cache.path(), &self.server.endpoint())
    }

    fn hub(&self) -> Hub {
        Hub::new(self.settings())
    }

    fn offline(&self) -> Hub {
        Hub::new(HubSettings { offline: true, ..self.settings() })
    }
}

fn repository() -> Repository {
    Repository::parse(REPOSITORY).unwrap()
}

fn load(hub: &Hub) -> Result<Model, Error> {
    Model::load_with(&Source::Hub(repository()), &Overrides::default(), hub)
}

#[test]
fn a_model_is_fetched_once_and_then_lives_without_the_network() {
    let setup = Setup::new();
    let model = load(&setup.hub()).unwrap();
    assert_eq!(model.fingerprint().model, REPOSITORY);
    assert_eq!(model.fingerprint().revision, FIRST_COMMIT);
    let requests = setup.server.take_requests();
    assert!(requests.iter().all(|request| !request.contains("README")), "needed files only: {requests:?}");
    let of_commit = requests.iter().filter(|request| request.starts_with(FIRST_COMMIT)).count();
    assert_eq!(of_commit + 3, requests.len(), "one question about main and two answers from the CDN: {requests:?}");

    assert_eq!(load(&setup.hub()).unwrap().fingerprint(), model.fingerprint());
    assert_eq!(load(&setup.offline()).unwrap().fingerprint(), model.fingerprint());
    let pinned = Repository::new(REPOSITORY, Some(FIRST_COMMIT)).unwrap();
    assert_eq!(setup.hub().snapshot(&pinned).unwrap().revision, FIRST_COMMIT);
    assert_eq!(setup.server.take_requests(), [""; 0], "a cached model needs no network");
}

#[test]
fn pulling_again_asks_once_and_fetches_what_has_changed() {
    let setup = Setup::new();
    let first = setup.hub().pull(&repository()).unwrap();
    setup.server.take_requests();
    assert_eq!(setup.hub().pull(&repository()).unwrap(), first);
    assert_eq!(setup.server.take_requests(), ["main/config.json bytes=0-0"]);

    setup.server.set_commit(SECOND_COMMIT);
    let second = setup.hub().pull(&repository()).unwrap();
    assert_eq!(second.revision, SECOND_COMMIT);
    assert_eq!(setup.hub().snapshot(&repository()).unwrap(), second, "main has moved");
    let pinned = Repository::new(REPOSITORY, Some(FIRST_COMMIT)).unwrap();
    assert_eq!(setup.offline().snapshot(&pinned).unwrap(), first, "the old commit is still there");

    let models = setup.hub().cached_models().unwrap();
    assert_eq!(models.len(), 2);
    for (model, commit, references) in [(&models[0], FIRST_COMMIT, vec![]), (&models[1], SECOND_COMMIT, vec!["main"])] {
        assert_eq!((model.repository.as_str(), model.revision.as_str()), (REPOSITORY, commit));
        assert_eq!(model.references, references);
        assert!(model.loadable && model.bytes > 3_000_000);
    }
}

#[test]
fn optional_files_may_be_missing_and_are_not_asked_for_again() {
    let setup = Setup::new();
    setup.server.remove("config_sentence_transformers.json");
    setup.server.remove("sentence_bert_config.json");
    let model = load(&setup.hub()).unwrap();
    assert_eq!((model.fingerprint().query_instruction.as_str(), model.fingerprint().max_tokens), ("", 512));
    setup.server.take_requests();
    load(&setup.hub()).unwrap();
    assert_eq!(setup.server.take_requests(), [""; 0]);
}

#[test]
fn a_cache_that_lacks_the_pooling_is_completed_or_refused() {
    let setup = Setup::new();
    let snapshot = setup.hub().pull(&repository()).unwrap();
    fs::remove_file(snapshot.folder.join("modules.json")).unwrap();
    let error = load(&setup.offline()).err().unwrap().to_string();
    assert!(error.contains("modules.json does not exist"), "nothing is guessed: {error}");

    setup.server.take_requests();
    load(&setup.hub()).unwrap();
    let requests = setup.server.take_requests();
    assert!(requests.len() <= 3 && requests.iter().any(|request| request.contains("modules.json")), "{requests:?}");
}

#[test]
fn the_token_is_sent() {
    let setup = Setup::new();
    let hub = Hub::new(HubSettings { token: Some("secret".to_owned()), ..setup.settings() });
    hub.pull(&repository()).unwrap();
    assert!(!setup.server.tokens().is_empty());
    assert!(setup.server.tokens().iter().all(|token| token == "Bearer secret"));
}

#[test]
fn a_refusal_says_what_to_do() {
    let setup = Setup::new();
    for (status, advice) in
        [(401, "set HF_TOKEN"), (403, "set HF_TOKEN"), (404, "check the name"), (503, "HF_ENDPOINT")]
    {
        setup.server.set_behaviour(Behaviour::Refuses(status));
        let error = load(&setup.hub()).err().unwrap();
        assert!(matches!(error, Error::HubRefused { status: given, .. } if given == status), "{error:?}");
        let text = error.to_string();
        assert!(
            text.contains(&setup.server.endpoint()) && text.contains(REPOSITORY) && text.contains(advice),
            "{text}"
        );
    }
    setup.server.set_behaviour(Behaviour::Good);
    setup.server.remove("model.safetensors");
    let text = load(&setup.hub()).err().unwrap().to_string();
    assert!(text.contains("no weights in one safetensors file"), "{text}");
}

#[test]
fn offline_without_the_model_says_so() {
    let setup = Setup::new();
    for result in [setup.offline().snapshot(&repository()), setup.offline().pull(&repository())] {
        let text = result.unwrap_err().to_string();
        assert!(
            text.contains("HF_HUB_OFFLINE is set") && text.contains(setup.cache.path().to_str().unwrap()),
            "{text}"
        );
    }
    assert_eq!(setup.server.take_requests(), [""; 0]);
}

fn assert_unreachable(hub: &Hub, endpoint: &str) {
    let started = Instant::now();
    let error = hub.pull(&repository()).unwrap_err();
    assert!(started.elapsed() < Duration::from_secs(10), "took {:?}", started.elapsed());
    assert!(matches!(error, Error::HubUnreachable { .. }), "{error:?}");
    let text = error.to_string();
    for part in
        [endpoint, "HF_ENDPOINT", "toller model pull BAAI/tiny-bge", "HF_HOME", "local folder", "HF_HUB_OFFLINE=1"]
    {
        assert!(text.contains(part), "{part} is not in {text}");
    }
}

#[test]
fn a_closed_port_fails_at_once() {
    let cache = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    assert_unreachable(&Hub::new(HubSettings::new(cache.path(), &endpoint)), &endpoint);
}

#[test]
fn a_port_that_never_answers_fails_in_time() {
    let cache = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let settings = HubSettings::new(cache.path(), &endpoint);
    assert!(settings.first_answer < Duration::from_secs(10));
    assert_unreachable(&Hub::new(HubSettings { first_answer: Duration::from_millis(200), ..settings }), &endpoint);
}

#[test]
fn a_download_that_stands_still_is_given_up_and_resumed_later() {
    let setup = Setup::new();
    setup.server.set_behaviour(Behaviour::StopsInTheMiddle);
    let hub = Hub::new(HubSettings { stall: Duration::from_millis(300), ..setup.settings() });
    assert_unreachable(&hub, &setup.server.endpoint());
    assert!(load(&setup.offline()).is_err(), "half a model is no model");
    assert!(setup.hub().cached_models().unwrap().iter().all(|model| !model.loadable));
}

#[test]
fn weights_that_are_not_what_the_hub_promised_are_refused() {
    let setup = Setup::new();
    setup.server.set_behaviour(Behaviour::Corrupts);
    let error = load(&setup.hub()).err().unwrap();
    assert!(matches!(error, Error::Weights { .. }), "{error:?}");
    assert!(error.to_string().contains("does not have the content that the hub promised"), "{error}");
}

#[test]
fn without_the_hub_an_incomplete_cache_serves_what_it_can() {
    let setup = Setup::new();
    let snapshot = setup.hub().pull(&repository()).unwrap();
    fs::remove_file(snapshot.folder.join("config_sentence_transformers.json")).unwrap();
    let closed = HubSettings { endpoint: "http://127.0.0.1:1".to_owned(), ..setup.settings() };
    assert_eq!(load(&Hub::new(closed)).unwrap().fingerprint().query_instruction, "");
}

#[test]
fn the_requests_for_the_weights_are_few() {
    let setup = Setup::new();
    setup.hub().pull(&repository()).unwrap();
    let requests = setup.server.take_requests();
    let weights = requests.iter().filter(|request| request.contains("model.safetensors")).count();
    assert_eq!(weights, WEIGHTS_REQUESTS, "{requests:?}");
}
