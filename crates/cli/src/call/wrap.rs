//! Long lines of evidence, cut where a terminal ends: a traceback keeps its indentation.

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// Narrower than this, wrapping makes nothing readable.
const LEAST: usize = 20;

/// The pieces of a line, each no wider than `width` columns and indented as the line is.
pub(super) fn wrapped(line: &str, width: Option<usize>) -> Vec<String> {
    let Some(width) = width.filter(|&w| w >= LEAST && line.width() > w) else {
        return vec![line.to_owned()];
    };
    let text = line.trim_start_matches(' ');
    let indent = " ".repeat((line.len() - text.len()).min(width / 2));
    let room = width - indent.len();
    let mut pieces = Vec::new();
    let mut rest = text;
    while rest.width() > room {
        let fits = fitting(rest, room);
        // At a blank, unless what stands before the last one is too little to be worth a line.
        let at = rest[..fits].rfind(' ').filter(|&at| at > fits / 3);
        let (piece, left) = rest.split_at(at.map_or(fits, |at| at + 1));
        pieces.push(format!("{indent}{}", piece.trim_end()));
        rest = left;
    }
    pieces.push(format!("{indent}{rest}"));
    pieces
}

/// Bytes of the longest beginning that fits into so many columns; at least one character.
fn fitting(text: &str, room: usize) -> usize {
    let mut used = 0;
    for (at, c) in text.char_indices() {
        used += c.width().unwrap_or(0);
        if used > room && at > 0 {
            return at;
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_wrapped_at_blanks_and_keep_their_indentation() {
        let line = "    raise ValueError('a long message that goes on and on')";
        let pieces = wrapped(line, Some(30));
        assert_eq!(
            pieces,
            [
                "    raise ValueError('a long",
                "    message that goes on and",
                "    on')"
            ]
        );
        assert_eq!(wrapped(line, None), [line]);
        assert_eq!(wrapped(line, Some(200)), [line]);
    }

    #[test]
    fn what_has_no_blank_is_cut_and_wide_characters_count_twice() {
        assert_eq!(wrapped(&"x".repeat(45), Some(20)).len(), 3);
        let pieces = wrapped(&"好".repeat(25), Some(20));
        assert_eq!(pieces.len(), 3);
        assert!(pieces.iter().all(|piece| piece.width() <= 20));
    }
}
