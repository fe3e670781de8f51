use super::*;
use crate::model::decoder::Tape;
use crate::model::infer::Reading;
use crate::ops::logprob::target_logprobs;
use crate::train::{AdamW, Example, supervised_step};

/// A model small enough for tests in the debug profile of the rest.
pub(crate) fn small(tied: bool) -> Model {
    let mut config = ModelConfig::base(40);
    config.hidden_size = 32;
    config.intermediate_size = 48;
    config.num_hidden_layers = 2;
    config.num_attention_heads = 4;
    config.num_key_value_heads = Some(2);
    config.head_dim = Some(16);
    config.max_position_embeddings = 128;
    config.tie_word_embeddings = tied;
    Model::initial(config, 7).expect("a model")
}

fn sequence(len: usize, seed: u32) -> Vec<u32> {
    (0..len as u32)
        .map(|i| (i * 7 + seed * 13 + i * i) % 40)
        .collect()
}

#[test]
fn the_base_shape_has_about_a_million_parameters() {
    let model = Model::initial(ModelConfig::base(272), 0).expect("a model");
    assert_eq!(model.parameter_count(), 1_019_264);
}

#[test]
fn training_scoring_and_sampling_give_the_same_bits() {
    let model = small(true);
    let ids: Vec<Vec<u32>> = vec![sequence(5, 1), sequence(40, 2), sequence(3, 3)];
    let masks: Vec<Vec<bool>> = ids
        .iter()
        .map(|ids| (0..ids.len()).map(|t| t > 1).collect())
        .collect();
    let packed = Packed::new(
        ids.iter()
            .zip(&masks)
            .map(|(i, m)| (i.as_slice(), m.as_slice())),
    );
    let reading = Reading::new(&model).expect("a model");
    let (mut trained, mut scored) = (Tape::default(), Tape::default());
    // Memory of another micro-batch must make no difference.
    let other = [(ids[1].as_slice(), masks[1].as_slice())];
    for tape in [&mut trained, &mut scored] {
        reading
            .forward(&Packed::new(other), 1.0, tape)
            .expect("a pass");
    }
    reading.forward(&packed, 0.8, &mut trained).expect("a pass");
    let scored = reading.score(&packed, 0.8, &mut scored).expect("a pass");
    assert_eq!(trained.logprobs, scored);
    let mut cached = Vec::new();
    for (ids, mask) in ids.iter().zip(&masks) {
        let wanted: Vec<u32> = (1..ids.len())
            .filter(|t| mask[*t])
            .map(|t| t as u32 - 1)
            .collect();
        let targets: Vec<u32> = wanted.iter().map(|t| ids[*t as usize + 1]).collect();
        let mut cache = Cache::new(&model);
        let logits = reading.extend(&mut [(&mut cache, ids)], &wanted);
        let (logprobs, _) = target_logprobs(&logits.expect("a pass"), &targets, 1.25);
        cached.extend(logprobs);
    }
    assert_eq!(trained.logprobs, cached);
    assert_eq!(cached.len(), packed.targets());
}

#[test]
fn a_saved_model_loads_as_it_was() {
    let folder = tempfile::tempdir().expect("a folder");
    for tied in [true, false] {
        let model = small(tied);
        let card = ModelCard {
            name: "small".into(),
            lr: 1e-3,
            ..ModelCard::default()
        };
        model.save(folder.path(), &card).expect("saved");
        let (loaded, card) = Model::load(folder.path()).expect("loaded");
        assert_eq!(
            loaded.hash().expect("a hash"),
            model.hash().expect("a hash")
        );
        assert_eq!(card.hash, model.hash().expect("a hash"));
        assert_eq!((card.name.as_str(), card.context), ("small", 128));
        assert_eq!(loaded.config(), model.config());
    }
}

#[test]
fn a_frozen_copy_keeps_its_weights() {
    let mut model = small(true);
    let frozen = model.frozen().expect("a copy");
    let before = model.hash().expect("a hash");
    let mut optimiser = AdamW::new(&model, 0.0);
    let ids = sequence(20, 1);
    let batch = [Example {
        mask: vec![true; ids.len()],
        ids,
    }];
    supervised_step(&mut model, &mut optimiser, &batch, 1e-2).expect("a step");
    assert_eq!(frozen.hash().expect("a hash"), before);
    assert_ne!(model.hash().expect("a hash"), before);
}

#[test]
fn supervised_steps_learn_a_sequence() {
    let mut model = small(false);
    let mut optimiser = AdamW::new(&model, 0.0);
    let ids = sequence(30, 1);
    let batch = [Example {
        mask: vec![true; ids.len()],
        ids,
    }];
    let mut losses = Vec::new();
    for _ in 0..60 {
        losses.push(supervised_step(&mut model, &mut optimiser, &batch, 1e-2).expect("a step"));
    }
    assert!(
        (losses[0] - 40f64.ln()).abs() < 0.3,
        "first loss {}",
        losses[0]
    );
    assert!(losses[59] < 0.2, "last loss {}", losses[59]);
}
