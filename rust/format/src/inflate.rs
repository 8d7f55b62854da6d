//! Unpacks zlib streams from untrusted senders: up to a limit, and only complete streams.

use flate2::{Decompress, FlushDecompress, Status};
use thiserror::Error;

/// Size to which any stream may grow, whatever its ratio, bytes.
const FREE_BYTES: usize = 1 << 20;
/// Step by which the output buffer grows, bytes.
const STEP_BYTES: usize = 256 << 10;

/// Limit on the unpacked size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bound {
    /// Largest unpacked size, bytes.
    pub bytes: usize,
    /// Largest ratio of unpacked to packed size, for streams that grow beyond 1 MiB.
    pub ratio: usize,
}

/// Why a stream was not unpacked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum InflateError {
    /// Its unpacked size exceeds the limit. It was unpacked only up to the limit.
    #[error("{packed} bytes grow over the bound of {limit}")]
    TooBig {
        /// Packed size, bytes.
        packed: usize,
        /// Limit on the unpacked size, bytes.
        limit: usize,
    },
    /// It is not a zlib stream, or its checksum is wrong.
    #[error("no zlib stream")]
    Broken,
    /// It ends too early.
    #[error("the zlib stream is cut short")]
    Short,
    /// Other bytes follow the stream.
    #[error("{0} bytes follow the zlib stream")]
    Trailing(usize),
}

/// Unpacks a whole zlib stream.
///
/// # Errors
/// `InflateError`, as early as possible: a stream beyond the limit is not unpacked to its end.
pub fn inflate(packed: &[u8], bound: Bound) -> Result<Vec<u8>, InflateError> {
    let by_ratio = packed.len().saturating_mul(bound.ratio).max(FREE_BYTES);
    let limit = bound.bytes.min(by_ratio);
    let mut stream = Vec::new();
    let mut unpacking = Decompress::new(true);
    loop {
        let taken = usize::try_from(unpacking.total_in()).unwrap_or(usize::MAX);
        let rest = packed.get(taken..).unwrap_or_default();
        if stream.len() == stream.capacity() {
            if stream.len() > limit {
                let packed = packed.len();
                return Err(InflateError::TooBig { packed, limit });
            }
            // One byte more than the limit, to detect a stream that exceeds it.
            stream.reserve_exact(STEP_BYTES.min(limit + 1 - stream.len()));
        }
        let before = (unpacking.total_in(), stream.len());
        let status = unpacking.decompress_vec(rest, &mut stream, FlushDecompress::None);
        match status.map_err(|_| InflateError::Broken)? {
            Status::StreamEnd => break,
            _ if stream.len() == stream.capacity() => {}
            _ if before == (unpacking.total_in(), stream.len()) => return Err(InflateError::Short),
            _ => {}
        }
    }
    if stream.len() > limit {
        let packed = packed.len();
        return Err(InflateError::TooBig { packed, limit });
    }
    let taken = usize::try_from(unpacking.total_in()).unwrap_or(usize::MAX);
    match packed.len().saturating_sub(taken) {
        0 => Ok(stream),
        rest => Err(InflateError::Trailing(rest)),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    const WIDE: Bound = Bound {
        bytes: 4 << 20,
        ratio: 1_100,
    };

    fn packed(bytes: &[u8]) -> Vec<u8> {
        let mut packer = flate2::write::ZlibEncoder::new(Vec::new(), Default::default());
        packer.write_all(bytes).unwrap();
        packer.finish().unwrap()
    }

    #[test]
    fn a_whole_stream_is_unpacked_whatever_its_size() {
        for size in [0, 1, STEP_BYTES - 1, STEP_BYTES, STEP_BYTES + 1, 3 << 20] {
            let bytes: Vec<u8> = (0..size).map(|at| (at * at) as u8).collect();
            assert_eq!(inflate(&packed(&bytes), WIDE), Ok(bytes), "{size} bytes");
        }
    }

    #[test]
    fn a_zip_bomb_is_unpacked_only_up_to_the_limit() {
        let bomb = packed(&vec![0; 3 << 20]);
        let bound =
            |bytes, ratio| inflate(&bomb, Bound { bytes, ratio }).map(|stream| stream.len());
        assert_eq!(bound(3 << 20, 1_100), Ok(3 << 20));
        let too_big = |limit| {
            Err(InflateError::TooBig {
                packed: bomb.len(),
                limit,
            })
        };
        assert_eq!(bound((3 << 20) - 1, 1_100), too_big((3 << 20) - 1));
        assert_eq!(bound(100, 1_100), too_big(100));
        assert_eq!(bound(3 << 20, 100), too_big(1 << 20), "by its ratio");
        assert_eq!(bound(3 << 20, 400), too_big(bomb.len() * 400));
    }

    #[test]
    fn broken_short_and_trailing_streams_have_their_own_errors() {
        let whole = packed(b"some bytes");
        for end in 0..whole.len() {
            assert_eq!(
                inflate(&whole[..end], WIDE),
                Err(InflateError::Short),
                "{end} bytes"
            );
        }
        let more = [whole.as_slice(), b"abc"].concat();
        assert_eq!(inflate(&more, WIDE), Err(InflateError::Trailing(3)));
        assert_eq!(inflate(b"no zlib", WIDE), Err(InflateError::Broken));
        let mut wrong = whole.clone();
        *wrong.last_mut().unwrap() ^= 1;
        assert_eq!(
            inflate(&wrong, WIDE),
            Err(InflateError::Broken),
            "its checksum"
        );
    }
}
