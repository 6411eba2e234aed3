//! The kernels against f64, the transformer against the same model in candle tensors, and the same bits however a pass is cut.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ops::ControlFlow;

use candle_core::{Device, Tensor};
use proptest::prelude::*;
use rayon::ThreadPoolBuilder;

use super::kernel::Norm;
use super::product::{Finish, Linear};
use super::*;
use crate::folder::bert_config::Architecture;
use crate::models;
use crate::weights::WeightsFile;

/// Numbers between −1 and 1 that look random.
pub(super) fn noise(seed: usize, length: usize) -> Vec<f32> {
    let mut state = seed as u64 + 1;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1_u64 << 23) as f32 - 1.0
    };
    (0..length).map(|_| next()).collect()
}

fn go_on() -> ControlFlow<()> {
    ControlFlow::Continue(())
}

/// erf by its Maclaurin series, in f64 exact to 1e-10 for |x| below 4.3.
fn erf(x: f64) -> f64 {
    let mut term = x;
    let mut sum = x;
    for n in 1..200 {
        let n = f64::from(n);
        term *= -x * x / n;
        sum += term / (2.0 * n + 1.0);
    }
    sum * 2.0 / std::f64::consts::PI.sqrt()
}

fn gelu(x: f64) -> f64 {
    if x.abs() > 6.0 { x.max(0.0) } else { x / 2.0 * (1.0 + erf(x / 2f64.sqrt())) }
}

/// The product by a kernel, `padding` values after each row of the left side.
fn product(
    kernel: Kernel,
    linear: &Linear,
    left: &[f32],
    stride: usize,
    rows: usize,
    gelu: bool,
    parts: usize,
) -> Vec<f32> {
    let width = linear.outputs();
    // One column before and one after, which must stay as they are.
    let mut output = vec![7.0; rows * (width + 2)];
    let mut views: Vec<&mut [f32]> = output.chunks_exact_mut(width + 2).collect();
    let finish = if gelu { Finish::Gelu } else { Finish::Plain };
    linear.forward(kernel, Strided::new(left, stride), &mut views, 1, finish, parts);
    let mut values = Vec::with_capacity(rows * width);
    for row in output.chunks_exact(width + 2) {
        assert_eq!((row[0], row[width + 1]), (7.0, 7.0), "written outside of the columns");
        values.extend_from_slice(&row[1..=width]);
    }
    values
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn products_of_any_shape_match_f64(
        rows in 1_usize..40,
        outputs in 1_usize..70,
        inputs in prop_oneof![1_usize..60, 380_usize..400, 760_usize..800],
        padding in 0_usize..5,
        with_gelu in any::<bool>(),
        seed in 0_usize..1000,
    ) {
        let weights = noise(seed, outputs * inputs);
        let bias = noise(seed + 1, outputs);
        let stride = inputs + padding;
        let left = noise(seed + 2, (rows - 1) * stride + inputs);
        let linear = Linear::pack(&weights, &bias, inputs);
        for kernel in Kernel::all() {
            let got = product(kernel, &linear, &left, stride, rows, with_gelu, 1);
            for (index, got) in got.iter().enumerate() {
                let (row, column) = (index / outputs, index % outputs);
                let terms = (0..inputs).map(|k| f64::from(left[row * stride + k]) * f64::from(weights[column * inputs + k]));
                let (sum, size) = terms.fold((f64::from(bias[column]), 1.0), |(sum, size), term| (sum + term, size + term.abs()));
                let exact = if with_gelu { gelu(sum) } else { sum };
                // Eight roundings of all that was added.
                let bound = 1e-6 + 8.0 * 6e-8 * size;
                prop_assert!((exact - f64::from(*got)).abs() < bound, "{kernel:?}: {exact} and {got} at {row}, {column}");
            }
            // To the bit: shared by threads, and each row alone.
            prop_assert_eq!(&product(kernel, &linear, &left, stride, rows, with_gelu, 3), &got);
            for row in 0..rows {
                let alone = product(kernel, &linear, &left[row * stride..], stride, 1, with_gelu, 1);
                prop_assert_eq!(&alone[..], &got[row * outputs..(row + 1) * outputs]);
            }
        }
    }

    #[test]
    fn layer_norm_matches_f64(width in 1_usize..100, offset in -100.0_f32..100.0, seed in 0_usize..1000) {
        let x: Vec<f32> = noise(seed, width).into_iter().map(|value| 3.0 * value + offset).collect();
        let residual = noise(seed + 1, width);
        let norm = Norm { weight: noise(seed + 2, width), shift: noise(seed + 3, width), eps: 1e-5 };
        let sums: Vec<f64> = x.iter().zip(&residual).map(|(x, r)| f64::from(*x) + f64::from(*r)).collect();
        let mean = sums.iter().sum::<f64>() / width as f64;
        let variance = sums.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / width as f64;
        let deviation = (variance + 1e-5).sqrt();
        for kernel in Kernel::all() {
            let mut got = x.clone();
            kernel.add_norm(&mut got, &residual, &norm);
            for (i, got) in got.into_iter().enumerate() {
                let exact = (sums[i] - mean) / deviation * f64::from(norm.weight[i]) + f64::from(norm.shift[i]);
                // Rounding of the sums in f32, seen through the division by the deviation.
                let bound = 2e-5 * (1.0 + (mean.abs() + 9.0) / deviation);
                prop_assert!((exact - f64::from(got)).abs() < bound, "{kernel:?}: {exact} and {got}");
            }
        }
    }

    #[test]
    fn softmax_matches_f64(length in 1_usize..70, scale in 0.1_f32..80.0, seed in 0_usize..1000) {
        let scores: Vec<f32> = noise(seed, length).into_iter().map(|value| value * scale).collect();
        let top = f64::from(scores.iter().copied().fold(f32::MIN, f32::max));
        let sum: f64 = scores.iter().map(|score| (f64::from(*score) - top).exp()).sum();
        for kernel in Kernel::all() {
            // What lies behind the scores must not matter.
            let mut row = scores.clone();
            row.resize(length.next_multiple_of(16) + 16, 1e30);
            let factor = kernel.exp_row(&mut row, length);
            for (score, got) in scores.iter().zip(&row) {
                let exact = (f64::from(*score) - top).exp() / sum;
                prop_assert!((exact - f64::from(got * factor)).abs() < 1e-6, "{kernel:?}: {exact} and {got}");
            }
            prop_assert!(row[length..length.next_multiple_of(16)].iter().all(|value| *value == 0.0));
        }
    }
}

