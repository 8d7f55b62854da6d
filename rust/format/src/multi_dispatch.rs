//! One message in several queues: INNER_MULTI_DISPATCH names them, separated by commas, and
//! INNER_MULTI_QUEUE_OFFSET holds the message's offset in each, in the same order.
//!
//! A queue named `%LMQ%…` is a light queue: it has only queue id 0, whatever the number of queues
//! of the topic. Other names use the queue id of the message.

use crate::properties;

/// Prefix of the names of light queues.
pub const LMQ_PREFIX: &str = "%LMQ%";
/// Separator of names, and of offsets.
const SEPARATOR: char = ',';
/// Longest name that can be a directory name, bytes.
const NAME_BYTES_MAX: usize = 255;

/// Whether a name belongs to a light queue.
pub fn is_lmq(name: &str) -> bool {
    name.starts_with(LMQ_PREFIX)
}

/// Returns the queue of `name` that a message of queue `queue_id` enters.
pub fn queue_id_in(name: &str, queue_id: i32, lmq_enabled: bool) -> i32 {
    if lmq_enabled && is_lmq(name) {
        0
    } else {
        queue_id
    }
}

/// Whether a name can be the directory name of a queue. Other names stay in both lists, with offset
/// 0, but get no queue; RocketMQ 4.9 would create directories outside of its own for them.
pub fn is_queue_name(name: &str) -> bool {
    let is_special = matches!(name, "" | "." | "..") || name.contains(['/', '\0']);
    !is_special && name.len() <= NAME_BYTES_MAX
}

/// Returns the names in INNER_MULTI_DISPATCH; none if the property is missing or blank.
pub fn dispatch_names(text: &[u8]) -> impl Iterator<Item = &str> {
    split(text, properties::INNER_MULTI_DISPATCH)
}

/// Returns the offsets in INNER_MULTI_QUEUE_OFFSET; None for a part that is not a number.
pub fn dispatch_offsets(text: &[u8]) -> impl Iterator<Item = Option<i64>> {
    split(text, properties::INNER_MULTI_QUEUE_OFFSET).map(|offset| offset.parse().ok())
}

/// Returns name and offset of every additional queue of the message. Returns none if the numbers of
/// names and offsets differ, or an offset is not a number: then the message is only in its own
/// queue.
pub fn dispatches(text: &[u8]) -> impl Iterator<Item = (&str, i64)> {
    let offsets: Option<Vec<i64>> = dispatch_offsets(text).collect();
    let offsets = offsets.unwrap_or_default();
    let is_whole = dispatch_names(text).count() == offsets.len();
    let names = dispatch_names(text).take(if is_whole { offsets.len() } else { 0 });
    names.zip(offsets).filter(|(name, _)| is_queue_name(name))
}

/// Returns the value of INNER_MULTI_QUEUE_OFFSET.
pub fn join_offsets(offsets: &[i64]) -> String {
    let texts: Vec<_> = offsets.iter().map(i64::to_string).collect();
    texts.join(&SEPARATOR.to_string())
}

/// Splits like Java's `split`: empty parts count, except at the end.
fn split<'a>(text: &'a [u8], name: &str) -> impl Iterator<Item = &'a str> {
    let value = properties::get(text, name).and_then(|value| std::str::from_utf8(value).ok());
    let value = value.unwrap_or_default();
    let value = match value.trim() {
        "" => "",
        _ => value.trim_end_matches(SEPARATOR),
    };
    let at_most = if value.is_empty() { 0 } else { usize::MAX };
    value.split(SEPARATOR).take(at_most)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(value: &str) -> Vec<String> {
        let text = format!("A\x01b\x02INNER_MULTI_DISPATCH\x01{value}");
        dispatch_names(text.as_bytes()).map(str::to_owned).collect()
    }

    #[test]
    fn names_are_split_as_java_does() {
        assert_eq!(
            names("%LMQ%alice,%LMQ%bob,plain"),
            ["%LMQ%alice", "%LMQ%bob", "plain"]
        );
        assert_eq!(names("a,,b,,"), ["a", "", "b"]);
        assert_eq!(names(",a"), ["", "a"]);
        for none in [" ", ",", ",,"] {
            assert_eq!(names(none), [""; 0], "{none:?}");
        }
        assert_eq!(dispatch_names(b"TAGS\x01a").count(), 0);
        assert_eq!(dispatch_names(b"INNER_MULTI_DISPATCH\x01\xFF").count(), 0);
    }

    #[test]
    fn only_light_queues_have_one_queue() {
        assert_eq!(queue_id_in("%LMQ%a", 3, true), 0);
        assert_eq!(queue_id_in("%LMQ%a", 3, false), 3);
        assert_eq!(queue_id_in("a%LMQ%", 3, true), 3);
    }

    #[test]
    fn a_name_and_its_offset_belong_together() {
        let entries = |names: &str, offsets: &str| -> Vec<(String, i64)> {
            let text =
                format!("INNER_MULTI_DISPATCH\x01{names}\x02INNER_MULTI_QUEUE_OFFSET\x01{offsets}");
            let found = dispatches(text.as_bytes());
            found
                .map(|(name, offset)| (name.to_owned(), offset))
                .collect()
        };
        let pair = |name: &str, offset| (name.to_owned(), offset);
        assert_eq!(entries("a,b", "0,12"), [pair("a", 0), pair("b", 12)]);
        assert_eq!(entries("a,b", "0"), []);
        assert_eq!(entries("a,b", "0,x"), []);
        assert_eq!(entries("a", "0,1"), []);
        let unusable = format!("../up,a,..,{}", "n".repeat(256));
        assert_eq!(entries(&unusable, "0,5,0,0"), [pair("a", 5)]);
    }

    #[test]
    fn offsets_are_joined_as_java_does() {
        assert_eq!(join_offsets(&[0, 12, 3]), "0,12,3");
    }
}
