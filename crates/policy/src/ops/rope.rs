//! Rotary position embedding (Su et al. 2021), in the half-rotated layout of Hugging Face's
//! Llama files: dimension i turns with dimension i + head/2.

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
        for ((low, high), (cos, sin)) in low.iter_mut().zip(high).zip(cos.iter().zip(sin)) {
            let (a, b, sin) = (*low, *high, sign * sin);
            *low = a * cos - b * sin;
            *high = b * cos + a * sin;
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
