//! A setting as one row of a table: its name, what it may be, what it does, and where it goes.
//!
//! Reading, refusing, suggesting and explaining all go by these rows, so that adding a setting
//! is adding a row.

use crate::suggest;

/// A setting of `T`.
#[derive(Debug)]
pub struct Setting<T> {
    /// Its key.
    pub name: &'static str,
    /// What it may be, and how it is set.
    pub kind: Kind<T>,
    /// What holds if it is left out, where that isn't a plain value.
    pub otherwise: Option<&'static str>,
    /// One line: what it does.
    pub meaning: &'static str,
    /// What else people call it, from other trainers.
    pub also: &'static [&'static str],
}

/// What a setting may be, with the function that sets it.
#[derive(Debug)]
pub enum Kind<T> {
    /// A whole number.
    Whole(u32, u32, fn(&mut T, u32)),
    /// A whole number of any size.
    Large(fn(&mut T, u64)),
    /// A finite number.
    Number(Bounds, fn(&mut T, f64)),
    /// One of some names; case is no difference.
    Choice(fn() -> Vec<String>, fn(&mut T, &str)),
    /// `true` or `false`.
    Flag(fn(&mut T, bool)),
}

/// The range of a number.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Least.
    pub min: f64,
    /// Whether the least itself is allowed.
    pub min_in: bool,
    /// Greatest.
    pub max: f64,
    /// Whether the greatest itself is allowed.
    pub max_in: bool,
}

impl Bounds {
    /// From `min` to `max`, both allowed.
    pub const fn closed(min: f64, max: f64) -> Self {
        Self {
            min,
            min_in: true,
            max,
            max_in: true,
        }
    }

    /// Above `min`, up to `max`.
    pub const fn above(min: f64, max: f64) -> Self {
        Self {
            min,
            min_in: false,
            max,
            max_in: true,
        }
    }

    /// Above `min`, below `max`.
    pub const fn between(min: f64, max: f64) -> Self {
        Self {
            min,
            min_in: false,
            max,
            max_in: false,
        }
    }

    /// True if the number is finite and within.
    pub fn holds(self, x: f64) -> bool {
        x.is_finite()
            && (x > self.min || (self.min_in && x == self.min))
            && (x < self.max || (self.max_in && x == self.max))
    }

    /// In words: `a number above 0, up to 1`.
    pub fn describe(self) -> String {
        match (self.min_in, self.max_in) {
            (true, true) => format!("a number from {} to {}", self.min, self.max),
            (true, false) => format!("a number from {}, below {}", self.min, self.max),
            (false, true) => format!("a number above {}, up to {}", self.min, self.max),
            (false, false) => format!("a number above {}, below {}", self.min, self.max),
        }
    }
}

/// Why a value was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// What it is instead: `"fast" is not a number`.
    pub message: String,
    /// What is allowed.
    pub allowed: String,
    /// The name that was likely meant.
    pub nearest: Option<String>,
}

impl<T> Setting<T> {
    /// What is allowed, in words.
    pub fn allowed(&self) -> String {
        match &self.kind {
            Kind::Whole(min, max, _) if *max == u32::MAX => {
                format!("a whole number from {min}")
            }
            Kind::Whole(min, max, _) => format!("a whole number from {min} to {max}"),
            Kind::Large(_) => "a whole number from 0".into(),
            Kind::Number(bounds, _) => bounds.describe(),
            Kind::Choice(names, _) => format!("one of {}", names().join(", ")),
            Kind::Flag(_) => "true or false".into(),
        }
    }

    /// Reads a text and sets it.
    pub fn set(&self, target: &mut T, text: &str) -> Result<(), Refusal> {
        let given = text.trim();
        let refuse = |why: String, nearest: Option<String>| Refusal {
            message: format!("{} {why}", self.name),
            allowed: self.allowed(),
            nearest,
        };
        match &self.kind {
            Kind::Whole(min, max, set) => {
                let n = whole(given).map_err(|why| refuse(why, None))?;
                match u32::try_from(n).ok().filter(|n| (min..=max).contains(&n)) {
                    Some(n) => set(target, n),
                    None => return Err(refuse(format!("is {}", shown(given)), None)),
                }
            }
            Kind::Large(set) => set(target, whole(given).map_err(|why| refuse(why, None))?),
            Kind::Number(bounds, set) => {
                let x = number(given).map_err(|why| refuse(why, None))?;
                if !bounds.holds(x) {
                    return Err(refuse(format!("is {}", shown(given)), None));
                }
                set(target, x);
            }
            Kind::Choice(names, set) => {
                let names = names();
                match names.iter().find(|n| n.eq_ignore_ascii_case(given)) {
                    Some(name) => set(target, name),
                    None => {
                        let near = suggest::nearest(given, names.iter().map(String::as_str));
                        let why = format!("is {}", shown(given));
                        return Err(refuse(why, near.map(str::to_owned)));
                    }
                }
            }
            Kind::Flag(set) => match given.to_ascii_lowercase().as_str() {
                "true" => set(target, true),
                "false" => set(target, false),
                _ => return Err(refuse(format!("is {}", shown(given)), None)),
            },
        }
        Ok(())
    }
}

/// A value as messages show it: in quotes, cut, without control characters.
pub fn shown(text: &str) -> String {
    const MAX: usize = 60;
    let mut cut: String = text.chars().take(MAX).collect();
    if cut.len() < text.len() {
        cut.push('…');
    }
    format!("\"{}\"", cut.escape_debug().to_string().replace("\\'", "'"))
}

/// A number written as text, `1e-6` included.
pub(super) fn number(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(x) if x.is_finite() => Ok(x),
        Ok(_) => Err(format!("is {}, which is not a finite number", shown(text))),
        Err(_) => Err(format!("is {}, which is not a number", shown(text))),
    }
}

/// A whole number; `32`, `32.0` and `3.2e1` are the same, `32.5` is none.
pub(super) fn whole(text: &str) -> Result<u64, String> {
    if let Ok(n) = text.parse::<u64>() {
        return Ok(n);
    }
    let x = number(text)?;
    let exact = x.fract() == 0.0 && x.abs() <= 2f64.powi(53);
    match exact {
        true if x >= 0.0 => Ok(x as u64),
        true => Err(format!("is {}", shown(text))),
        false => Err(format!("is {}, which is not a whole number", shown(text))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_as_text() {
        assert_eq!(whole("32"), Ok(32));
        assert_eq!(whole("32.0"), Ok(32));
        assert_eq!(whole("1e3"), Ok(1000));
        for bad in ["32.5", "-1", "ten", "nan", "1e300", ""] {
            assert!(whole(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn bounds_hold_and_say_so() {
        assert!(Bounds::above(0.0, 1.0).holds(1.0));
        assert!(!Bounds::above(0.0, 1.0).holds(0.0));
        assert!(!Bounds::closed(0.0, 1.0).holds(f64::NAN));
        assert_eq!(
            Bounds::above(0.0, 1.0).describe(),
            "a number above 0, up to 1"
        );
    }

    #[test]
    fn long_values_are_cut() {
        assert_eq!(shown("a\nb"), "\"a\\nb\"");
        assert!(shown(&"x".repeat(500)).len() < 80);
    }
}