#[test]
fn gelu_is_the_exact_one() {
    for kernel in Kernel::all() {
        let values: Vec<f32> =
            (-12_000..=12_000).map(|step| step as f32 / 2000.0).chain([-1e4, 1e4, -50.0, 50.0]).collect();
        let mut got = values.clone();
        kernel.gelu(&mut got);
        for (value, got) in values.iter().zip(&got) {
            let exact = gelu(f64::from(*value));
            // The approximation by tanh is up to 4.7e-4 off.
            assert!((exact - f64::from(*got)).abs() < 1e-6, "{kernel:?}: gelu({value}) is {exact}, got {got}");
        }
    }
}

/// Damaged weights are found by what they make, so no step may hide a number that is none.
#[test]
fn what_is_not_a_number_stays_so() {
    for kernel in Kernel::all() {
        let mut values = vec![0.5; 40];
        values[21] = f32::NAN;
        let mut gelu = values.clone();
        kernel.gelu(&mut gelu);
        assert!(gelu[21].is_nan() && gelu[20].is_finite());
        let mut exp = values.clone();
        exp.resize(48, 0.0);
        assert!(kernel.exp_row(&mut exp, 40).is_nan());
        let norm = Norm { weight: vec![1.0; 40], shift: vec![0.0; 40], eps: 1e-5 };
        kernel.add_norm(&mut values, &[0.0; 40], &norm);
        assert!(values.iter().all(|value| value.is_nan()));
    }
}

fn config(hidden: usize, heads: usize, intermediate: usize) -> BertConfig {
    BertConfig {
        architecture: Architecture::Bert,
        vocabulary: 50,
        hidden,
        layers: 2,
        heads,
        intermediate,
        positions: 200,
        first_position: 0,
        token_types: 2,
        layer_norm_eps: 1e-12,
    }
}

