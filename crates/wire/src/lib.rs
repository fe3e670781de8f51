//! Frames between the runtime and a slot, as `docs/design/wire.md` has them.
//!
//! What comes from a slot is hostile: every length is judged before anything is allocated for it,
//! and nothing here panics on any bytes. Bodies are forwarded as bytes; only answers and the few
//! small control bodies are ever parsed.

pub mod answer;
pub mod body;
pub mod frame;
pub mod outbox;
pub mod reader;

pub use answer::{Answer, Number, Raised, StackFrame, Status};
pub use body::{Hello, LogEntry, Stacks};
pub use frame::{DEFAULT_LIMIT, Decoder, Frame, FrameError, HEADER, Kind, header};
pub use outbox::Outbox;
pub use reader::{FrameReader, ReadError};

/// The version that both sides must speak.
pub const VERSION: u32 = 1;
