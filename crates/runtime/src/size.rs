//! Sizes in words.

/// `64 MiB`, `70.2 MiB`, `812 bytes`.
pub(crate) fn shown(bytes: usize) -> String {
    for (unit, name) in [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")] {
        if bytes >= unit {
            return match bytes % unit {
                0 => format!("{} {name}", bytes / unit),
                _ => format!("{:.1} {name}", bytes as f64 / unit as f64),
            };
        }
    }
    format!("{bytes} bytes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_told_in_the_unit_that_fits() {
        assert_eq!(shown(64 << 20), "64 MiB");
        assert_eq!(shown((64 << 20) + (200 << 10)), "64.2 MiB");
        assert_eq!(shown(812), "812 bytes");
        assert_eq!(shown(2 << 30), "2 GiB");
    }
}
