//! What a model's files say, and what happens when they are broken: an error with the path and the way out, never a wrong
//! vector.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};
use toller_core::fingerprint::Pooling;
use toller_embedder::{Device, Model, Overrides, Precision, Source};

use crate::fixtures;

fn load(folder: &Path, overrides: &Overrides) -> Result<Model, String> {
    Model::load(&Source::Folder(folder.to_path_buf()), overrides).map_err(|error| error.to_string())
}

/// The error of loading the tiny model after `breaking` it, without the folder's path.
fn error_after(breaking: impl FnOnce(&Path)) -> String {
    let folder = fixtures::tiny_copy();
    breaking(folder.path());
    match load(folder.path(), &Overrides::default()) {
        Ok(_) => panic!("a broken model must not load"),
        Err(message) => message.replace(folder.path().to_str().unwrap(), "DIR"),
    }
}

fn edit(folder: &Path, file: &str, change: impl FnOnce(&mut Value)) {
    let path = folder.join(file);
    let mut value: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    change(&mut value);
    fs::write(&path, value.to_string()).unwrap();
}

#[test]
fn a_missing_folder_is_named() {
    let error = load(Path::new("/nowhere/model"), &Overrides::default()).err().unwrap();
    assert_eq!(error, "model folder /nowhere/model does not exist: check the path");
}

#[test]
fn each_missing_file_is_named_with_what_it_is_for() {
    for (file, message) in [
        ("config.json", "DIR/config.json does not exist: a model's folder has a config.json: check the path"),
        (
            "tokenizer.json",
            "DIR/tokenizer.json does not exist: it holds the vocabulary in the form of the tokenizers library: fetch it into this folder",
        ),
        ("model.safetensors", "DIR/model.safetensors does not exist: it holds the weights: fetch it into this folder"),
        (
            "modules.json",
            "DIR/modules.json does not exist: it says how token vectors become one vector: fetch it, or set the pooling (cls or mean) yourself",
        ),
        (
            "1_Pooling/config.json",
            "DIR/1_Pooling/config.json does not exist: modules.json names it; it says how token vectors become one vector: fetch it",
        ),
    ] {
        assert_eq!(error_after(|folder| fs::remove_file(folder.join(file)).unwrap()), message);
    }
}

#[test]
fn weights_in_another_form_are_explained() {
    let error = error_after(|folder| {
        fs::rename(folder.join("model.safetensors"), folder.join("pytorch_model.bin")).unwrap();
    });
    assert!(error.contains("convert it to safetensors"), "{error}");
    let error = error_after(|folder| {
        fs::rename(folder.join("model.safetensors"), folder.join("model.safetensors.index.json")).unwrap();
    });
    assert!(error.contains("merge them into one"), "{error}");
}

#[test]
fn what_is_not_json_is_named() {
    for file in [
        "config.json",
        "tokenizer.json",
        "modules.json",
        "1_Pooling/config.json",
        "sentence_bert_config.json",
        "config_sentence_transformers.json",
    ] {
        for text in ["", "{", "version https://git-lfs.github.com/spec/v1"] {
            let error = error_after(|folder| fs::write(folder.join(file), text).unwrap());
            assert!(error.starts_with(&format!("DIR/{file} is not valid: ")), "{error}");
            assert!(error.ends_with("; fetch the file again"), "{error}");
        }
    }
    let error = error_after(|folder| fs::write(folder.join("tokenizer.json"), "{\"version\":\"1.0\"}").unwrap());
    assert!(error.starts_with("DIR/tokenizer.json: is not a tokenizer that the tokenizers library knows"), "{error}");
}

#[test]
fn truncated_weights_are_found_wherever_they_end() {
    let whole = fs::metadata(fixtures::path("tiny-bge/model.safetensors")).unwrap().len();
    for length in [0, 4, 8, 100, whole / 2, whole - 1] {
        let error = error_after(|folder| {
            let file = fs::File::options().write(true).open(folder.join("model.safetensors")).unwrap();
            file.set_len(length).unwrap();
        });
        assert!(error.starts_with("DIR/model.safetensors: is truncated or damaged ("), "{length} bytes: {error}");
        assert!(error.ends_with("fetch the file again"), "{length} bytes: {error}");
    }
}

