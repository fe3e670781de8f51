//! Frames on their way out, with partial writes kept.
//!
//! The caller writes while it also reads, so that two full sockets never wait for each other:
//! nothing here blocks.

use std::collections::VecDeque;
use std::io::{self, IoSlice};

use bytes::Bytes;

use crate::frame::{FrameError, HEADER, Kind, header};

/// Frames written per system call at most.
const BATCH: usize = 16;

#[derive(Debug)]
struct Item {
    header: [u8; HEADER],
    body: Bytes,
    written: usize,
}

/// A queue of frames for one socket.
#[derive(Debug)]
pub struct Outbox {
    items: VecDeque<Item>,
    limit: usize,
}

impl Outbox {
    /// An empty one that refuses frames with a `length` over `limit`.
    pub fn new(limit: usize) -> Self {
        Self {
            items: VecDeque::new(),
            limit,
        }
    }

    /// True if everything has been written.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Puts a frame at the end.
    pub fn push(
        &mut self,
        kind: Kind,
        call: u64,
        attempt: u32,
        body: Bytes,
    ) -> Result<(), FrameError> {
        let header = header(kind, call, attempt, body.len(), self.limit)?;
        self.items.push_back(Item {
            header,
            body,
            written: 0,
        });
        Ok(())
    }

    /// Writes what the socket takes, headers and bodies in one vectored write. `WouldBlock` from
    /// `write` ends it without an error; call again once the socket is writable.
    pub fn flush(
        &mut self,
        mut write: impl FnMut(&[IoSlice<'_>]) -> io::Result<usize>,
    ) -> io::Result<()> {
        while !self.items.is_empty() {
            let mut slices = [IoSlice::new(&[]); 2 * BATCH];
            let mut used = 0;
            for item in self.items.iter().take(BATCH) {
                let head = item.header.get(item.written..).unwrap_or_default();
                let body = &item.body[item.written.saturating_sub(HEADER)..];
                for part in [head, body] {
                    if !part.is_empty() {
                        slices[used] = IoSlice::new(part);
                        used += 1;
                    }
                }
            }
            match write(&slices[..used]) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => self.advance(count),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn advance(&mut self, mut count: usize) {
        while let Some(item) = self.items.front_mut() {
            let left = HEADER + item.body.len() - item.written;
            if count < left {
                item.written += count;
                return;
            }
            count -= left;
            self.items.pop_front();
        }
    }
}
