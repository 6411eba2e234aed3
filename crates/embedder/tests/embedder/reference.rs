//! BERT as the paper writes it, in f64, one sequence at a time, in plain loops: what the packed encoder is compared with where
//! no recorded vectors exist.

use std::collections::HashMap;
use std::fs;
use std::ops::ControlFlow;
use std::path::Path;

use safetensors::SafeTensors;
use serde_json::Value;
use toller_core::fingerprint::Pooling;
use toller_embedder::{Overrides, Sequence};

use crate::fixtures;

type Matrix = Vec<Vec<f64>>;

pub(crate) struct PlainBert {
    tensors: HashMap<String, Vec<f64>>,
    hidden: usize,
    layers: usize,
    heads: usize,
    eps: f64,
    first_position: usize,
}

impl PlainBert {
    /// Reads config.json and f32 weights.
    pub(crate) fn read(folder: &Path) -> Self {
        let config: Value = serde_json::from_slice(&fs::read(folder.join("config.json")).unwrap()).unwrap();
        let size = |key: &str| config[key].as_u64().unwrap() as usize;
        let bytes = fs::read(folder.join("model.safetensors")).unwrap();
        let file = SafeTensors::deserialize(&bytes).unwrap();
        let read = |data: &[u8]| {
            data.chunks_exact(4).map(|word| f64::from(f32::from_le_bytes(word.try_into().unwrap()))).collect()
        };
        let tensors = file
            .tensors()
            .into_iter()
            .filter(|(_, view)| view.dtype() == safetensors::Dtype::F32)
            .map(|(name, view)| (name.trim_start_matches("roberta.").to_owned(), read(view.data())));
        Self {
            tensors: tensors.collect(),
            hidden: size("hidden_size"),
            layers: size("num_hidden_layers"),
            heads: size("num_attention_heads"),
            eps: config["layer_norm_eps"].as_f64().unwrap(),
            // fairseq numbers the tokens from one after the padding token's id.
            first_position: if config["model_type"] == "xlm-roberta" { size("pad_token_id") + 1 } else { 0 },
        }
    }

    /// The pooled vector, scaled to unit length.
    pub(crate) fn embed(&self, ids: &[u32], pooling: Pooling) -> Vec<f32> {
        let row = |name: &str, index: usize| {
            let table = &self.tensors[&format!("embeddings.{name}_embeddings.weight")];
            &table[index * self.hidden..(index + 1) * self.hidden]
        };
        let mut x: Matrix = ids
            .iter()
            .enumerate()
            .map(|(position, id)| {
                let (word, kind) = (row("word", *id as usize), row("token_type", 0));
                let place = row("position", self.first_position + position);
                (0..self.hidden).map(|i| word[i] + kind[i] + place[i]).collect()
            })
            .collect();
        self.normalize(&mut x, "embeddings.LayerNorm");
        for layer in 0..self.layers {
            x = self.layer(&x, &format!("encoder.layer.{layer}"));
        }
        let pooled: Vec<f64> = match pooling {
            Pooling::Cls => x[0].clone(),
            Pooling::Mean => {
                (0..self.hidden).map(|i| x.iter().map(|token| token[i]).sum::<f64>() / x.len() as f64).collect()
            }
        };
        let norm = pooled.iter().map(|value| value * value).sum::<f64>().sqrt();
        pooled.iter().map(|value| (value / norm) as f32).collect()
    }