#[test]
fn weights_of_another_model_are_found() {
    let error = error_after(|folder| edit(folder, "config.json", |config| config["intermediate_size"] = json!(255)));
    assert_eq!(
        error,
        "DIR/model.safetensors: tensor encoder.layer.0.intermediate.dense.weight has shape [256, 64], but config.json implies [255, 64]: the files do not belong together"
    );
    let error = error_after(|folder| edit(folder, "config.json", |config| config["num_hidden_layers"] = json!(4)));
    assert!(error.contains("tensor encoder.layer.3.") && error.contains("is missing"), "{error}");
    let error = error_after(|folder| edit(folder, "config.json", |config| config["vocab_size"] = json!(11_000)));
    assert!(error.contains("DIR/tokenizer.json: has token id 11999, but vocab_size"), "{error}");
}

#[test]
fn what_is_not_built_is_refused_with_file_and_key() {
    let config = |key: &'static str, value: Value| {
        error_after(move |folder| edit(folder, "config.json", |config| config[key] = value))
    };
    let pooling = |value: Value| {
        error_after(move |folder| fs::write(folder.join("1_Pooling/config.json"), value.to_string()).unwrap())
    };
    let modules =
        |value: Value| error_after(move |folder| fs::write(folder.join("modules.json"), value.to_string()).unwrap());
    let module = |kind: &str, path: &str| json!({"idx": 0, "name": "0", "path": path, "type": format!("sentence_transformers.models.{kind}")});
    let (transformer, pool) = (module("Transformer", ""), module("Pooling", "1_Pooling"));
    let cases = [
        (
            config("model_type", json!("roberta")),
            "config.json, key model_type: is roberta, but only bert and xlm-roberta",
        ),
        (config("model_type", Value::Null), "config.json, key model_type: is (none), but only bert and xlm-roberta"),
        (config("hidden_act", json!("gelu_new")), "config.json, key hidden_act: is gelu_new, but only gelu"),
        (
            config("position_embedding_type", json!("relative_key")),
            "config.json, key position_embedding_type: is relative_key",
        ),
        (config("is_decoder", json!(true)), "config.json, key is_decoder: is true"),
        (config("quantization_config", json!({})), "config.json, key quantization_config"),
        (
            config("num_attention_heads", json!(5)),
            "config.json, key num_attention_heads: is 5, which does not divide hidden_size 64",
        ),
        (config("num_attention_heads", json!(0)), "config.json, key num_attention_heads: must be at least 1"),
        (config("hidden_size", json!(-1)), "config.json, key hidden_size: must be a whole number, got -1"),
        (config("layer_norm_eps", json!("small")), "config.json, key layer_norm_eps: must be a number between 0 and 1"),
        (
            pooling(json!({"pooling_mode_max_tokens": true})),
            "1_Pooling/config.json, key pooling_mode_max_tokens: this pooling is not supported",
        ),
        (pooling(json!({"pooling_mode_lasttoken": true})), "key pooling_mode_lasttoken: this pooling is not supported"),
        (pooling(json!({"pooling_mode": "max"})), "key pooling_mode: is \"max\", but only"),
        (pooling(json!({})), "key pooling_mode_cls_token: no pooling mode is on"),
        (
            pooling(json!({"pooling_mode_cls_token": true, "pooling_mode_mean_tokens": true})),
            "pooling_mode_cls_token and pooling_mode_mean_tokens are on together",
        ),
        (pooling(json!({"pooling_mode_mean_tokens": true, "include_prompt": false})), "key include_prompt: is false"),
        (
            pooling(json!({"pooling_mode_mean_tokens": true, "word_embedding_dimension": 65})),
            "key word_embedding_dimension: is 65",
        ),
        (
            modules(json!([transformer, pool, module("Dense", "2_Dense")])),
            "modules.json, key [2].type: module \"Dense\"",
        ),
        (
            modules(json!([transformer, module("Normalize", "2"), pool])),
            "modules.json, key [1].type: module \"Normalize\"",
        ),
        (modules(json!([transformer])), "modules.json, key (root): has no Pooling module"),
        (modules(json!({})), "modules.json, key (root): must be a list"),
        (
            modules(json!([module("Transformer", "0_Transformer"), pool])),
            "modules.json, key [0].type: only one Transformer",
        ),
    ];
    for (error, expected) in cases {
        assert!(error.contains(expected), "expected {expected:?}, got {error:?}");
    }
    let error =
        error_after(|folder| edit(folder, "sentence_bert_config.json", |file| file["max_seq_length"] = json!(513)));
    assert!(
        error.contains("sentence_bert_config.json, key max_seq_length: is 513, but config.json has 512"),
        "{error}"
    );
}

