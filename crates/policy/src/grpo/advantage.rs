//! Advantages of one group of trajectories.

use paddock_types::job::ScaleRewards;

/// Keeps the division finite; the same as in TRL and verl.
const EPS: f64 = 1e-6;

/// A_i = (R_i − mean) / (std + 1e-6) with ddof 1 (DeepSeekMath §4.1.2), or R_i − mean
/// (Dr. GRPO, arXiv 2503.20783). Rewards that are all equal give exactly 0, whatever rounding
/// does to their mean; so does a group of one.
pub fn advantages(rewards: &[f64], scale: ScaleRewards) -> Vec<f64> {
    if rewards.windows(2).all(|pair| pair[0] == pair[1]) {
        return vec![0.0; rewards.len()];
    }
    let count = rewards.len() as f64;
    let mean = rewards.iter().sum::<f64>() / count;
    let squares: f64 = rewards.iter().map(|r| (r - mean).powi(2)).sum();
    let divisor = match scale {
        ScaleRewards::Group => (squares / (count - 1.0)).sqrt() + EPS,
        ScaleRewards::None => 1.0,
    };
    rewards.iter().map(|r| (r - mean) / divisor).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_standard_deviation_has_ddof_one() {
        let a = advantages(&[0.0, 1.0, 1.0, 0.0], ScaleRewards::Group);
        let std = (4.0f64 * 0.25 / 3.0).sqrt();
        for (a, want) in a.iter().zip([-0.5, 0.5, 0.5, -0.5]) {
            assert!((a - want / (std + 1e-6)).abs() < 1e-12);
        }
        assert_eq!(advantages(&[0.0, 1.0], ScaleRewards::None), [-0.5, 0.5]);
    }

    #[test]
    fn equal_rewards_give_exactly_zero() {
        // The mean of seven 0.1 is not 0.1 in double precision.
        assert_eq!(advantages(&[0.1; 7], ScaleRewards::Group), [0.0; 7]);
        assert_eq!(advantages(&[0.1; 7], ScaleRewards::None), [0.0; 7]);
        assert_eq!(advantages(&[3.0], ScaleRewards::Group), [0.0]);
        assert!(advantages(&[], ScaleRewards::Group).is_empty());
    }
}