    fn layer(&self, x: &Matrix, at: &str) -> Matrix {
        let [q, k, v] = ["query", "key", "value"].map(|name| self.linear(x, &format!("{at}.attention.self.{name}")));
        let width = self.hidden / self.heads;
        let mut context = vec![vec![0.0; self.hidden]; x.len()];
        for head in 0..self.heads {
            let part = head * width..(head + 1) * width;
            for (query, out) in q.iter().zip(&mut context) {
                let scores: Vec<f64> = k
                    .iter()
                    .map(|key| part.clone().map(|i| query[i] * key[i]).sum::<f64>() / (width as f64).sqrt())
                    .collect();
                let top = scores.iter().copied().fold(f64::MIN, f64::max);
                let weights: Vec<f64> = scores.iter().map(|score| (score - top).exp()).collect();
                let sum: f64 = weights.iter().sum();
                for (weight, value) in weights.iter().zip(&v) {
                    for i in part.clone() {
                        out[i] += weight / sum * value[i];
                    }
                }
            }
        }
        let mut attended = add(&self.linear(&context, &format!("{at}.attention.output.dense")), x);
        self.normalize(&mut attended, &format!("{at}.attention.output.LayerNorm"));
        let mut wide = self.linear(&attended, &format!("{at}.intermediate.dense"));
        wide.iter_mut().flatten().for_each(|value| *value = *value / 2.0 * (1.0 + erf(*value / 2f64.sqrt())));
        let mut out = add(&self.linear(&wide, &format!("{at}.output.dense")), &attended);
        self.normalize(&mut out, &format!("{at}.output.LayerNorm"));
        out
    }

    fn linear(&self, x: &Matrix, name: &str) -> Matrix {
        let (weight, bias) = (&self.tensors[&format!("{name}.weight")], &self.tensors[&format!("{name}.bias")]);
        let row = |token: &Vec<f64>| {
            let outputs = weight.chunks_exact(token.len()).zip(bias);
            outputs.map(|(w, b)| w.iter().zip(token).map(|(w, x)| w * x).sum::<f64>() + b).collect()
        };
        x.iter().map(row).collect()
    }

    fn normalize(&self, x: &mut Matrix, name: &str) {
        let (weight, bias) = (&self.tensors[&format!("{name}.weight")], &self.tensors[&format!("{name}.bias")]);
        for row in x {
            let mean = row.iter().sum::<f64>() / row.len() as f64;
            let variance = row.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / row.len() as f64;
            for (i, value) in row.iter_mut().enumerate() {
                *value = (*value - mean) / (variance + self.eps).sqrt() * weight[i] + bias[i];
            }
        }
    }
}

fn add(a: &Matrix, b: &Matrix) -> Matrix {
    a.iter().zip(b).map(|(a, b)| a.iter().zip(b).map(|(a, b)| a + b).collect()).collect()
}

/// The error function: its Maclaurin series below 3, beyond that the continued fraction of erfc (Abramowitz and Stegun 7.1.5
/// and 7.1.14).
fn erf(x: f64) -> f64 {
    if x < 0.0 {
        return -erf(-x);
    }
    if x > 3.0 {
        let fraction = (1..=60).rev().fold(x, |below, n| x + f64::from(n) / 2.0 / below);
        return 1.0 - (-x * x).exp() / fraction / std::f64::consts::PI.sqrt();
    }
    let (mut term, mut sum) = (x, x);
    for n in 1..100 {
        let n = f64::from(n);
        term *= -x * x / n;
        sum += term / (2.0 * n + 1.0);
    }
    sum * 2.0 / std::f64::consts::PI.sqrt()
}

#[test]
fn the_packed_encoder_agrees_with_plain_loops() {
    let folder = fixtures::path("tiny-bge");
    let plain = PlainBert::read(&folder);
    for pooling in [Pooling::Cls, Pooling::Mean] {
        let model = fixtures::load(&folder, &Overrides { pooling: Some(pooling), ..Overrides::default() });
        let texts = ["", "hello", "What is the capital of France?", "the packed encoder agrees with the plain one"];
        let ids: Vec<Vec<u32>> = texts.iter().map(|text| model.tokenizer().encode("", text).unwrap().ids).collect();
        let packed: Vec<Sequence<'_>> = ids.iter().map(|ids| Sequence::single(ids)).collect();
        let vectors = model.encoder().encode(&packed, &|| ControlFlow::Continue(())).unwrap();
        for (ids, vector) in ids.iter().zip(&vectors) {
            let difference = fixtures::largest_difference(vector, &plain.embed(ids, pooling));
            assert!(difference < 5e-6, "{pooling} of {ids:?} is off by {difference}");
        }
    }
}
