//! GRPO on a task, as a job does it: draw, roll out, grade, normalise, update; validate now and then.

use std::path::Path;
use std::time::Instant;

use paddock_policy::grpo::advantages;
use paddock_policy::tokenizer::show as show_tokens;
use paddock_policy::{Policy, PolicyError, SampleKey, TrainTrajectory, UpdateSettings};
use paddock_types::id::Phase;
use paddock_types::job::{LossAggMode, ScaleRewards};
use serde_json::Value;
use tokio::task::JoinSet;

use super::Outcome;
use super::tasks::{self, max_new_tokens, rollout, rows};

const GENERATIONS: u32 = 8;

pub(crate) fn run(folder: &Path, task: &str, steps: u32, lr: f64, seed: u64) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    runtime.block_on(train(folder, task, steps, lr, seed))
}

/// Prints a few rollouts of a model.
pub(crate) fn show(folder: &Path, task: &str) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread().build()?;
    runtime.block_on(async {
        let policy = Policy::load(folder)?;
        let rows = rows(task, "validation.jsonl")?;
        for (greedy, temperature) in [("sampled", 1.0), ("greedy", 0.0)] {
            let key = key(0, Phase::Test, 0);
            let out = roll(&policy, task, &rows, 1, key, temperature).await?;
            for outcome in out.iter().take(12) {
                let shown = show_tokens(&outcome.conversation.tokens.ids);
                println!("{:.2} {shown}", outcome.reward);
            }
            println!("{greedy}: {}", summary(&out));
        }
        Ok(())
    })
}

async fn train(folder: &Path, task: &str, steps: u32, lr: f64, seed: u64) -> Outcome {
    let policy = Policy::load(folder)?;
    let train = rows(task, "train.jsonl")?;
    let validation = rows(task, "validation.jsonl")?;
    let batch = if task == "arithmetic" { 32 } else { 16 };
    let started = Instant::now();
    for step in 0..=steps {
        if step % 20 == 0 || step == steps {
            let key = key(seed, Phase::Test, step);
            let out = roll(&policy, task, &validation, 1, key, 1.0).await?;
            let seconds = started.elapsed().as_secs_f64();
            println!("{step:>4} validation {} {seconds:.0} s", summary(&out));
        }
        if step == steps {
            break;
        }
        let step = step + 1;
        let first = (step as usize - 1) * batch;
        let drawn: Vec<Value> = (first..first + batch)
            .map(|i| train[i % train.len()].clone())
            .collect();
        let key = key(seed, Phase::Train, step);
        let out = roll(&policy, task, &drawn, GENERATIONS, key, 1.0).await?;
        let rolled = started.elapsed().as_secs_f64();
        let line = summary(&out);
        let mut trajectories = Vec::new();
        let mut flat = 0;
        for group in out.chunks(GENERATIONS as usize) {
            let rewards: Vec<f64> = group.iter().map(|outcome| outcome.reward).collect();
            let advantages = advantages(&rewards, ScaleRewards::Group);
            flat += usize::from(advantages.iter().all(|a| *a == 0.0));
            for (outcome, advantage) in group.iter().zip(advantages) {
                trajectories.push(TrainTrajectory {
                    tokens: outcome.conversation.tokens.clone(),
                    advantage,
                    truncated: outcome.conversation.finish_reason == "length",
                });
            }
        }
        let stats = policy
            .update(trajectories, settings(task, step, lr))
            .await?;
        if step % 5 == 0 {
            println!(
                "{step:>4} {line} flat {:.2} entropy {:.3} kl {:.4} norm {:.2} | {:.2} s",
                flat as f64 / batch as f64,
                stats.entropy,
                stats.kl,
                stats.grad_norm,
                started.elapsed().as_secs_f64() - rolled,
            );
        }
    }
    Ok(())
}

fn settings(task: &str, step: u32, lr: f64) -> UpdateSettings {
    UpdateSettings {
        step,
        lr,
        warmup: 10,
        kl_coefficient: 0.001,
        clip_low: 0.2,
        clip_high: 0.2,
        loss_agg_mode: LossAggMode::SeqMeanTokenMean,
        mask_truncated: false,
        max_new_tokens: max_new_tokens(task),
        temperature: 1.0,
        iterations: 1,
    }
}

fn key(seed: u64, phase: Phase, step: u32) -> SampleKey {
    SampleKey {
        seed,
        phase,
        step,
        sample: 0,
        generation: 0,
        turn: 0,
    }
}

async fn roll(
    policy: &Policy,
    task: &str,
    rows: &[Value],
    generations: u32,
    key: SampleKey,
    temperature: f64,
) -> Result<Vec<tasks::Outcome>, PolicyError> {
    let mut running = JoinSet::new();
    for (sample, row) in rows.iter().enumerate() {
        for generation in 0..generations {
            let key = SampleKey {
                sample: sample as u32,
                generation,
                ..key
            };
            let one = rollout(
                policy.clone(),
                task.to_owned(),
                row.clone(),
                key,
                temperature,
            );
            running.spawn(async move { (key.sample, key.generation, one.await) });
        }
    }
    let mut done = running.join_all().await;
    done.sort_by_key(|(sample, generation, _)| (*sample, *generation));
    done.into_iter().map(|(_, _, outcome)| outcome).collect()
}

fn summary(out: &[tasks::Outcome]) -> String {
    let count = out.len() as f64;
    let reward: f64 = out.iter().map(|o| o.reward).sum::<f64>() / count;
    let success = out.iter().filter(|o| o.success).count() as f64 / count;
    let turns: f64 = out
        .iter()
        .map(|o| f64::from(o.conversation.turns))
        .sum::<f64>()
        / count;
    format!("reward {reward:.3} success {success:.3} turns {turns:.1}")
}
