//! Sequences packed row after row for one pass of the decoder, without padding.

/// Sequences of a micro-batch. Only what predicts a trained token is computed: rows after a
/// sequence's last target are left out, and so are sequences without one.
#[derive(Debug, Clone, Default)]
pub struct Packed {
    pub(crate) ids: Vec<u32>,
    pub(crate) lengths: Vec<usize>,
    /// Rows whose output is looked at.
    pub(crate) rows: Vec<u32>,
    /// The token that each of them predicts.
    pub(crate) targets: Vec<u32>,
}

impl Packed {
    /// Packs token sequences; a true mask entry makes its token a target (the first token of a
    /// sequence is predicted by nothing and never is one).
    pub fn new<'a>(sequences: impl IntoIterator<Item = (&'a [u32], &'a [bool])>) -> Self {
        let mut packed = Self::default();
        for (ids, mask) in sequences {
            let from = packed.ids.len();
            let targets = (1..ids.len().min(mask.len())).filter(|&t| mask[t]);
            let mut length = 0;
            for t in targets {
                packed.rows.push((from + t - 1) as u32);
                packed.targets.push(ids[t]);
                length = t;
            }
            if length > 0 {
                packed.ids.extend_from_slice(&ids[..length]);
                packed.lengths.push(length);
            }
        }
        packed
    }

    /// Rows of one sequence that a pass computes.
    pub(crate) fn rows_of(mask: &[bool]) -> usize {
        mask.iter()
            .skip(1)
            .rposition(|m| *m)
            .map_or(0, |last| last + 1)
    }

    /// Number of targets.
    pub fn targets(&self) -> usize {
        self.targets.len()
    }
}
