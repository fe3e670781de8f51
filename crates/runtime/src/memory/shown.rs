//! Bytes as people read them.

use std::fmt;

/// Shown as `2 GiB`, `64 MiB` or `1.4 GiB`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bytes(pub(crate) u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, name) = match self.0 {
            n if n >= 1 << 30 => (1u64 << 30, "GiB"),
            n if n >= 1 << 20 => (1 << 20, "MiB"),
            _ => (1 << 10, "KiB"),
        };
        let text = format!("{:.1}", self.0 as f64 / unit as f64);
        write!(f, "{} {name}", text.strip_suffix(".0").unwrap_or(&text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_shown_as_they_are_named() {
        let shown = |bytes: u64| Bytes(bytes).to_string();
        assert_eq!(shown(2 << 30), "2 GiB");
        assert_eq!(shown((2 << 30) - (1 << 16)), "2 GiB");
        assert_eq!(shown(64 << 20), "64 MiB");
        assert_eq!(shown(1500 << 20), "1.5 GiB");
        assert_eq!(shown(700), "0.7 KiB");
    }
}
