//! BERT and XLM-RoBERTa encoders in f32 on the CPU, over packed batches, with weights packed for the processor.
//!
//! All sequences of a batch lie one after another in one (tokens × hidden) matrix: no padding, no mask. A layer is two steps:
//! [`attention`] for each sequence, and everything between two attentions for each block of rows ([`layer`]): its products,
//! GELU, residuals and LayerNorms follow one another while the block is in a core's cache. The weights are packed once into
//! [`panels`]; [`product`] passes them over a block, tile by tile of a [`kernel`]. [`plan`] cuts a pass into tasks for the
//! caller's threads and into regions between which the caller's checkpoint is asked.
//!
//! With [`Precision::Int8`] the weights of the products are [`bytes`]; all else stays as it is.
//!
//! What is computed for a row does not depend on how it was cut: the same text gives the same vector, to the bit, in every
//! batch and on every number of threads. `models/tensors.rs` is the same model in candle tensors.

mod attention;
mod bytes;
mod embeddings;
mod kernel;
mod layer;
mod panels;
mod plan;
pub(crate) mod product;
mod scratch;
#[cfg(test)]
mod tests;

use rayon::prelude::*;

use crate::encoder::{Checkpoint, EncodeError, Sequence};
use crate::error;
use crate::folder::bert_config::BertConfig;
use crate::models::{Rows, TokenVectors, Transformer};
use crate::precision::Precision;
use crate::weights::Weights;
use attention::{AttentionScratch, Heads, Views};
use embeddings::{Embeddings, Token};
pub(crate) use kernel::Kernel;
pub(crate) use layer::BLOCK;
use layer::{Layer, LayerScratch, Means, Projection};
pub(crate) use panels::Strided;
use plan::{AttentionTask, RowPlan};
use scratch::Pool;

/// Matrices of passes that are kept for the next ones: one for each worker, and one more where a checkpoint runs a pass.
const KEPT_PASSES: usize = 4;
/// A pass with more values than this gives its memory back: 256 MiB.
const KEPT_VALUES: usize = 64 << 20;
/// Memory of tasks that is kept: one for each thread of a large machine.
const KEPT_TASKS: usize = 256;

/// An encoder with packed weights.
#[derive(Debug)]
pub(crate) struct PackedTransformer {
    kernel: Kernel,
    embeddings: Embeddings,
    layers: Vec<Layer>,
    heads: Heads,
    hidden: usize,
    passes: Pool<Pass>,
    tasks: Pool<TaskScratch>,
}

/// The matrices of a pass; row after row.
#[derive(Debug, Default)]
struct Pass {
    tokens: Vec<Token>,
    /// (rows × hidden), the layer's input and at last its output.
    x: Vec<f32>,
    /// (rows × 3 hidden): query, key and value.
    projected: Vec<f32>,
    /// (rows × hidden): what attention makes.
    context: Vec<f32>,
}

#[derive(Debug, Default)]
struct TaskScratch {
    attention: AttentionScratch,
    layer: LayerScratch,
}

/// What is done with a block of rows of the matrix, the first of which has the given number.
type BlockWork<'a> = dyn Fn(Means, usize, &mut [f32], &mut TaskScratch) + Sync + 'a;

impl PackedTransformer {
    /// Takes the weights that `config` describes.
    pub(crate) fn load(config: &BertConfig, weights: &Weights<'_>, precision: Precision) -> error::Result<Self> {
        Self::load_for(Kernel::best(), config, weights, precision)
    }

    fn load_for(
        kernel: Kernel,
        config: &BertConfig,
        weights: &Weights<'_>,
        precision: Precision,
    ) -> error::Result<Self> {
        Ok(Self {
            kernel,
            embeddings: Embeddings::load(config, weights)?,
            layers: (0..config.layers)
                .map(|index| Layer::load(config, weights, precision, &format!("encoder.layer.{index}")))
                .collect::<error::Result<_>>()?,
            heads: Heads { count: config.heads, width: config.hidden / config.heads.max(1) },
            hidden: config.hidden,
            passes: Pool::new(KEPT_PASSES),
            tasks: Pool::new(KEPT_TASKS),
        })
    }

