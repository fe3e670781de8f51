//! The right side of a matrix product, packed once for many: columns in panels of 32, and within
//! a panel row after row, as the kernel reads them.

use super::tile::COLUMNS;

/// Columns of a panel.
pub(crate) const PANEL: usize = COLUMNS;

/// A packed matrix of `depth` rows and `cols` columns. The last panel is filled with zeros.
#[derive(Debug)]
pub(crate) struct Panels {
    data: Vec<f32>,
    depth: usize,
    cols: usize,
}

impl Panels {
    /// Packs a matrix whose rows lie one after another.
    pub(crate) fn of_rows(matrix: &[f32], depth: usize, cols: usize) -> Self {
        let mut panels = Self::zeros(depth, cols);
        panels.fill_rows(matrix);
        panels
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

    fn fill_rows(&mut self, matrix: &[f32]) {
        let size = PANEL * self.depth;
        for (k, row) in matrix.chunks_exact(self.cols).enumerate() {
            for (panel, part) in row.chunks(PANEL).enumerate() {
                let at = panel * size + k * PANEL;
                self.data[at..at + part.len()].copy_from_slice(part);
            }
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
