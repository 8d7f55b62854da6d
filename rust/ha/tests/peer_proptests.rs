//! Any bytes from a peer, in pieces of any size: the fuzz target, on frames that nearly are some.

#[path = "../../fuzz/peers.rs"]
mod peers;

use mq_ha::protocol::header;
use proptest::collection::vec;
use proptest::prelude::*;

proptest! {
    #[test]
    fn a_master_takes_any_reports(
        start in any::<u8>(),
        step in any::<u8>(),
        reports in vec(prop_oneof![0_u64..300_000, any::<u64>()], 0..20),
    ) {
        let bytes = reports.iter().flat_map(|report| report.to_be_bytes());
        peers::peer(&[start & !1, step].into_iter().chain(bytes).collect::<Vec<_>>());
    }

    #[test]
    fn a_slave_takes_any_frames(
        end in any::<u8>(),
        step in any::<u8>(),
        frames in vec((0_u64..20_000, vec(any::<u8>(), 0..200)), 0..20),
        rest in vec(any::<u8>(), 0..40),
    ) {
        let mut bytes = vec![end | 1, step];
        for (offset, body) in &frames {
            bytes.extend(header(*offset, body.len()));
            bytes.extend(body);
        }
        bytes.extend(rest);
        peers::peer(&bytes);
    }
}
