//! Measured numbers of a plugin over time.

/// A number at a time.
#[derive(Debug, Clone, PartialEq)]
pub struct MetricPoint {
    /// Milliseconds since 1970.
    pub time_ms: i64,
    /// The metric's name.
    pub name: String,
    /// Its value; finite.
    pub value: f64,
}

/// Which numbers are wanted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MetricFilter {
    /// Of this plugin; an empty text means the job's own numbers.
    pub plugin: Option<String>,
    /// Of this metric.
    pub name: Option<String>,
    /// From this time on, in milliseconds since 1970.
    pub since: Option<i64>,
    /// Before this time, in milliseconds since 1970.
    pub until: Option<i64>,
}

/// One metric of one plugin, by time.
#[derive(Debug, Clone, PartialEq)]
pub struct MetricSeries {
    /// The plugin; empty for the job's own numbers.
    pub plugin: String,
    /// The metric's name.
    pub name: String,
    /// `(milliseconds since 1970, value)`, in order of time.
    pub points: Vec<(i64, f64)>,
}
