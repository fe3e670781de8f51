use std::sync::Arc;

use paddock_types::job::LossAggMode;
use paddock_types::trajectory::Tokens;

use super::gradients::{Gradients, Tapes, cut, gradients};
use super::*;
use crate::grpo::{LossSettings, SequenceTerms, StepShape};
use crate::model::tests::small;
use crate::model::{Model, ModelCard, Packed, parameters};
use crate::policy::PolicyError;

/// A step's settings with everything switched on.
pub(crate) fn settings() -> UpdateSettings {
    UpdateSettings {
        step: 3,
        lr: 1e-3,
        warmup: 2,
        kl_coefficient: 0.05,
        clip_low: 0.2,
        clip_high: 0.2,
        loss_agg_mode: LossAggMode::SeqMeanTokenMean,
        mask_truncated: false,
        max_new_tokens: 32,
        temperature: 0.9,
        iterations: 2,
    }
}

/// Trajectories of differing length, with a masked stretch in the middle of each.
pub(crate) fn trajectories(count: u32) -> Vec<TrainTrajectory> {
    (0..count)
        .map(|i| {
            let length = 6 + (i * 5) % 23;
            let ids: Vec<u32> = (0..length).map(|t| (t * t + 3 * i + 7) % 40).collect();
            let mask = (0..length).map(|t| t >= 3 && t % 5 != 4).collect();
            let logprobs = vec![-3.0; ids.len()];
            TrainTrajectory {
                tokens: Tokens {
                    ids,
                    mask,
                    logprobs,
                },
                advantage: f64::from(i % 3) - 1.0,
                truncated: i % 4 == 1,
            }
        })
        .collect()
}

fn trainer() -> Trainer {
    Trainer::new(small(true), ModelCard::default()).expect("a trainer")
}

fn hash(trainer: &Trainer) -> String {
    trainer.model().hash().expect("a hash")
}

/// The step's loss and its gradients at a model, with π_old and π_ref given by formulas.
fn loss_at(model: &Model, trajectories: &[TrainTrajectory]) -> (f64, Gradients) {
    let packed =
        [Arc::new(Packed::new(trajectories.iter().map(|t| {
            (t.tokens.ids.as_slice(), t.tokens.mask.as_slice())
        })))];
    let counts: Vec<usize> = trajectories
        .iter()
        .map(|t| t.tokens.mask.iter().filter(|m| **m).count())
        .collect();
    let shape = StepShape {
        trajectories: counts.len(),
        tokens: counts.iter().sum(),
    };
    let terms = LossSettings {
        kl_coefficient: 0.3,
        clip_low: 0.2,
        clip_high: 0.2,
        mode: LossAggMode::SeqMeanTokenMean,
        max_new_tokens: 8,
    };
    let (gradients, losses) = gradients(
        model,
        (&packed, 1),
        0.9,
        &Tapes::default(),
        |_, logprobs, _| {
            let (mut loss, mut slopes) = (0.0, Vec::new());
            for (trajectory, count) in trajectories.iter().zip(&counts) {
                let logprobs = &logprobs[slopes.len()..slopes.len() + count];
                let old: Vec<f32> = (0..*count).map(|t| -3.7 - 0.02 * (t % 7) as f32).collect();
                let reference: Vec<f32> =
                    (0..*count).map(|t| -3.6 + 0.1 * (t % 5) as f32).collect();
                let sequence = SequenceTerms {
                    advantage: trajectory.advantage,
                    logprobs,
                    old: &old,
                    reference: Some(&reference),
                };
                let part = sequence.loss(&terms, terms.token_weight(shape, *count));
                loss += part.loss;
                slopes.extend(part.gradient);
            }
            (slopes, loss)
        },
    )
    .expect("gradients");
    (losses[0], gradients)
}

fn numbers(model: &Model) -> Vec<f32> {
    model.weights().to_vec1().expect("numbers")
}

