//! Rows of a table by number: token embeddings, and the rows that are trained on.

/// Copies the rows `ids` of a table of `width` columns into `out`.
pub(crate) fn gather(table: &[f32], width: usize, ids: &[u32], out: &mut [f32]) {
    for (id, out) in ids.iter().zip(out.chunks_exact_mut(width)) {
        let from = *id as usize * width;
        out.copy_from_slice(&table[from..from + width]);
    }
}

/// Adds rows to the rows `ids` of a table, in their order: the backward pass of [`gather`].
pub(crate) fn scatter(rows: &[f32], width: usize, ids: &[u32], table: &mut [f32]) {
    for (id, row) in ids.iter().zip(rows.chunks_exact(width)) {
        let from = *id as usize * width;
        for (sum, x) in table[from..from + width].iter_mut().zip(row) {
            *sum += x;
        }
    }
}