#[test]
fn the_files_decide_and_overrides_beat_them() {
    let folder = fixtures::tiny_copy();
    let pooling = r#"{"embedding_dimension": 64, "pooling_mode": "mean", "include_prompt": true}"#;
    fs::write(folder.path().join("1_Pooling/config.json"), pooling).unwrap();
    edit(folder.path(), "modules.json", |modules| {
        modules.as_array_mut().unwrap().truncate(2);
        modules[0]["type"] = json!("sentence_transformers.base.modules.transformer.Transformer");
    });
    edit(folder.path(), "sentence_bert_config.json", |file| file["max_seq_length"] = json!(128));
    let model = load(folder.path(), &Overrides::default()).unwrap();
    let fingerprint = model.fingerprint();
    assert_eq!(
        (fingerprint.pooling, fingerprint.normalized, fingerprint.max_tokens),
        (Some(Pooling::Mean), false, 128)
    );

    let overrides = Overrides {
        name: Some("mine".to_owned()),
        pooling: Some(Pooling::Cls),
        normalize: Some(true),
        max_tokens: Some(64),
        query_instruction: Some("q: ".to_owned()),
        document_instruction: Some("d: ".to_owned()),
        device: Device::Cpu,
        dtype: Precision::F32,
    };
    let model = load(folder.path(), &overrides).unwrap();
    let fingerprint = model.fingerprint();
    assert_eq!((fingerprint.pooling, fingerprint.normalized, fingerprint.max_tokens), (Some(Pooling::Cls), true, 64));
    assert_eq!((fingerprint.query_instruction.as_str(), fingerprint.document_instruction.as_str()), ("q: ", "d: "));
    assert_eq!(fingerprint.model, "mine");
    for bad in [0, 2, 513] {
        let overrides = Overrides { max_tokens: Some(bad), ..Overrides::default() };
        let error = load(folder.path(), &overrides).err().unwrap();
        assert!(error.starts_with("max_tokens: must be "), "{bad}: {error}");
    }
}

#[test]
fn a_bge_model_without_prompts_or_modules_gets_what_its_card_says() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("bge-small-zh-v1.5");
    let copy = fixtures::tiny_copy();
    fs::rename(copy.path(), &folder).unwrap();
    fs::remove_file(folder.join("config_sentence_transformers.json")).unwrap();
    fs::remove_file(folder.join("modules.json")).unwrap();
    let model = load(&folder, &Overrides::default()).unwrap();
    assert_eq!(model.fingerprint().query_instruction, "为这个句子生成表示以用于检索相关文章：");
    assert_eq!(model.fingerprint().document_instruction, "");
    assert_eq!((model.fingerprint().pooling, model.fingerprint().normalized), (Some(Pooling::Cls), true));

    // Under another name, config.json still says where it came from.
    let renamed = parent.path().join("model");
    fs::rename(&folder, &renamed).unwrap();
    edit(&renamed, "config.json", |config| config["_name_or_path"] = json!("/root/.cache/BAAI_bge-small-en/"));
    let model = load(&renamed, &Overrides::default()).unwrap();
    assert_eq!(model.fingerprint().query_instruction, "Represent this sentence for searching relevant passages: ");
}
