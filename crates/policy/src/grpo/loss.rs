//! The loss of a step: clipped surrogate (Schulman et al. 2017, eq. 7) plus the k3 estimate of
//! the KL divergence to the reference (DeepSeekMath eq. 4), aggregated by one of four modes.

use paddock_types::job::LossAggMode;

/// What all tokens of a step share.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LossSettings {
    /// Weight of the KL term.
    pub kl_coefficient: f64,
    /// Lower clip range of the ratio.
    pub clip_low: f64,
    /// Upper clip range of the ratio.
    pub clip_high: f64,
    /// How token losses become one number.
    pub mode: LossAggMode,
    /// L of `seq-mean-token-sum-norm`.
    pub max_new_tokens: u32,
}

/// The denominators of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StepShape {
    /// N: trajectories of the step, those without trained tokens and those of groups without
    /// spread included.
    pub trajectories: usize,
    /// Trained tokens of all of them.
    pub tokens: usize,
}

impl LossSettings {
    /// Factor of each token's loss in a trajectory of `tokens` trained tokens.
    pub fn token_weight(&self, shape: StepShape, tokens: usize) -> f64 {
        let per_trajectory = 1.0 / shape.trajectories.max(1) as f64;
        match self.mode {
            LossAggMode::SeqMeanTokenMean => per_trajectory / tokens.max(1) as f64,
            LossAggMode::TokenMean => 1.0 / shape.tokens.max(1) as f64,
            LossAggMode::SeqMeanTokenSum => per_trajectory,
            LossAggMode::SeqMeanTokenSumNorm => {
                per_trajectory / f64::from(self.max_new_tokens.max(1))
            }
        }
    }
}

/// The trained tokens of one trajectory.
#[derive(Debug, Clone, Copy)]
pub struct SequenceTerms<'a> {
    /// A of all its tokens.
    pub advantage: f64,
    /// log π_θ.
    pub logprobs: &'a [f32],
    /// log π_old.
    pub old: &'a [f32],
    /// log π_ref; `None` leaves the KL term out.
    pub reference: Option<&'a [f32]>,
}

/// One trajectory's part of the step's loss.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct SequenceLoss {
    /// Its addend of the loss, weighted.
    pub loss: f64,
    /// Σ k3 over its trained tokens, not weighted.
    pub kl: f64,
    /// Tokens whose clipped branch was taken.
    pub clipped: usize,
    /// d(loss of the step)/d(log π_θ) of each trained token.
    pub gradient: Vec<f32>,
}

impl SequenceTerms<'_> {
    /// The trajectory's loss, with each token's loss times `weight`.
    pub fn loss(&self, settings: &LossSettings, weight: f64) -> SequenceLoss {
        let mut out = SequenceLoss {
            gradient: Vec::with_capacity(self.logprobs.len()),
            ..SequenceLoss::default()
        };
        let (low, high) = (1.0 - settings.clip_low, 1.0 + settings.clip_high);
        for (t, logprob) in self.logprobs.iter().enumerate() {
            let logprob = f64::from(*logprob);
            let ratio = (logprob - f64::from(self.old[t])).exp();
            let free = ratio * self.advantage;
            let bound = ratio.clamp(low, high) * self.advantage;
            // Where the bound is the lesser, it is constant: no gradient.
            let clipped = bound < free;
            let mut loss = if clipped { -bound } else { -free };
            let mut slope = if clipped { 0.0 } else { -free };
            if let Some(reference) = self.reference {
                let d = f64::from(reference[t]) - logprob;
                let k3 = d.exp() - d - 1.0;
                out.kl += k3;
                loss += settings.kl_coefficient * k3;
                slope += settings.kl_coefficient * (1.0 - d.exp());
            }
            out.clipped += usize::from(clipped);
            out.loss += weight * loss;
            out.gradient.push((weight * slope) as f32);
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SETTINGS: LossSettings = LossSettings {
        kl_coefficient: 0.1,
        clip_low: 0.2,
        clip_high: 0.3,
        mode: LossAggMode::SeqMeanTokenMean,
        max_new_tokens: 16,
    };

    fn terms<'a>(advantage: f64, logprobs: &'a [f32], old: &'a [f32]) -> SequenceTerms<'a> {
        SequenceTerms {
            advantage,
            logprobs,
            old,
            reference: Some(&[-1.0, -2.0, -0.5, -1.5]),
        }
    }

    #[test]
    fn the_gradient_is_the_loss_s_own() {
        // Ratios inside, above and below the clip range, for both signs of the advantage.
        let old = [-1.0f32, -1.0, -1.0, -1.0];
        for advantage in [1.3, -0.7, 0.0] {
            let at = [-1.05f32, -0.4, -1.9, -1.0];
            let got = terms(advantage, &at, &old).loss(&SETTINGS, 0.25);
            for t in 0..at.len() {
                let moved = |by: f32| {
                    let mut at = at;
                    at[t] += by;
                    terms(advantage, &at, &old).loss(&SETTINGS, 0.25).loss
                };
                let (h, mut want) = (1.0 / 1024.0, 0.0);
                want += (moved(h) - moved(-h)) / f64::from(2.0 * h);
                assert!(
                    (f64::from(got.gradient[t]) - want).abs() < 1e-5,
                    "token {t}"
                );
            }
        }
    }

    #[test]
    fn clipping_follows_the_sign_of_the_advantage() {
        let old = [-1.0f32; 2];
        let high_and_low = [-0.5f32, -1.5];
        let clipped = |advantage| {
            let terms = SequenceTerms {
                reference: None,
                ..terms(advantage, &high_and_low, &old)
            };
            terms
                .loss(&SETTINGS, 1.0)
                .gradient
                .iter()
                .map(|g| *g == 0.0)
                .collect::<Vec<_>>()
        };
        assert_eq!(clipped(1.0), [true, false]);
        assert_eq!(clipped(-1.0), [false, true]);
    }

    #[test]
    fn weights_of_the_four_modes() {
        let shape = StepShape {
            trajectories: 4,
            tokens: 50,
        };
        let weight = |mode| LossSettings { mode, ..SETTINGS }.token_weight(shape, 10);
        assert_eq!(weight(LossAggMode::SeqMeanTokenMean), 1.0 / 40.0);
        assert_eq!(weight(LossAggMode::TokenMean), 1.0 / 50.0);
        assert_eq!(weight(LossAggMode::SeqMeanTokenSum), 1.0 / 4.0);
        assert_eq!(weight(LossAggMode::SeqMeanTokenSumNorm), 1.0 / 64.0);
    }
}
