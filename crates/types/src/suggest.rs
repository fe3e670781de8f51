//! The nearest right spelling of a word that nobody knows.
//!
//! A suggestion is a hint in a message. Nothing may act on it: what was misspelt stays refused.

/// The candidate that `word` most likely meant; `None` if all are too far from it.
///
/// ```
/// use paddock_types::suggest::nearest;
/// assert_eq!(nearest("batchsize", ["lr", "batch_size"]), Some("batch_size"));
/// assert_eq!(nearest("colour", ["lr", "batch_size"]), None);
/// ```
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let word: String = word.chars().take(MAX_CHARS).collect();
    let plain = fold(&word);
    candidates
        .into_iter()
        .map(|candidate| (distance(&plain, &fold(candidate)), candidate))
        .filter(|(distance, candidate)| *distance <= reach(&plain, candidate))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// `; did you mean "x"?`, or nothing.
pub fn hint(nearest: Option<&str>) -> String {
    nearest
        .map(|name| format!("; did you mean \"{name}\"?"))
        .unwrap_or_default()
}

/// Longer words are cut: the distance costs time by the square of the length.
const MAX_CHARS: usize = 64;

/// Edits that still look like a slip: one for short words, a third of longer ones.
fn reach(word: &str, candidate: &str) -> usize {
    (word.chars().count().max(candidate.chars().count()) / 3).max(1)
}

fn distance(a: &str, b: &str) -> usize {
    strsim::damerau_levenshtein(a, b)
}

/// Case and word separators are no difference.
fn fold(word: &str) -> String {
    word.chars()
        .filter(|c| !matches!(c, '_' | '-' | ' '))
        .flat_map(char::to_lowercase)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn separators_case_and_slips_are_near() {
        let names = ["num_generations", "num_steps", "max_new_tokens"];
        assert_eq!(nearest("numGenerations", names), Some("num_generations"));
        assert_eq!(nearest("num_generatoins", names), Some("num_generations"));
        assert_eq!(nearest("max-new-token", names), Some("max_new_tokens"));
        assert_eq!(nearest("", names), None);
        assert_eq!(nearest("x", []), None);
    }

    #[test]
    fn the_nearest_of_several_wins() {
        assert_eq!(
            nearest("test_top", ["top_p", "test_top_p"]),
            Some("test_top_p")
        );
    }
}
