//! The right side of a matrix product, packed once for many: columns in panels of 32, and within
//! a panel row after row, as the kernel reads them.

use super::tile::COLUMNS;

/// Columns of a panel.
pub(crate) const PANEL: usize = COLUMNS;

/// A packed matrix of `depth` rows and `cols` columns. The last panel is filled up.
#[derive(Debug, Default)]
pub(crate) struct Panels {
    data: Vec<f32>,
    depth: usize,
    cols: usize,
}

impl Panels {
    /// Packs a matrix whose rows lie one after another.
    pub(crate) fn of_rows(matrix: &[f32], depth: usize, cols: usize) -> Self {
        let mut panels = Self::default();
        panels.pack_rows(matrix, depth, cols);
        panels
    }

    /// The same in the memory of an earlier matrix.
    pub(crate) fn pack_rows(&mut self, matrix: &[f32], depth: usize, cols: usize) {
        (self.depth, self.cols) = (depth, cols);
        // What fills up the last panel only reaches columns that nobody stores.
        self.data.resize(cols.div_ceil(PANEL) * PANEL * depth, 0.0);
        let (data, _) = self.data.as_chunks_mut::<PANEL>();
        for (k, row) in matrix.chunks_exact(cols).enumerate() {
            let (whole, rest) = row.as_chunks::<PANEL>();
            for (panel, part) in whole.iter().enumerate() {
                data[panel * depth + k] = *part;
            }
            if !rest.is_empty() {
                data[whole.len() * depth + k][..rest.len()].copy_from_slice(rest);
            }
        }
    }

    /// Packs the transpose of a matrix whose rows (`cols` of them) lie one after another.
    pub(crate) fn of_columns(matrix: &[f32], depth: usize, cols: usize) -> Self {
        let mut panels = Self::zeros(depth, cols);
        for (panel, columns) in matrix.chunks(PANEL * depth).enumerate() {
            let into = &mut panels.data[panel * PANEL * depth..][..PANEL * depth];
            let (into, _) = into.as_chunks_mut::<PANEL>();
            for (column, numbers) in columns.chunks_exact(depth).enumerate() {
                for (into, x) in into.iter_mut().zip(numbers) {
                    into[column] = *x;
                }
            }
        }
        panels
    }

    fn zeros(depth: usize, cols: usize) -> Self {
        Self {
            data: vec![0.0; cols.div_ceil(PANEL) * PANEL * depth],
            depth,
            cols,
        }
    }

    /// Rows: the length of each sum.
    pub(crate) fn depth(&self) -> usize {
        self.depth
    }

    /// Columns.
    pub(crate) fn cols(&self) -> usize {
        self.cols
    }

    /// Its panels, each `depth` rows of 32 numbers.
    pub(crate) fn iter(&self) -> impl ExactSizeIterator<Item = &[f32]> {
        self.data.chunks_exact((PANEL * self.depth).max(1))
    }
}