/// Random weights for `config`.
fn with_weights<T>(config: &BertConfig, use_them: impl FnOnce(&Weights<'_>) -> T) -> T {
    let (hidden, intermediate) = (config.hidden, config.intermediate);
    let mut tensors: HashMap<String, Tensor> = HashMap::new();
    let mut add = |name: String, shape: &[usize], scale: f32, around: f32| {
        let length = shape.iter().product();
        let values: Vec<f32> = noise(name.bytes().map(usize::from).sum::<usize>() * 31 + name.len(), length)
            .iter()
            .map(|v| v * scale + around)
            .collect();
        tensors.insert(name, Tensor::from_vec(values, shape, &Device::Cpu).unwrap());
    };
    add("embeddings.word_embeddings.weight".to_owned(), &[config.vocabulary, hidden], 1.0, 0.0);
    let positions = config.first_position + config.positions;
    add("embeddings.position_embeddings.weight".to_owned(), &[positions, hidden], 1.0, 0.0);
    add("embeddings.token_type_embeddings.weight".to_owned(), &[config.token_types, hidden], 1.0, 0.0);
    let mut norms = vec!["embeddings.LayerNorm".to_owned()];
    for layer in 0..config.layers {
        let at = format!("encoder.layer.{layer}");
        for (name, outputs, inputs) in [
            ("attention.self.query", hidden, hidden),
            ("attention.self.key", hidden, hidden),
            ("attention.self.value", hidden, hidden),
            ("attention.output.dense", hidden, hidden),
            ("intermediate.dense", intermediate, hidden),
            ("output.dense", hidden, intermediate),
        ] {
            add(format!("{at}.{name}.weight"), &[outputs, inputs], 2.0 / (inputs as f32).sqrt(), 0.0);
            add(format!("{at}.{name}.bias"), &[outputs], 0.5, 0.0);
        }
        norms.extend([format!("{at}.attention.output.LayerNorm"), format!("{at}.output.LayerNorm")]);
    }
    for at in norms {
        add(format!("{at}.weight"), &[hidden], 0.3, 1.0);
        add(format!("{at}.bias"), &[hidden], 0.3, 0.0);
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("model.safetensors");
    candle_core::safetensors::save(&tensors, &path).unwrap();
    let file = WeightsFile::read_verified(&path).unwrap();
    use_them(&file.tensors().unwrap())
}

/// Token ids for sequences of `lengths`.
fn ids(lengths: &[usize]) -> Vec<Vec<u32>> {
    lengths
        .iter()
        .enumerate()
        .map(|(seed, length)| (0..*length).map(|i| ((i * i + 7 * i + seed) % 50) as u32).collect())
        .collect()
}

fn assert_close(got: &TokenVectors, expected: &TokenVectors, what: &str) {
    assert_eq!((got.width, &got.lengths, got.values.len()), (expected.width, &expected.lengths, expected.values.len()));
    let difference = got.values.iter().zip(&expected.values).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    assert!(difference < 1e-4, "{what}: off by {difference}");
}

const LENGTHS: [usize; 14] = [1, 2, 5, 6, 7, 16, 17, 24, 25, 97, 199, 200, 3, 144];

#[test]
fn the_packed_transformer_is_the_one_in_tensors() {
    // A width that is no multiple of a line, with a head of 8; several slices of inputs with a head of 48; a head of 20, and
    // XLM-RoBERTa's tables.
    let xlm_roberta =
        BertConfig { architecture: Architecture::XlmRoberta, first_position: 2, token_types: 1, ..config(400, 20, 33) };
    for config in [config(24, 3, 40), config(96, 2, 900), xlm_roberta] {
        let ids = ids(&LENGTHS);
        let sequences: Vec<Sequence<'_>> =
            ids.iter().map(|ids| Sequence { ids, second: ids.len().div_ceil(3) }).collect();
        let tensors = with_weights(&config, |weights| {
            models::load_in_tensors(&config, weights, crate::device::Device::Cpu, Precision::F32).unwrap()
        });
        for kernel in Kernel::all() {
            let packed = with_weights(&config, |weights| {
                PackedTransformer::load_for(kernel, &config, weights, Precision::F32).unwrap()
            });
            for rows in [Rows::All, Rows::First] {
                let expected = tensors.forward(&sequences, rows, &go_on).unwrap();
                let got = packed.forward(&sequences, rows, &go_on).unwrap();
                assert_close(&got, &expected, &format!("{kernel:?} {config:?} {rows:?}"));
            }
        }
    }
}

#[test]
fn token_types_begin_where_the_sequence_says() {
    let config = config(24, 3, 40);
    let packed = with_weights(&config, |weights| PackedTransformer::load(&config, weights, Precision::F32).unwrap());
    let ids = ids(&[6]);
    let first_vectors = |second: usize| {
        let tokens: Vec<Token> = packed.embeddings.tokens(&Sequence { ids: &ids[0], second }).unwrap().collect();
        let mut x = vec![0.0; 6 * 24];
        packed.embeddings.look_up(packed.kernel, &tokens, &mut x);
        x
    };
    let (first, second, mixed) = (first_vectors(6), first_vectors(0), first_vectors(4));
    assert_eq!((&mixed[..4 * 24], &mixed[4 * 24..]), (&first[..4 * 24], &second[4 * 24..]));
    assert_ne!(first, second);
}

#[test]
fn positions_begin_where_the_config_says() {
    let plain = config(24, 3, 40);
    let shifted = BertConfig { first_position: 2, positions: 198, ..plain.clone() };
    let load = |config: &BertConfig| {
        with_weights(config, |weights| PackedTransformer::load(config, weights, Precision::F32).unwrap())
    };
    let (plain, shifted) = (load(&plain), load(&shifted));
    let ids = ids(&[5]);
    let first_vectors = |model: &PackedTransformer, skip: usize| {
        let mut tokens: Vec<Token> = model.embeddings.tokens(&Sequence::single(&ids[0])).unwrap().collect();
        tokens.iter_mut().for_each(|token| token.position += skip);
        let mut x = vec![0.0; 5 * 24];
        model.embeddings.look_up(model.kernel, &tokens, &mut x);
        x
    };
    assert_eq!(first_vectors(&shifted, 0), first_vectors(&plain, 2));
    let too_long = vec![1; 199];
    assert!(matches!(shifted.forward(&[Sequence::single(&too_long)], Rows::All, &go_on), Err(EncodeError::Failed(_))));
}

/// The same bits alone and together, in any order, on one thread and several, and with only the first rows wanted.
#[test]
fn a_row_does_not_depend_on_how_the_pass_is_cut() {
    let config = config(48, 4, 800);
    let packed = with_weights(&config, |weights| PackedTransformer::load(&config, weights, Precision::F32).unwrap());
    let ids = ids(&[LENGTHS.as_slice(), &[150; 6], &[200; 4]].concat());
    let sequences: Vec<Sequence<'_>> = ids.iter().map(|ids| Sequence::single(ids)).collect();
    let split = |vectors: TokenVectors| -> Vec<Vec<f32>> {
        let mut rest = vectors.values.as_slice();
        let mut split = Vec::new();
        for length in &vectors.lengths {
            let (rows, after) = rest.split_at(length * vectors.width);
            split.push(rows.to_vec());
            rest = after;
        }
        split
    };
    let together = split(packed.forward(&sequences, Rows::All, &go_on).unwrap());
    for threads in [1, 2, 3, 8] {
        let pool = ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| {
            let reversed: Vec<Sequence<'_>> = sequences.iter().rev().copied().collect();
            let mut backwards = split(packed.forward(&reversed, Rows::All, &go_on).unwrap());
            backwards.reverse();
            assert!(backwards == together, "{threads} threads, backwards");
            let first = split(packed.forward(&sequences, Rows::First, &go_on).unwrap());
            for (index, sequence) in sequences.iter().enumerate() {
                let alone = packed.forward(&[*sequence], Rows::All, &go_on).unwrap();
                assert!(alone.values == together[index], "{threads} threads, sequence {index} alone");
                assert!(first[index] == alone.values[..48], "{threads} threads, first row of {index}");
                let alone_first = packed.forward(&[*sequence], Rows::First, &go_on).unwrap();
                assert!(alone_first.values == first[index], "{threads} threads, first row of {index} alone");
            }
        });
    }
}

#[test]
fn a_checkpoint_is_asked_often_and_may_run_a_pass_of_its_own() {
    let config = config(24, 3, 40);
    let packed = with_weights(&config, |weights| PackedTransformer::load(&config, weights, Precision::F32).unwrap());
    let pool = ThreadPoolBuilder::new().num_threads(2).build().unwrap();
    let ids = ids(&[200; 10]);
    let sequences: Vec<Sequence<'_>> = ids.iter().map(|ids| Sequence::single(ids)).collect();
    pool.install(|| {
        for (count, least) in [(1, 2 * config.layers), (10, 2 * config.layers * 2000 / 400)] {
            let expected = packed.forward(&sequences[..count], Rows::All, &go_on).unwrap();
            let inner_expected = packed.forward(&sequences[count - 1..count], Rows::First, &go_on).unwrap();
            let asked = parking_lot::Mutex::new(Vec::new());
            let checkpoint = || {
                let inner = packed.forward(&sequences[count - 1..count], Rows::First, &go_on).unwrap();
                assert!(inner == inner_expected);
                asked.lock().push(std::thread::current().id());
                go_on()
            };
            let got = packed.forward(&sequences[..count], Rows::All, &checkpoint).unwrap();
            assert!(got == expected);
            let asked = asked.into_inner();
            assert!(asked.len() >= least, "asked {} times, must be {least}", asked.len());
            assert!(asked.iter().all(|thread| *thread == std::thread::current().id()));
        }
    });
    assert!(packed.passes.idle() <= KEPT_PASSES);
}

#[test]
fn passes_at_the_same_time_do_not_meet() {
    let config = config(24, 3, 40);
    let packed = with_weights(&config, |weights| PackedTransformer::load(&config, weights, Precision::F32).unwrap());
    let ids = ids(&[20, 200, 3, 77]);
    let expected: Vec<TokenVectors> =
        ids.iter().map(|ids| packed.forward(&[Sequence::single(ids)], Rows::All, &go_on).unwrap()).collect();
    std::thread::scope(|scope| {
        for (ids, expected) in ids.iter().zip(&expected) {
            let packed = &packed;
            scope.spawn(move || {
                for _ in 0..20 {
                    assert!(&packed.forward(&[Sequence::single(ids)], Rows::All, &go_on).unwrap() == expected);
                }
            });
        }
    });
}

proptest! {
    /// Every query of every sequence is in one task, in order, and no region is longer than it may be.
    #[test]
    fn attention_tasks_cover_every_row_once(
        lengths in prop::collection::vec(1_usize..600, 1..40),
        first_only in any::<bool>(),
        threads in 1_usize..9,
    ) {
        let tasks = plan::attention_tasks(&lengths, first_only, threads);
        let covered = RefCell::new(Vec::new());
        for region in plan::attention_regions(&tasks, threads) {
            let rows: usize = region.iter().map(|task| task.rows).sum();
            prop_assert!(rows <= threads * 2 * BLOCK + 2 * BLOCK, "{rows} rows in a region for {threads} threads");
            for task in region {
                prop_assert_eq!(task.rows, task.pieces.iter().map(|piece| piece.queries.len()).sum::<usize>());
                for piece in &task.pieces {
                    covered.borrow_mut().extend(piece.queries.clone().map(|query| piece.sequence.start + query));
                }
            }
        }
        let starts = lengths.iter().scan(0, |next, length| { let start = *next; *next += length; Some(start) });
        let expected: Vec<usize> =
            if first_only { starts.collect() } else { (0..lengths.iter().sum()).collect() };
        prop_assert_eq!(covered.into_inner(), expected);
    }

    #[test]
    fn blocks_of_rows_are_small_and_many_enough(rows in 1_usize..5000, threads in 1_usize..9) {
        match plan::RowPlan::new(rows, threads) {
            RowPlan::Columns { threads: shared } => prop_assert!(shared == threads && rows < threads * 24),
            RowPlan::Rows { region, block } => {
                prop_assert!(region >= 1 && region <= threads * 2 * BLOCK);
                prop_assert!((1..=BLOCK).contains(&block) && block % 6 == 0);
            }
        }
    }
}