#[test]
fn the_whole_loss_s_gradients_are_its_own() {
    let base = small(false);
    let numbers = numbers(&base);
    let trajectories = trajectories(5);
    let (_, gradients) = loss_at(&base, &trajectories);
    let mut from = 0;
    for parameter in parameters(base.config()) {
        let name = &parameter.parts[0].name;
        let gradient = &gradients[from..from + parameter.size()];
        let scale = gradient.iter().fold(0.0f32, |a, g| a.max(g.abs()));
        assert!(scale > 0.0, "{name} has no gradient");
        // The entries that matter most, and a few others.
        let mut at: Vec<usize> = (0..gradient.len()).collect();
        at.sort_by(|a, b| gradient[*b].abs().total_cmp(&gradient[*a].abs()));
        for at in at
            .iter()
            .take(3)
            .chain(at.iter().skip(7).step_by(at.len() / 3 + 1))
        {
            let moved = |by: f32| {
                let mut numbers = numbers.clone();
                numbers[from + at] += by;
                let model = Model::from_numbers(base.config().clone(), numbers).expect("a model");
                loss_at(&model, &trajectories).0
            };
            let h = 4e-3;
            let want = (moved(h) - moved(-h)) / f64::from(2.0 * h);
            let error = (want - f64::from(gradient[*at])).abs();
            assert!(
                error < 1e-2 * f64::from(scale) + 2e-5,
                "{name} at {at}: difference {want}, gradient {}",
                gradient[*at]
            );
        }
        from += parameter.size();
    }
}

#[test]
fn micro_batches_change_the_result_by_no_more_than_rounding() {
    let trajectories = trajectories(150);
    let rows: Vec<usize> = trajectories
        .iter()
        .map(|t| Packed::rows_of(&t.tokens.mask))
        .collect();
    let cuts = cut(&rows);
    assert!(cuts.ranges.len() > 4 && cuts.per_run > 1);
    let model = small(true);
    let pack = |range: std::ops::Range<usize>| {
        let of = |t: &'_ TrainTrajectory| t.tokens.clone();
        let tokens: Vec<Tokens> = trajectories[range].iter().map(of).collect();
        Arc::new(Packed::new(
            tokens.iter().map(|t| (t.ids.as_slice(), t.mask.as_slice())),
        ))
    };
    let total: usize = trajectories
        .iter()
        .flat_map(|t| &t.tokens.mask)
        .filter(|m| **m)
        .count();
    let run = |batches: Vec<Arc<Packed>>, per_run| {
        let slope = 1.0 / total as f32;
        let tapes = Tapes::default();
        let weigh = |_, x: &[f32], _: &[f32]| (vec![slope; x.len()], ());
        gradients(&model, (&batches, per_run), 1.0, &tapes, weigh)
            .expect("run")
            .0
    };
    let whole = run(vec![pack(0..150)], 1);
    let cut = run(cuts.ranges.into_iter().map(pack).collect(), cuts.per_run);
    for (a, b) in whole.iter().zip(&cut) {
        assert!((a - b).abs() < 1e-6, "{a} {b}");
    }
}

#[test]
fn an_update_is_the_same_from_run_to_run_and_on_any_number_of_threads() {
    let run = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
        pool.expect("a pool").install(|| {
            let mut trainer = trainer();
            let stats = trainer
                .update(&trajectories(150), &settings())
                .expect("an update");
            (hash(&trainer), stats)
        })
    };
    let first = run(1);
    assert_eq!(run(2), first);
    assert_eq!(run(3), first);
}

#[test]
fn groups_without_spread_move_nothing_but_are_counted() {
    let mut trainer = trainer();
    let before = hash(&trainer);
    let mut still = trajectories(8);
    still.iter_mut().for_each(|t| t.advantage = 0.0);
    let settings = UpdateSettings {
        kl_coefficient: 0.0,
        iterations: 1,
        ..settings()
    };
    let stats = trainer.update(&still, &settings).expect("an update");
    assert_eq!((stats.loss, stats.grad_norm), (0.0, 0.0));
    assert!(stats.tokens > 0 && stats.entropy > 0.0);
    assert_eq!(hash(&trainer), before);
    // Half of them still: the others' gradient is half of what it is alone, N being twice as much.
    let moving = trajectories(8);
    let alone = trainer
        .update(&moving, &settings)
        .expect("an update")
        .grad_norm;
    let mut trainer = self::trainer();
    let both = [moving, still].concat();
    let beside = trainer
        .update(&both, &settings)
        .expect("an update")
        .grad_norm;
    assert!((alone / beside - 2.0).abs() < 1e-3, "{alone} {beside}");
}

