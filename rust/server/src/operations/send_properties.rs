//! Properties of a message: from the text of the request to the text in the store.
//!
//! `name 0x01 value 0x02 name 0x01 value`; the broker adds CLUSTER and removes WAIT.

/// Properties that decide how the message is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Traits {
    /// False with `WAIT=false`: the send is acknowledged before the flush.
    pub wait_store_ok: bool,
    /// `DELAY`; 0 without one.
    pub delay_level: i32,
    /// `TRAN_MSG`: a half message.
    pub is_half: bool,
}

const NAME_END: u8 = 1;
const PAIR_END: u8 = 2;

/// Writes the stored form of `text` to `out`, which is cleared first. WAIT stays in batches,
/// delayed messages and half messages, because RocketMQ rewrites their text from all properties.
///
/// None if Python has to decide, because the delay is not a number. Pairs without a name or value
/// are left out, as RocketMQ's parser does.
pub(crate) fn store_form(
    text: &str,
    batch: bool,
    cluster: &str,
    out: &mut Vec<u8>,
) -> Option<Traits> {
    let mut traits = Traits {
        wait_store_ok: true,
        delay_level: 0,
        is_half: false,
    };
    let mut wait = None;
    out.clear();
    let mut rest = text.as_bytes();
    while !rest.is_empty() {
        let end = memchr::memchr(PAIR_END, rest).unwrap_or(rest.len());
        let pair = &rest[..end];
        rest = rest.get(end + 1..).unwrap_or_default();
        let Some(name_end) = pair.iter().position(|byte| *byte == NAME_END) else {
            continue;
        };
        let (name, value) = (&pair[..name_end], &pair[name_end + 1..]);
        if name.is_empty() || value.is_empty() {
            continue;
        }
        match name {
            b"WAIT" => {
                traits.wait_store_ok = value.eq_ignore_ascii_case(b"true");
                wait = Some(pair);
                continue;
            }
            b"CLUSTER" => continue,
            b"TRAN_MSG" => traits.is_half = !batch && value.eq_ignore_ascii_case(b"true"),
            b"DELAY" => traits.delay_level = std::str::from_utf8(value).ok()?.parse().ok()?,
            _ => {}
        }
        out.extend_from_slice(pair);
        out.push(PAIR_END);
    }
    if let Some(pair) = wait.filter(|_| batch || traits.is_half || traits.delay_level > 0) {
        out.extend_from_slice(pair);
        out.push(PAIR_END);
    }
    out.extend_from_slice(b"CLUSTER\x01");
    out.extend_from_slice(cluster.as_bytes());
    Some(traits)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(text: &str) -> Option<(String, Traits)> {
        let mut out = b"left over".to_vec();
        let traits = store_form(text, false, "C", &mut out)?;
        Some((String::from_utf8(out).unwrap(), traits))
    }

    const PLAIN: Traits = Traits {
        wait_store_ok: true,
        delay_level: 0,
        is_half: false,
    };

    #[test]
    fn adds_the_cluster_and_takes_wait_out() {
        let text = "UNIQ_KEY\x01AB\x02WAIT\x01true\x02TAGS\x01TagA";
        let expected = "UNIQ_KEY\x01AB\x02TAGS\x01TagA\x02CLUSTER\x01C".to_owned();
        assert_eq!(stored(text), Some((expected.clone(), PLAIN)));
        let trailing = "UNIQ_KEY\x01AB\x02TAGS\x01TagA\x02";
        assert_eq!(stored(trailing), Some((expected, PLAIN)));
        assert_eq!(stored(""), Some(("CLUSTER\x01C".to_owned(), PLAIN)));
    }

    #[test]
    fn a_batch_keeps_wait() {
        let mut out = Vec::new();
        let traits = store_form("WAIT\x01false", true, "C", &mut out).unwrap();
        assert!(!traits.wait_store_ok);
        assert_eq!(out, b"WAIT\x01false\x02CLUSTER\x01C");
    }

    #[test]
    fn leaves_out_what_rocketmq_cannot_parse() {
        let (text, _) = stored("\x01v\x02a\x01\x02b\x02CLUSTER\x01mine\x02c\x01d").unwrap();
        assert_eq!(text, "c\x01d\x02CLUSTER\x01C");
    }

    #[test]
    fn reads_what_matters_for_storing() {
        let (text, traits) = stored("WAIT\x01false\x02DELAY\x013").unwrap();
        assert_eq!(text, "DELAY\x013\x02WAIT\x01false\x02CLUSTER\x01C");
        assert_eq!(
            traits,
            Traits {
                wait_store_ok: false,
                delay_level: 3,
                is_half: false,
            }
        );
        assert_eq!(stored("DELAY\x01abc"), None);
        assert!(stored("TRAN_MSG\x01false").is_some_and(|(_, traits)| !traits.is_half));
        let (text, traits) = stored("WAIT\x01true\x02TRAN_MSG\x01true").unwrap();
        assert_eq!(text, "TRAN_MSG\x01true\x02WAIT\x01true\x02CLUSTER\x01C");
        assert!(traits.is_half);
    }
}
