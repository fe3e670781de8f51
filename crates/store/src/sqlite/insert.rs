//! Inserting many rows by few statements.

/// Rows of one `INSERT`, largest first. Fixed sizes, so that the prepared statements are few and
/// are used again.
const SIZES: [usize; 4] = [64, 16, 4, 1];

/// Cuts the rows into pieces of these sizes.
pub(super) fn pieces<T>(mut rows: &[T]) -> impl Iterator<Item = &[T]> {
    std::iter::from_fn(move || {
        let size = SIZES.into_iter().find(|&size| size <= rows.len())?;
        let (piece, rest) = rows.split_at(size);
        rows = rest;
        Some(piece)
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn pieces_are_all_the_rows_in_order() {
        let rows: Vec<u32> = (0..151).collect();
        let pieces: Vec<&[u32]> = super::pieces(&rows).collect();
        let sizes: Vec<usize> = pieces.iter().map(|p| p.len()).collect();
        assert_eq!(sizes, [64, 64, 16, 4, 1, 1, 1]);
        assert_eq!(pieces.concat(), rows);
        assert_eq!(super::pieces::<u32>(&[]).count(), 0);
    }
}
