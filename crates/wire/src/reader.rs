//! Frames from an async stream. Cancel-safe: a frame half read stays in the decoder.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt as _};

use crate::frame::{Decoder, Frame, FrameError};

/// Why no frame could be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The stream failed.
    #[error("the stream could not be read")]
    Io(#[source] io::Error),
    /// What came is no frame.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// The stream ended inside a frame.
    #[error("the stream ended inside a frame, after {0} bytes of it")]
    Cut(usize),
}

/// Reads frames from a stream.
#[derive(Debug)]
pub struct FrameReader<S> {
    stream: S,
    decoder: Decoder,
}

impl<S: AsyncRead + Unpin> FrameReader<S> {
    /// Reads `stream`, refusing frames with a `length` over `limit`.
    pub fn new(stream: S, limit: usize) -> Self {
        Self {
            stream,
            decoder: Decoder::new(limit),
        }
    }

    /// The next frame; `None` once the other side has closed between two frames.
    pub async fn next(&mut self) -> Result<Option<Frame>, ReadError> {
        loop {
            if let Some(frame) = self.decoder.next_frame()? {
                return Ok(Some(frame));
            }
            let buffer = self.decoder.buffer();
            match self.stream.read_buf(buffer).await {
                Ok(0) if self.decoder.pending() == 0 => return Ok(None),
                Ok(0) => return Err(ReadError::Cut(self.decoder.pending())),
                Ok(_) => {}
                Err(error) => return Err(ReadError::Io(error)),
            }
        }
    }

    /// The stream itself.
    pub fn stream(&self) -> &S {
        &self.stream
    }
}
