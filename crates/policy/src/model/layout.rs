//! The parameters of a shape: their order, sizes, and names in files.
//!
//! Query, key and value projections are one parameter here, gate and up projections another:
//! fewer and larger products. Files hold them apart, as everyone's do.

use super::config::ModelConfig;

/// A named tensor of a file: some rows of a parameter.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Part {
    /// Its name in the file.
    pub(crate) name: String,
    /// Its rows.
    pub(crate) rows: usize,
}

/// A parameter of the decoder.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Parameter {
    /// What it is made of, top to bottom.
    pub(crate) parts: Vec<Part>,
    /// Columns; `None` for a vector.
    pub(crate) cols: Option<usize>,
    /// How it begins.
    pub(crate) start: Start,
}

/// How a parameter begins.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Start {
    /// All ones: a norm's gain.
    Ones,
    /// Normal with this standard deviation.
    Normal(f64),
}

impl Parameter {
    fn matrix<const N: usize>(parts: [(String, usize); N], cols: usize, deviation: f64) -> Self {
        let parts = parts.map(|(name, rows)| Part { name, rows }).into();
        Self {
            parts,
            cols: Some(cols),
            start: Start::Normal(deviation),
        }
    }

    fn gain(name: String, size: usize) -> Self {
        Self {
            parts: vec![Part { name, rows: size }],
            cols: None,
            start: Start::Ones,
        }
    }

    /// Its shape.
    pub(crate) fn shape(&self) -> Vec<usize> {
        let rows = self.parts.iter().map(|part| part.rows).sum();
        std::iter::once(rows).chain(self.cols).collect()
    }

    /// Its numbers.
    pub(crate) fn size(&self) -> usize {
        self.shape().iter().product()
    }
}

/// The parameters of a block.
pub(crate) struct Block<T> {
    pub(crate) attention_norm: T,
    pub(crate) qkv: T,
    pub(crate) out: T,
    pub(crate) mlp_norm: T,
    pub(crate) gate_up: T,
    pub(crate) down: T,
}

/// One thing for each parameter, by its place in the model.
pub(crate) struct Parts<T> {
    pub(crate) embeddings: T,
    pub(crate) blocks: Vec<Block<T>>,
    pub(crate) norm: T,
    /// `None` where the output layer is the embedding table.
    pub(crate) head: Option<T>,
}

impl<T> Parts<T> {
    /// Sorts things that come in the order of [`parameters`].
    fn new(config: &ModelConfig, all: impl IntoIterator<Item = T>) -> Self {
        let mut all = all.into_iter();
        let mut next = || all.next().expect("one thing for each parameter");
        Self {
            embeddings: next(),
            blocks: (0..config.num_hidden_layers)
                .map(|_| Block {
                    attention_norm: next(),
                    qkv: next(),
                    out: next(),
                    mlp_norm: next(),
                    gate_up: next(),
                    down: next(),
                })
                .collect(),
            norm: next(),
            head: if config.tie_word_embeddings {
                None
            } else {
                Some(next())
            },
        }
    }
}

/// The numbers of each parameter.
pub(crate) fn cut<'a>(config: &ModelConfig, mut all: &'a [f32]) -> Parts<&'a [f32]> {
    Parts::new(
        config,
        parameters(config).iter().map(|parameter| {
            let (these, rest) = all.split_at(parameter.size());
            all = rest;
            these
        }),
    )
}

/// The numbers of each parameter, to be changed.
pub(crate) fn cut_mut<'a>(config: &ModelConfig, mut all: &'a mut [f32]) -> Parts<&'a mut [f32]> {
    Parts::new(
        config,
        parameters(config).iter().map(|parameter| {
            let (these, rest) = std::mem::take(&mut all).split_at_mut(parameter.size());
            all = rest;
            these
        }),
    )
}

/// All parameters, in the order that models, gradients and optimisers keep them in:
/// embeddings, blocks, last norm, output layer if it is not tied.
pub(crate) fn parameters(config: &ModelConfig) -> Vec<Parameter> {
    let (width, inner) = (config.hidden_size, config.intermediate_size);
    let heads = config.heads();
    // GPT-2's starting point: what is added to the residual stream starts smaller with depth.
    let residual = 0.02 / (2.0 * config.num_hidden_layers as f64).sqrt();
    let embeddings = ("model.embed_tokens.weight".into(), config.vocab_size);
    let mut all = vec![Parameter::matrix([embeddings], width, 0.02)];
    for layer in 0..config.num_hidden_layers {
        let name = |tail: &str| format!("model.layers.{layer}.{tail}.weight");
        let keys = heads.keys * heads.head;
        all.extend([
            Parameter::gain(name("input_layernorm"), width),
            Parameter::matrix(
                [
                    (name("self_attn.q_proj"), heads.out()),
                    (name("self_attn.k_proj"), keys),
                    (name("self_attn.v_proj"), keys),
                ],
                width,
                0.02,
            ),
            Parameter::matrix([(name("self_attn.o_proj"), width)], heads.out(), residual),
            Parameter::gain(name("post_attention_layernorm"), width),
            Parameter::matrix(
                [(name("mlp.gate_proj"), inner), (name("mlp.up_proj"), inner)],
                width,
                0.02,
            ),
            Parameter::matrix([(name("mlp.down_proj"), width)], inner, residual),
        ]);
    }
    all.push(Parameter::gain("model.norm.weight".into(), width));
    if !config.tie_word_embeddings {
        all.push(Parameter::matrix(
            [("lm_head.weight".into(), config.vocab_size)],
            width,
            0.02,
        ));
    }
    all
}
