//! Payloads: JSON and tokens as bytes, compressed where that saves something.
//!
//! The first byte tells how the rest is kept: 0 = as it is, 1 = zstd.

use std::io::Read;

use paddock_types::trajectory::Tokens;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::StoreError;

const PLAIN: u8 = 0;
const ZSTD: u8 = 1;
/// Below this many bytes, compression costs more than it saves.
const WORTH_COMPRESSING: usize = 512;
/// Level 1 keeps up with a trainer; higher ones save a tenth more for several times the work.
const LEVEL: i32 = 1;
/// What one payload may unpack to.
const MOST: u64 = 1 << 30;

/// Packs payloads, with one compressor for all of them.
#[derive(Default)]
pub(super) struct Packer {
    compressor: Option<zstd::bulk::Compressor<'static>>,
    buffer: Vec<u8>,
}

impl Packer {
    /// A value as JSON, packed.
    pub(super) fn json(
        &mut self,
        what: &'static str,
        value: &impl Serialize,
    ) -> Result<Vec<u8>, StoreError> {
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.clear();
        let written = serde_json::to_writer(&mut buffer, value);
        let packed = written
            .map_err(|source| StoreError::Encode { what, source })
            .map(|()| self.bytes(&buffer));
        self.buffer = buffer;
        packed
    }

    /// The same, and known to read back: a number that isn't finite becomes null in JSON, which is
    /// better refused here than unreadable later.
    pub(super) fn checked_json<T: Serialize + DeserializeOwned>(
        &mut self,
        what: &'static str,
        value: &T,
    ) -> Result<Vec<u8>, StoreError> {
        let plain = serde_json::to_vec(value);
        plain
            .and_then(|plain| serde_json::from_slice::<T>(&plain).map(|_| plain))
            .map_err(|source| StoreError::Encode { what, source })
            .map(|plain| self.bytes(&plain))
    }

    /// Tokens, packed: three counts, ids, log-probabilities, one bit a token for the mask.
    pub(super) fn tokens(&mut self, tokens: &Tokens) -> Vec<u8> {
        let Tokens {
            ids,
            mask,
            logprobs,
        } = tokens;
        let mut out = Vec::with_capacity(12 + ids.len() * 8 + mask.len() / 8 + 1);
        for count in [ids.len(), logprobs.len(), mask.len()] {
            out.extend((count as u32).to_le_bytes());
        }
        out.extend(ids.iter().flat_map(|id| id.to_le_bytes()));
        out.extend(logprobs.iter().flat_map(|logprob| logprob.to_le_bytes()));
        out.extend(mask.chunks(8).map(|bits| {
            bits.iter()
                .enumerate()
                .fold(0u8, |byte, (at, &bit)| byte | (u8::from(bit) << at))
        }));
        self.bytes(&out)
    }

    fn bytes(&mut self, plain: &[u8]) -> Vec<u8> {
        if plain.len() >= WORTH_COMPRESSING
            && let Some(packed) = self.compressed(plain)
            && packed.len() < plain.len()
        {
            return tagged(ZSTD, &packed);
        }
        tagged(PLAIN, plain)
    }

    /// `None` if the compressor fails: the bytes are kept as they are.
    fn compressed(&mut self, plain: &[u8]) -> Option<Vec<u8>> {
        if self.compressor.is_none() {
            self.compressor = zstd::bulk::Compressor::new(LEVEL).ok();
        }
        self.compressor.as_mut()?.compress(plain).ok()
    }
}

fn tagged(tag: u8, bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len() + 1);
    out.push(tag);
    out.extend_from_slice(bytes);
    out
}

/// A payload's value.
pub(super) fn read_json<T: DeserializeOwned>(
    what: impl FnOnce() -> String,
    packed: &[u8],
) -> Result<T, StoreError> {
    let read = unpack(packed)
        .map_err(Into::into)
        .and_then(|plain| serde_json::from_slice(&plain).map_err(Into::into));
    read.map_err(|source| StoreError::Damaged {
        what: what(),
        source,
    })
}

/// A payload's tokens.
pub(super) fn read_tokens(
    what: impl FnOnce() -> String,
    packed: &[u8],
) -> Result<Tokens, StoreError> {
    let read = unpack(packed).map_err(Into::into).and_then(|plain| {
        split_tokens(&plain).ok_or_else(|| "its tokens are cut short".to_owned().into())
    });
    read.map_err(|source| StoreError::Damaged {
        what: what(),
        source,
    })
}

fn unpack(packed: &[u8]) -> std::io::Result<Vec<u8>> {
    match packed.split_first() {
        Some((&PLAIN, plain)) => Ok(plain.to_vec()),
        Some((&ZSTD, packed)) => {
            let mut plain = Vec::new();
            zstd::stream::read::Decoder::new(packed)?
                .take(MOST)
                .read_to_end(&mut plain)?;
            Ok(plain)
        }
        _ => Err(std::io::Error::other("it has no known tag")),
    }
}

fn split_tokens(plain: &[u8]) -> Option<Tokens> {
    let (counts, rest) = plain.split_at_checked(12)?;
    let mut counts = words(counts).map(|word| u32::from_le_bytes(word) as usize);
    let (ids, logprobs, mask) = (counts.next()?, counts.next()?, counts.next()?);
    let (id_bytes, rest) = rest.split_at_checked(ids.checked_mul(4)?)?;
    let (logprob_bytes, bits) = rest.split_at_checked(logprobs.checked_mul(4)?)?;
    if bits.len() != mask.div_ceil(8) {
        return None;
    }
    Some(Tokens {
        ids: words(id_bytes).map(u32::from_le_bytes).collect(),
        mask: (0..mask)
            .map(|at| bits[at / 8] >> (at % 8) & 1 == 1)
            .collect(),
        logprobs: words(logprob_bytes).map(f32::from_le_bytes).collect(),
    })
}

fn words(bytes: &[u8]) -> impl Iterator<Item = [u8; 4]> {
    bytes.as_chunks::<4>().0.iter().copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_come_back_to_the_bit() {
        let tokens = Tokens {
            ids: (0..1000).map(|n| n * 7919 % 272).collect(),
            mask: (0..1000).map(|n| n % 3 == 0).collect(),
            logprobs: (0..1000).map(|n| -(n as f32) / 7.0).collect(),
        };
        let packed = Packer::default().tokens(&tokens);
        let read = read_tokens(|| "it".into(), &packed).expect("its own bytes");
        assert_eq!(read, tokens);
        let empty = Packer::default().tokens(&Tokens::default());
        assert_eq!(
            read_tokens(|| "it".into(), &empty).expect("its own bytes"),
            Tokens::default()
        );
    }

    #[test]
    fn what_is_cut_short_is_damaged() {
        let tokens = Tokens {
            ids: vec![1, 2, 3],
            mask: vec![true; 3],
            logprobs: vec![-0.5; 3],
        };
        let packed = Packer::default().tokens(&tokens);
        for length in 0..packed.len() {
            assert!(
                read_tokens(|| "it".into(), &packed[..length]).is_err(),
                "{length} bytes"
            );
        }
    }

    #[test]
    fn long_text_is_compressed_and_short_text_is_not() {
        let mut packer = Packer::default();
        let long = "so it goes, ".repeat(500);
        let packed = packer.json("a text", &long).expect("text is JSON");
        assert!(packed.len() < 200, "{} bytes", packed.len());
        let read: String = read_json(|| "it".into(), &packed).expect("its own bytes");
        assert_eq!(read, long);
        assert_eq!(packer.json("a text", &"hi").expect("JSON")[0], PLAIN);
    }
}
