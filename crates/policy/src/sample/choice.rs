//! The choice of a token from a row of logits.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::Rng;

use super::request::SampleRequest;
use crate::ops::logprob::Softmax;
use crate::ops::simd::vectorised;

/// A chosen token with its log-probability. The log-probability is not finite when the logits
/// aren't.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Choice {
    pub(crate) token: u32,
    pub(crate) logprob: f32,
}

/// Chooses by the request's settings. Draws one number, also where it is not needed, so that a
/// stream's position is the token's.
pub(crate) fn choose(logits: &[f32], request: &SampleRequest, random: &mut ChaCha8Rng) -> Choice {
    let uniform = (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
    let greedy = request.temperature == 0.0;
    let inverse = if greedy {
        1.0
    } else {
        (1.0 / request.temperature) as f32
    };
    let (softmax, weights) = vectorised(
        #[inline(always)]
        || {
            let softmax = Softmax::of(logits, inverse);
            let mut weights = vec![0.0; logits.len()];
            for (weight, logit) in weights.iter_mut().zip(logits) {
                *weight = softmax.weight(*logit, inverse);
            }
            (softmax, weights)
        },
    );
    let token = if greedy {
        most_likely(logits)
    } else if request.top_k == 0 && request.top_p >= 1.0 {
        pick(weights.iter().copied().zip(0..), uniform)
    } else {
        pick(kept(&weights, request).into_iter(), uniform)
    };
    Choice {
        token,
        logprob: softmax.logprob(logits[token as usize], inverse),
    }
}

/// The first of the greatest.
fn most_likely(logits: &[f32]) -> u32 {
    let mut best = 0;
    for (at, logit) in logits.iter().enumerate() {
        if *logit > logits[best] {
            best = at;
        }
    }
    best as u32
}

/// The token in whose share of the total the uniform number falls.
fn pick(weights: impl Iterator<Item = (f32, u32)> + Clone, uniform: f64) -> u32 {
    let total: f64 = weights.clone().map(|(weight, _)| f64::from(weight)).sum();
    let mut below = uniform * total;
    let mut last = 0;
    for (weight, token) in weights {
        if weight > 0.0 {
            below -= f64::from(weight);
            last = token;
            if below < 0.0 {
                break;
            }
        }
    }
    last
}

/// The `top_k` most likely tokens, and of their mass the nucleus: the fewest that reach `top_p`
/// (Holtzman et al. 2020). Ties go to the lower token.
fn kept(weights: &[f32], request: &SampleRequest) -> Vec<(f32, u32)> {
    let mut tokens: Vec<(f32, u32)> = weights.iter().copied().zip(0..).collect();
    tokens.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    if request.top_k > 0 {
        tokens.truncate(request.top_k as usize);
    }
    let total: f64 = tokens.iter().map(|(weight, _)| f64::from(*weight)).sum();
    let mut mass = 0.0;
    let nucleus = tokens.iter().position(|(weight, _)| {
        mass += f64::from(*weight);
        mass >= request.top_p * total
    });
    if let Some(last) = nucleus {
        tokens.truncate(last + 1);
    }
    tokens
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample::tests::request;

    fn counts(logits: &[f32], request: &SampleRequest, draws: usize) -> Vec<usize> {
        let mut random = request.key.random();
        let mut counts = vec![0; logits.len()];
        for _ in 0..draws {
            counts[choose(logits, request, &mut random).token as usize] += 1;
        }
        counts
    }

    #[test]
    fn tokens_come_as_often_as_their_probabilities_say() {
        let logits = [0.0, 1.0, 2.0, -30.0];
        let counts = counts(&logits, &request(&[1], 0), 40_000);
        let total: f64 = logits.iter().map(|x| f64::from(*x).exp()).sum();
        for (logit, count) in logits.iter().zip(counts) {
            let want = f64::from(*logit).exp() / total;
            assert!(
                (count as f64 / 40_000.0 - want).abs() < 0.01,
                "{count} of 40000, want {want}"
            );
        }
    }

    #[test]
    fn top_k_and_top_p_keep_the_most_likely() {
        let logits = [1.0, 3.0, 2.0, 0.0];
        let two = SampleRequest {
            top_k: 2,
            ..request(&[1], 0)
        };
        let seen = counts(&logits, &two, 2000);
        assert!(
            seen[1] > 0 && seen[2] > 0 && seen[0] == 0 && seen[3] == 0,
            "{seen:?}"
        );
        // 3.0 alone holds 0.64 of the mass, with 2.0 it is 0.88.
        let seen = counts(
            &logits,
            &SampleRequest {
                top_p: 0.6,
                ..request(&[1], 0)
            },
            500,
        );
        assert_eq!(seen[1], 500);
        let seen = counts(
            &logits,
            &SampleRequest {
                top_p: 0.7,
                ..request(&[1], 0)
            },
            2000,
        );
        assert!(
            seen[1] > 0 && seen[2] > 0 && seen[0] == 0 && seen[3] == 0,
            "{seen:?}"
        );
    }

    #[test]
    fn temperature_zero_takes_the_most_likely_and_reports_it_at_one() {
        let logits = [0.5, 2.0, 2.0];
        let greedy = SampleRequest {
            temperature: 0.0,
            ..request(&[1], 0)
        };
        let choice = choose(&logits, &greedy, &mut greedy.key.random());
        assert_eq!(choice.token, 1);
        let total: f64 = logits.iter().map(|x| f64::from(*x).exp()).sum();
        assert!((f64::from(choice.logprob) - (2.0 - total.ln())).abs() < 1e-6);
    }

    #[test]
    fn broken_logits_are_seen_in_the_log_probability() {
        let request = request(&[1], 0);
        let choice = choose(&[0.0, f32::NAN], &request, &mut request.key.random());
        assert!(!choice.logprob.is_finite());
    }
}
