//! Times and durations, as people write and read them.

use std::time::{SystemTime, UNIX_EPOCH};

use jiff::{SignedDuration, Timestamp};

/// Milliseconds since 1970.
pub(crate) fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |d| d.as_millis() as i64)
}

/// A moment, to the second, in UTC.
pub(crate) fn moment(ms: i64) -> String {
    match Timestamp::from_millisecond(ms) {
        Ok(time) => time.strftime("%Y-%m-%d %H:%M:%S").to_string(),
        Err(_) => ms.to_string(),
    }
}

/// A moment of the day, to the millisecond, in UTC.
pub(crate) fn clock(ms: i64) -> String {
    match Timestamp::from_millisecond(ms) {
        Ok(time) => time.strftime("%H:%M:%S%.3f").to_string(),
        Err(_) => ms.to_string(),
    }
}

/// `3.2 s`, `4 min 5 s`, `2 h 3 min`.
pub(crate) fn span(seconds: f64) -> String {
    let whole = seconds.max(0.0).round() as u64;
    match whole {
        0..10 => format!("{:.1} s", seconds.max(0.0)),
        10..60 => format!("{whole} s"),
        60..3600 => format!("{} min {} s", whole / 60, whole % 60),
        _ => format!("{} h {} min", whole / 3600, whole % 3600 / 60),
    }
}

/// The same in few characters: `3s`, `4m05s`, `2h03m`.
pub(crate) fn short_span(seconds: f64) -> String {
    let whole = seconds.max(0.0).round() as u64;
    match whole {
        0..60 => format!("{whole}s"),
        60..3600 => format!("{}m{:02}s", whole / 60, whole % 60),
        _ => format!("{}h{:02}m", whole / 3600, whole % 3600 / 60),
    }
}

/// A moment as people name it: `10m` ago, `2026-11-30T18:00:00Z`, or milliseconds since 1970.
pub(crate) fn parse(text: &str) -> Result<i64, String> {
    if let Ok(ms) = text.parse::<i64>() {
        return Ok(ms);
    }
    if let Ok(time) = text.parse::<Timestamp>() {
        return Ok(time.as_millisecond());
    }
    match text.parse::<SignedDuration>() {
        Ok(ago) => Ok(now_ms() - ago.as_millis() as i64),
        Err(_) => Err(
            "use how long ago (\"10m\", \"2h\"), or a time such as \"2026-11-30T18:00:00Z\"".into(),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_and_spans_read_well() {
        assert_eq!(moment(1_700_000_000_123), "2023-11-14 22:13:20");
        assert_eq!(clock(1_700_000_000_123), "22:13:20.123");
        assert_eq!(span(3.21), "3.2 s");
        assert_eq!(span(245.0), "4 min 5 s");
        assert_eq!(span(7380.0), "2 h 3 min");
        assert_eq!(short_span(245.0), "4m05s");
    }

    #[test]
    fn moments_are_read() {
        assert_eq!(parse("1700000000123"), Ok(1_700_000_000_123));
        assert_eq!(parse("2023-11-14T22:13:20Z"), Ok(1_700_000_000_000));
        assert!(parse("10m").is_ok_and(|ms| ms < now_ms() - 590_000));
        assert!(parse("yesterday").is_err());
    }
}
