//! Plain loops compiled for the vector units that the machine turns out to have.
//!
//! Loops here work on fixed arrays with explicit fused multiply-adds. The compiler may widen
//! them but never reorders a sum, so results do not depend on the width it picks.

use pulp::Arch;

/// Lanes of the fixed arrays that sums are spread over.
pub(crate) const LANES: usize = 16;

/// Runs `work` with the widest vector instructions present. What it calls must be
/// `#[inline(always)]` to be compiled along with it.
#[inline(always)]
pub(crate) fn vectorised<R>(work: impl FnOnce() -> R) -> R {
    Arch::new().dispatch(work)
}

/// The lanes' sum, as a tree of fixed shape.
#[inline(always)]
pub(crate) fn sum_lanes(mut lanes: [f32; LANES]) -> f32 {
    let mut width = LANES / 2;
    while width > 0 {
        for i in 0..width {
            lanes[i] += lanes[i + width];
        }
        width /= 2;
    }
    lanes[0]
}

/// Σ a·b over two slices of one length.
#[inline(always)]
pub(crate) fn dot(a: &[f32], b: &[f32]) -> f32 {
    let mut lanes = [0.0f32; LANES];
    let (a_chunks, a_rest) = a.as_chunks::<LANES>();
    let (b_chunks, b_rest) = b.as_chunks::<LANES>();
    for (x, y) in a_chunks.iter().zip(b_chunks) {
        for i in 0..LANES {
            lanes[i] = x[i].mul_add(y[i], lanes[i]);
        }
    }
    for (i, (x, y)) in a_rest.iter().zip(b_rest).enumerate() {
        lanes[i] = x.mul_add(*y, lanes[i]);
    }
    sum_lanes(lanes)
}

/// The greatest of the lanes.
#[inline(always)]
pub(crate) fn max_lanes(mut lanes: [f32; LANES]) -> f32 {
    let mut width = LANES / 2;
    while width > 0 {
        for i in 0..width {
            let other = lanes[i + width];
            lanes[i] = if other > lanes[i] { other } else { lanes[i] };
        }
        width /= 2;
    }
    lanes[0]
}

/// The greatest of a slice, −∞ of nothing. The order of a maximum does not matter.
#[inline(always)]
pub(crate) fn max(values: &[f32]) -> f32 {
    let mut lanes = [f32::NEG_INFINITY; LANES];
    let (chunks, rest) = values.as_chunks::<LANES>();
    for chunk in chunks {
        for i in 0..LANES {
            lanes[i] = if chunk[i] > lanes[i] {
                chunk[i]
            } else {
                lanes[i]
            };
        }
    }
    for (lane, x) in lanes.iter_mut().zip(rest) {
        *lane = if *x > *lane { *x } else { *lane };
    }
    max_lanes(lanes)
}

/// True when every number is finite.
#[inline(always)]
pub(crate) fn all_finite(values: &[f32]) -> bool {
    // x·0 is 0 for a finite x and nan for any other.
    let mut lanes = [0.0f32; LANES];
    let (chunks, rest) = values.as_chunks::<LANES>();
    for chunk in chunks {
        for i in 0..LANES {
            lanes[i] += chunk[i] * 0.0;
        }
    }
    sum_lanes(lanes) == 0.0 && rest.iter().all(|x| x.is_finite())
}

/// e^x to about one unit in the last place; 0 below −87, clamped above 88.
///
/// Range reduction to [−ln2/2, ln2/2] and the Cephes polynomial: unlike the library's function
/// it has no branches, so that loops over it become vector code.
#[inline(always)]
pub(crate) fn exp(x: f32) -> f32 {
    const MAGIC: f32 = 12_582_912.0; // 1.5 · 2^23: adding it rounds to a whole number
    const LN2_HIGH: f32 = 0.693_359_4;
    const LN2_LOW: f32 = -2.121_944_4e-4;
    let clamped = x.clamp(-87.0, 88.0);
    let shifted = clamped.mul_add(std::f32::consts::LOG2_E, MAGIC);
    let whole = shifted - MAGIC;
    let r = whole.mul_add(-LN2_LOW, whole.mul_add(-LN2_HIGH, clamped));
    let mut p = 1.987_569_1e-4f32;
    p = p.mul_add(r, 1.398_2e-3);
    p = p.mul_add(r, 8.333_452e-3);
    p = p.mul_add(r, 4.166_579_6e-2);
    p = p.mul_add(r, 1.666_666_5e-1);
    p = p.mul_add(r, 0.5);
    let value = (p * r).mul_add(r, r) + 1.0;
    let exponent = shifted.to_bits().wrapping_sub(MAGIC.to_bits());
    let scale = f32::from_bits(exponent.wrapping_add(127) << 23);
    // A nan must stay one: it is found and reported later, never hidden.
    if x < -87.0 { 0.0 } else { value * scale }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exp_is_close_to_the_library() {
        let mut x = -86.9f32;
        while x < 88.0 {
            let want = f64::from(x).exp();
            let got = f64::from(vectorised(|| exp(x)));
            assert!(
                (got / want - 1.0).abs() < 3e-7,
                "exp({x}) = {got}, want {want}"
            );
            x += 0.0137;
        }
        assert_eq!(exp(-100.0), 0.0);
        assert_eq!(exp(0.0), 1.0);
        assert!(exp(f32::NAN).is_nan());
    }

    #[test]
    fn sums_do_not_depend_on_the_width_of_the_machine() {
        let a: Vec<f32> = (0..77).map(|i| (i as f32 * 0.37).sin()).collect();
        let b: Vec<f32> = (0..77).map(|i| (i as f32 * 0.11).cos()).collect();
        assert_eq!(dot(&a, &b).to_bits(), vectorised(|| dot(&a, &b)).to_bits());
    }

    #[test]
    fn non_finite_numbers_are_found() {
        let mut values = vec![1.0f32; 40];
        assert!(all_finite(&values));
        for (at, bad) in [(3, f32::NAN), (35, f32::INFINITY), (39, f32::NEG_INFINITY)] {
            values[at] = bad;
            assert!(!all_finite(&values));
            values[at] = 1.0;
        }
    }
}
