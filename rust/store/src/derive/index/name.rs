//! Names of index files: local time of creation, `yyyyMMddHHmmssSSS`.

use std::fmt;
use std::path::Path;

use mq_base::clock::local_time;

const DIGITS: usize = 17;

/// The name of an index file; order of names is order of files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct IndexName(u64);

impl IndexName {
    /// The name of a file made at `wall_ms`.
    pub(crate) fn at(wall_ms: i64) -> Self {
        let time = local_time(wall_ms);
        let parts = [
            (time.tm_year + 1900, 10_000),
            (time.tm_mon + 1, 100),
            (time.tm_mday, 100),
            (time.tm_hour, 100),
            (time.tm_min, 100),
            (time.tm_sec, 100),
        ];
        let stamp = parts.iter().fold(0, |stamp, (part, base)| {
            stamp * base + u64::from(part.unsigned_abs())
        });
        Self(stamp * 1000 + wall_ms.rem_euclid(1000).unsigned_abs())
    }

    /// This name, or the one behind `last` where the clock stepped back.
    pub(crate) fn after(self, last: Option<Self>) -> Self {
        last.map_or(self, |last| self.max(Self(last.0 + 1)))
    }

    /// Reads a name; None when it is not one.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        let is_stamp = name.len() == DIGITS && name.bytes().all(|byte| byte.is_ascii_digit());
        name.parse().ok().filter(|_| is_stamp).map(Self)
    }

    /// The name of the file at `path`.
    pub(crate) fn of_path(path: &Path) -> Option<Self> {
        Self::parse(path.file_name()?.to_str()?)
    }
}

impl fmt::Display for IndexName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:0DIGITS$}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_seventeen_digits_that_rise() {
        let name = IndexName::at(1_795_246_270_490);
        let text = name.to_string();
        assert_eq!(text.len(), DIGITS);
        assert!(
            text.starts_with("202611") && text.ends_with("490"),
            "{text}"
        );
        assert_eq!(IndexName::parse(&text), Some(name));
        assert_eq!(name.after(Some(name)), IndexName(name.0 + 1));
        assert_eq!(name.after(None), name);
        assert_eq!(IndexName::parse("2026112107311049"), None);
        assert_eq!(IndexName::parse("2026112107311049x"), None);
    }
}