#[test]
fn the_kl_term_is_zero_at_first_and_grows() {
    let mut trainer = trainer();
    let settings = UpdateSettings {
        iterations: 1,
        lr: 1e-2,
        ..settings()
    };
    let first = trainer
        .update(&trajectories(20), &settings)
        .expect("an update");
    let second = trainer
        .update(&trajectories(20), &settings)
        .expect("an update");
    assert_eq!((first.kl, first.clip_fraction), (0.0, 0.0));
    assert!(second.kl > 0.0);
    let again = UpdateSettings {
        iterations: 4,
        lr: 1e-1,
        ..settings
    };
    assert!(
        trainer
            .update(&trajectories(20), &again)
            .expect("an update")
            .clip_fraction
            > 0.0
    );
}

#[test]
fn masking_truncated_trajectories_trains_on_none_of_their_tokens() {
    let all = trajectories(8);
    let settings = UpdateSettings {
        mask_truncated: true,
        ..settings()
    };
    let mut masked = all.clone();
    for trajectory in masked.iter_mut().filter(|t| t.truncated) {
        trajectory.tokens.mask.fill(false);
        trajectory.truncated = false;
    }
    let (mut a, mut b) = (trainer(), trainer());
    let stats = a.update(&all, &settings).expect("an update");
    assert_eq!(stats, b.update(&masked, &settings).expect("an update"));
    assert_eq!(hash(&a), hash(&b));
}

#[test]
fn the_learning_rate_warms_up_and_stays() {
    let lr = |step, warmup| {
        let settings = UpdateSettings {
            step,
            warmup,
            lr: 0.4,
            iterations: 1,
            ..settings()
        };
        trainer()
            .update(&trajectories(2), &settings)
            .expect("an update")
            .lr
    };
    assert_eq!(
        [lr(1, 4), lr(2, 4), lr(4, 4), lr(9, 4), lr(1, 0)],
        [0.1, 0.2, 0.4, 0.4, 0.4]
    );
}

#[test]
fn numbers_that_are_not_finite_stop_the_update_and_change_nothing() {
    let mut trainer = trainer();
    let wild = UpdateSettings {
        lr: 1e30,
        step: 2,
        iterations: 1,
        ..settings()
    };
    trainer
        .update(&trajectories(6), &wild)
        .expect("the first step still has good weights");
    let before = hash(&trainer);
    let error = trainer
        .update(&trajectories(6), &wild)
        .expect_err("nothing is finite now");
    let PolicyError::NonFinite {
        what,
        step,
        evidence,
    } = error
    else {
        panic!("another error: {error:?}")
    };
    assert_eq!(step, 2);
    assert!(
        ["gradient", "loss", "log-prob"].contains(&what),
        "{what}: {evidence}"
    );
    assert_eq!(hash(&trainer), before);

    // In the second update of a step, what the first one did is taken back.
    let mut trainer = self::trainer();
    let before = hash(&trainer);
    let error = trainer.update(
        &trajectories(6),
        &UpdateSettings {
            iterations: 2,
            ..wild
        },
    );
    assert!(
        matches!(error, Err(PolicyError::NonFinite { .. })),
        "{error:?}"
    );
    assert_eq!(hash(&trainer), before);
}

#[test]
fn a_log_prob_that_is_not_finite_is_named_by_trajectory_and_token() {
    let base = small(true);
    let mut numbers = numbers(&base);
    // The last gain: every logit is broken.
    *numbers.last_mut().expect("a number") = f32::NAN;
    let model = Model::from_numbers(base.config().clone(), numbers).expect("a model");
    let mut trainer = Trainer::new(model, ModelCard::default()).expect("a trainer");
    let once = UpdateSettings {
        iterations: 1,
        ..settings()
    };
    let error = trainer
        .update(&trajectories(6), &once)
        .expect_err("refused")
        .to_string();
    let want = "step 3: log-prob is not finite (NaN at token 3 of trajectory 0 of the step)";
    assert_eq!(error, want);
}

#[test]
fn trajectories_that_cannot_be_trained_on_are_named() {
    let mut unequal = trajectories(2);
    unequal[1].tokens.mask.pop();
    let mut foreign = trajectories(2);
    foreign[1].tokens.ids[0] = 40;
    let mut endless = trajectories(2);
    endless[1].advantage = f64::INFINITY;
    for batch in [unequal, foreign, endless] {
        let error = trainer()
            .update(&batch, &settings())
            .expect_err("refused")
            .to_string();
        assert!(error.starts_with("trajectory 1: "), "{error}");
    }
}
