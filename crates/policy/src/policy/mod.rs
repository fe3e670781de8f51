//! The handle that the rest of Paddock holds, and the words it speaks.

mod error;

pub use error::PolicyError;