    fn run(
        &self,
        pass: &mut Pass,
        sequences: &[Sequence<'_>],
        wanted: Rows,
        checkpoint: Checkpoint<'_>,
    ) -> Result<Vec<f32>, EncodeError> {
        let Pass { tokens, x, projected, context } = pass;
        tokens.clear();
        for sequence in sequences {
            tokens.extend(self.embeddings.tokens(sequence).map_err(EncodeError::Failed)?);
        }
        let lengths: Vec<usize> = sequences.iter().map(|sequence| sequence.ids.len()).collect();
        let rows = tokens.len();
        let hidden = self.hidden;
        x.resize(rows * hidden, 0.0);
        projected.resize(rows * 3 * hidden, 0.0);
        context.resize(rows * hidden, 0.0);

        // What the last layer computes: of a layer with `Rows::First`, keys and values for all rows, the rest for the first.
        let last_projection = if wanted == Rows::First { Projection::KeyValue } else { Projection::All };
        let projection = |index: usize| if index + 1 == self.layers.len() { last_projection } else { Projection::All };

        let tokens = tokens.as_slice();
        let next = self.layers.first().map(|layer| (layer, projection(0)));
        self.by_rows(x, &mut *projected, next, checkpoint, &|_, first, x, _| {
            self.embeddings.look_up(self.kernel, tokens.get(first..).unwrap_or_default(), x);
        })?;
        let tasks = plan::attention_tasks(&lengths, false, rayon::current_num_threads());
        for (index, layer) in self.layers.iter().enumerate() {
            if projection(index) == Projection::KeyValue {
                return self.finish_first(layer, x, projected, &lengths, checkpoint);
            }
            let queries = Strided::new(projected, 3 * hidden);
            self.attend(&tasks, queries, projected, context, checkpoint)?;
            let next = self.layers.get(index + 1).map(|next| (next, projection(index + 1)));
            let context = context.as_slice();
            self.by_rows(x, &mut *projected, next, checkpoint, &|means, first, x, scratch| {
                let context = context.get(first * hidden..).unwrap_or_default();
                layer.finish(means, context, x, &mut scratch.layer);
            })?;
        }
        Ok(match wanted {
            Rows::All => x.clone(),
            Rows::First => first_rows(x, &lengths, hidden),
        })
    }

    /// The last layer where only the first row of each sequence is wanted.
    fn finish_first(
        &self,
        layer: &Layer,
        x: &[f32],
        projected: &[f32],
        lengths: &[usize],
        checkpoint: Checkpoint<'_>,
    ) -> Result<Vec<f32>, EncodeError> {
        let hidden = self.hidden;
        let mut x = first_rows(x, lengths, hidden);
        let mut queries = vec![0.0; x.len()];
        let mut context = vec![0.0; x.len()];
        let means = Means { kernel: self.kernel, parts: rayon::current_num_threads() };
        layer.queries(means, &x, &mut queries);
        let tasks = plan::attention_tasks(lengths, true, rayon::current_num_threads());
        self.attend(&tasks, Strided::new(&queries, hidden), projected, &mut context, checkpoint)?;
        self.by_rows(&mut x, &mut [], None, checkpoint, &|means, first, x, scratch| {
            layer.finish(means, context.get(first * hidden..).unwrap_or_default(), x, &mut scratch.layer);
        })?;
        Ok(x)
    }

    /// Runs `work` for each block of rows of `x`, and then makes what the attention of the `next` layer asks for. `work` gets
    /// the number of the block's first row.
    fn by_rows(
        &self,
        x: &mut [f32],
        projected: &mut [f32],
        next: Option<(&Layer, Projection)>,
        checkpoint: Checkpoint<'_>,
        work: &BlockWork<'_>,
    ) -> Result<(), EncodeError> {
        let hidden = self.hidden;
        let block = |parts: usize, first: usize, x: &mut [f32], projected: Option<&mut [f32]>| {
            let means = Means { kernel: self.kernel, parts };
            self.tasks.with(|scratch| work(means, first, x, scratch));
            if let (Some((layer, projection)), Some(projected)) = (next, projected) {
                layer.project(means, x, projected, projection);
            }
        };
        let rows = x.len() / hidden;
        let (region, block_rows) = match RowPlan::new(rows, rayon::current_num_threads()) {
            RowPlan::Columns { threads } => {
                block(threads, 0, x, next.map(|_| projected));
                return ask(checkpoint);
            }
            RowPlan::Rows { region, block } => (region, block),
        };
        let mut projected = projected.chunks_mut(region * 3 * hidden);
        for (index, x) in x.chunks_mut(region * hidden).enumerate() {
            let mut projected = projected.next().unwrap_or_default().chunks_mut(block_rows * 3 * hidden);
            let blocks: Vec<_> = x
                .chunks_mut(block_rows * hidden)
                .enumerate()
                .map(|(number, x)| (index * region + number * block_rows, x, projected.next()))
                .collect();
            each(blocks, &|(first, x, projected)| block(1, first, x, projected));
            ask(checkpoint)?;
        }
        Ok(())
    }

    /// Attention of `tasks`, whose queries are the rows of `queries` and `context`, one after another.
    fn attend(
        &self,
        tasks: &[AttentionTask],
        queries: Strided<'_>,
        projected: &[f32],
        context: &mut [f32],
        checkpoint: Checkpoint<'_>,
    ) -> Result<(), EncodeError> {
        let hidden = self.hidden;
        let projected = Strided::new(projected, 3 * hidden);
        let mut context = context.chunks_exact_mut(hidden);
        let mut first = 0;
        for region in plan::attention_regions(tasks, rayon::current_num_threads()) {
            let mut works = Vec::with_capacity(region.len());
            for task in region {
                works.push((task, first, context.by_ref().take(task.rows).collect::<Vec<_>>()));
                first += task.rows;
            }
            each(works, &|(task, first, mut context)| {
                self.tasks.with(|scratch| {
                    let mut done = 0;
                    for piece in &task.pieces {
                        let sequence = projected.skip(piece.sequence.start, 0);
                        let views = Views {
                            queries: queries.skip(first + done, 0),
                            keys: sequence.skip(0, hidden),
                            values: sequence.skip(0, 2 * hidden),
                            length: piece.sequence.len(),
                        };
                        let rows = context.get_mut(done..done + piece.queries.len()).unwrap_or_default();
                        self.heads.attend(self.kernel, views, rows, &mut scratch.attention);
                        done += piece.queries.len();
                    }
                });
            });
            ask(checkpoint)?;
        }
        Ok(())
    }
}

impl Transformer for PackedTransformer {
    fn hidden(&self) -> usize {
        self.hidden
    }

