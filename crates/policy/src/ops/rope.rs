//! Rotary position embedding (Su et al. 2021), in the half-rotated layout of Hugging Face's
//! Llama files: dimension i turns with dimension i + head/2.

use super::simd::LANES;

/// Cosines and sines by position.
#[derive(Debug)]
pub(crate) struct Rope {
    half: usize,
    cos: Vec<f32>,
    sin: Vec<f32>,
}

impl Rope {
    /// Tables for positions below `context`.
    pub(crate) fn new(head: usize, theta: f64, context: usize) -> Self {
        let half = head / 2;
        let angles = (0..context).flat_map(|position| {
            (0..half).map(move |i| position as f64 / theta.powf(2.0 * i as f64 / head as f64))
        });
        let (cos, sin) = angles
            .map(|angle| (angle.cos() as f32, angle.sin() as f32))
            .unzip();
        Self { half, cos, sin }
    }

    #[inline(always)]
    fn turn(&self, position: usize, sign: f32, vector: &mut [f32]) {
        let at = position * self.half;
        let (cos, sin) = (&self.cos[at..at + self.half], &self.sin[at..at + self.half]);
        let (low, high) = vector.split_at_mut(self.half);
        // In chunks: as one loop over four slices it was not made into vector code.
        let (lows, low) = low.as_chunks_mut::<LANES>();
        let (highs, high) = high.as_chunks_mut::<LANES>();
        let (coses, cos) = cos.as_chunks::<LANES>();
        let (sins, sin) = sin.as_chunks::<LANES>();
        for ((low, high), (cos, sin)) in lows.iter_mut().zip(highs).zip(coses.iter().zip(sins)) {
            let (a, b) = (*low, *high);
            for i in 0..LANES {
                (low[i], high[i]) = turned(a[i], b[i], cos[i], sign * sin[i]);
            }
        }
        for ((low, high), (cos, sin)) in low.iter_mut().zip(high).zip(cos.iter().zip(sin)) {
            (*low, *high) = turned(*low, *high, *cos, sign * sin);
        }
    }

    /// Turns one head's vector to its position.
    #[inline(always)]
    pub(crate) fn apply(&self, position: usize, vector: &mut [f32]) {
        self.turn(position, 1.0, vector);
    }

    /// Turns it back: the transpose, which the backward pass needs.
    #[inline(always)]
    pub(crate) fn undo(&self, position: usize, vector: &mut [f32]) {
        self.turn(position, -1.0, vector);
    }
}

#[inline(always)]
fn turned(a: f32, b: f32, cos: f32, sin: f32) -> (f32, f32) {
    (a * cos - b * sin, b * cos + a * sin)
}
