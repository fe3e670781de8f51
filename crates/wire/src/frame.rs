//! One frame: `u32 length | u8 kind | u64 call | u32 attempt | body`, little-endian.
//!
//! Pure: bytes in, frames out. The decoder never allocates more than twice what has arrived plus
//! a fixed step, whatever a length claims.

use bytes::{Buf, Bytes, BytesMut};

/// Bytes before the body.
pub const HEADER: usize = 4 + AFTER_LENGTH;
/// What `length` counts beside the body.
const AFTER_LENGTH: usize = 13;
/// The greatest `length` accepted unless another limit is set: 64 MiB.
pub const DEFAULT_LIMIT: usize = 64 << 20;
/// The buffer grows by at least this much.
const STEP: usize = 64 << 10;

/// What a frame is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// A request, to the slot.
    Call = 1,
    /// Its answer.
    Answer = 2,
    /// The slot's first word.
    Hello = 3,
    /// The call is over.
    Cancel = 10,
    /// Finish what runs, then exit.
    Drain = 11,
    /// Tell the stack of this call.
    Dump = 12,
    /// The stack of a call.
    Stacks = 13,
    /// Log lines of a call, or of the slot (call 0).
    Log = 14,
}

impl Kind {
    /// The kind with this number.
    pub const fn from_u8(n: u8) -> Option<Self> {
        Some(match n {
            1 => Self::Call,
            2 => Self::Answer,
            3 => Self::Hello,
            10 => Self::Cancel,
            11 => Self::Drain,
            12 => Self::Dump,
            13 => Self::Stacks,
            14 => Self::Log,
            _ => return None,
        })
    }
}

/// A frame as it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// What it is for.
    pub kind: Kind,
    /// The call it is about; 0 for none.
    pub call: u64,
    /// The call's attempt: answers of an ended attempt are told apart by it.
    pub attempt: u32,
    /// JSON, as bytes.
    pub body: Bytes,
}

/// Bytes that are not a frame. The stream can't be read on after any of these.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// Longer than the limit.
    #[error("a frame of {length} bytes is over the limit of {limit}")]
    TooLong {
        /// The length it claims.
        length: usize,
        /// The limit in force.
        limit: usize,
    },
    /// Shorter than a frame's own fields.
    #[error("a frame of {length} bytes is shorter than its header (13)")]
    TooShort {
        /// The length it claims.
        length: usize,
    },
    /// A kind that this version doesn't know.
    #[error("unknown frame kind {kind}")]
    UnknownKind {
        /// The number found.
        kind: u8,
    },
}

/// The header of a frame whose body has `body` bytes. Refuses what the other side would refuse.
pub fn header(
    kind: Kind,
    call: u64,
    attempt: u32,
    body: usize,
    limit: usize,
) -> Result<[u8; HEADER], FrameError> {
    let length = body.saturating_add(AFTER_LENGTH);
    let claimed = u32::try_from(length).unwrap_or(u32::MAX);
    if length > limit || claimed as usize != length {
        return Err(FrameError::TooLong { length, limit });
    }
    let mut out = [0; HEADER];
    out[..4].copy_from_slice(&claimed.to_le_bytes());
    out[4] = kind as u8;
    out[5..13].copy_from_slice(&call.to_le_bytes());
    out[13..].copy_from_slice(&attempt.to_le_bytes());
    Ok(out)
}

/// Takes bytes as they arrive and gives frames. Bodies share the buffer; nothing is copied.
#[derive(Debug)]
pub struct Decoder {
    buffer: BytesMut,
    limit: usize,
}

impl Decoder {
    /// A decoder that refuses frames with a `length` over `limit`.
    pub fn new(limit: usize) -> Self {
        Self {
            buffer: BytesMut::new(),
            limit,
        }
    }

    /// The buffer to read into, with room for more. Only append to it.
    pub fn buffer(&mut self) -> &mut BytesMut {
        let missing = self.missing();
        let arrived = self.buffer.len();
        self.buffer
            .reserve(missing.clamp(1, STEP.max(arrived)).max(STEP / 8));
        &mut self.buffer
    }

    /// Bytes that have arrived and are not part of a frame given out yet.
    pub fn pending(&self) -> usize {
        self.buffer.len()
    }

    /// The next whole frame, if it has arrived.
    pub fn next_frame(&mut self) -> Result<Option<Frame>, FrameError> {
        let Some(length) = self.length()? else {
            return Ok(None);
        };
        if self.buffer.len() < 4 + length {
            return Ok(None);
        }
        let mut frame = self.buffer.split_to(4 + length);
        frame.advance(4);
        let number = frame.get_u8();
        let kind = Kind::from_u8(number).ok_or(FrameError::UnknownKind { kind: number })?;
        let call = frame.get_u64_le();
        let attempt = frame.get_u32_le();
        Ok(Some(Frame {
            kind,
            call,
            attempt,
            body: frame.freeze(),
        }))
    }

    /// The length at the buffer's start, judged.
    fn length(&self) -> Result<Option<usize>, FrameError> {
        let Some(bytes) = self.buffer.first_chunk::<4>() else {
            return Ok(None);
        };
        let length = u32::from_le_bytes(*bytes) as usize;
        if length > self.limit {
            return Err(FrameError::TooLong {
                length,
                limit: self.limit,
            });
        }
        if length < AFTER_LENGTH {
            return Err(FrameError::TooShort { length });
        }
        Ok(Some(length))
    }

    /// How many bytes the frame at the buffer's start still needs.
    fn missing(&self) -> usize {
        match self.length() {
            Ok(Some(length)) => (4 + length).saturating_sub(self.buffer.len()),
            _ => STEP,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(kind: Kind, call: u64, attempt: u32, body: &[u8]) -> Vec<u8> {
        let head = header(kind, call, attempt, body.len(), DEFAULT_LIMIT).expect("short");
        [&head[..], body].concat()
    }

    #[test]
    fn a_length_over_the_limit_is_refused_before_anything_is_allocated() {
        let mut decoder = Decoder::new(1000);
        decoder.buffer().extend_from_slice(&1001u32.to_le_bytes());
        assert_eq!(
            decoder.next_frame(),
            Err(FrameError::TooLong {
                length: 1001,
                limit: 1000
            })
        );
        assert!(header(Kind::Call, 1, 1, 988, 1000).is_err());
        assert!(header(Kind::Call, 1, 1, 987, 1000).is_ok());
    }

    #[test]
    fn a_long_frame_is_given_memory_only_as_it_arrives() {
        let mut decoder = Decoder::new(DEFAULT_LIMIT);
        let claim = (DEFAULT_LIMIT as u32).to_le_bytes();
        decoder.buffer().extend_from_slice(&claim);
        assert_eq!(decoder.next_frame(), Ok(None));
        assert!(decoder.buffer().capacity() <= 2 * STEP);
    }

    #[test]
    fn frames_are_told_apart_from_noise() {
        let mut decoder = Decoder::new(DEFAULT_LIMIT);
        decoder.buffer().extend_from_slice(&12u32.to_le_bytes());
        assert_eq!(
            decoder.next_frame(),
            Err(FrameError::TooShort { length: 12 })
        );
        let mut decoder = Decoder::new(DEFAULT_LIMIT);
        let mut bytes = encoded(Kind::Call, 1, 1, b"{}");
        bytes[4] = 99;
        decoder.buffer().extend_from_slice(&bytes);
        assert_eq!(
            decoder.next_frame(),
            Err(FrameError::UnknownKind { kind: 99 })
        );
    }
}