    /// (`BertModel`) Linear in the tokens, apart from attention, which is quadratic in each sequence. Asks `checkpoint` twice
    /// in each layer, and after every 192 rows for each thread.
    fn forward(
        &self,
        sequences: &[Sequence<'_>],
        rows: Rows,
        checkpoint: Checkpoint<'_>,
    ) -> Result<TokenVectors, EncodeError> {
        let values = self.passes.with(|pass| {
            let values = self.run(pass, sequences, rows, checkpoint);
            if pass.x.capacity() + pass.projected.capacity() + pass.context.capacity() > KEPT_VALUES {
                *pass = Pass::default();
            }
            values
        })?;
        let lengths = sequences.iter().map(|sequence| if rows == Rows::First { 1 } else { sequence.ids.len() });
        Ok(TokenVectors { values, width: self.hidden, lengths: lengths.collect() })
    }
}

fn ask(checkpoint: Checkpoint<'_>) -> Result<(), EncodeError> {
    if checkpoint().is_break() { Err(EncodeError::Stopped) } else { Ok(()) }
}

/// Runs `work` for each item on the caller's threads; on the calling thread alone where there is but one.
fn each<T: Send>(mut items: Vec<T>, work: &(impl Fn(T) + Sync)) {
    if items.len() > 1 {
        items.into_par_iter().with_max_len(1).for_each(work);
    } else if let Some(only) = items.pop() {
        work(only);
    }
}

fn first_rows(x: &[f32], lengths: &[usize], hidden: usize) -> Vec<f32> {
    let mut rows = Vec::with_capacity(lengths.len() * hidden);
    let mut start = 0;
    for length in lengths {
        rows.extend_from_slice(x.get(start..start + hidden).unwrap_or_default());
        start += length * hidden;
    }
    rows
}
