//! The compiled conditions of a search.

use std::borrow::Cow;
use std::collections::HashSet;

use memchr::memmem::Finder;
use mq_format::message::{RecordView, sys_flag};
use mq_format::properties;
use regex::bytes::Regex;

use super::json::JsonCondition;
use super::wanted::{ConditionError, Decompress, Wanted};

/// Compiled conditions.
#[derive(Debug, Clone)]
pub struct Conditions {
    tags: Option<HashSet<String>>,
    key: Option<Regex>,
    body: Option<Finder<'static>>,
    json: Option<JsonCondition>,
}

/// What the conditions say of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    Match,
    NoMatch,
    /// The body is not JSON, so that no path can select from it.
    NotJson,
}

impl Conditions {
    /// Compiles the conditions.
    pub fn compile(wanted: &Wanted) -> Result<Self, ConditionError> {
        let key = wanted.key.as_deref().map(|text| {
            Regex::new(text).map_err(|error| ConditionError::Key {
                text: text.to_owned(),
                error: last_line(&error.to_string()),
            })
        });
        let json = wanted.json.as_deref().map(JsonCondition::parse);
        let finder = |text: &String| Finder::new(text.as_bytes()).into_owned();
        Ok(Self {
            tags: wanted.tags.clone(),
            key: key.transpose()?,
            body: wanted.body.as_ref().map(finder),
            json: json.transpose()?,
        })
    }

    /// Checks a record; the error says why its body cannot be decompressed.
    pub(super) fn check(
        &self,
        record: &RecordView<'_>,
        decompress: &mut Decompress<'_>,
    ) -> Result<Verdict, String> {
        if !self.has_tag(record.properties) || !self.has_key(record.properties) {
            return Ok(Verdict::NoMatch);
        }
        if self.body.is_none() && self.json.is_none() {
            return Ok(Verdict::Match);
        }
        let body = if record.sys_flag & sys_flag::COMPRESSED == 0 {
            Cow::Borrowed(record.body)
        } else {
            Cow::Owned(decompress(record.body, record.sys_flag)?)
        };
        let has_text = self
            .body
            .as_ref()
            .is_none_or(|text| text.find(&body).is_some());
        if !has_text {
            return Ok(Verdict::NoMatch);
        }
        Ok(match self.json.as_ref().map(|json| json.matches(&body)) {
            None | Some(Some(true)) => Verdict::Match,
            Some(Some(false)) => Verdict::NoMatch,
            Some(None) => Verdict::NotJson,
        })
    }

    fn has_tag(&self, text: &[u8]) -> bool {
        self.tags.as_ref().is_none_or(|tags| {
            let tag = properties::get_str(text, properties::TAGS);
            tag.is_some_and(|tag| tags.contains(tag.as_ref()))
        })
    }

    fn has_key(&self, text: &[u8]) -> bool {
        self.key.as_ref().is_none_or(|key| {
            let keys = properties::get(text, properties::KEYS).unwrap_or_default();
            let mut keys = keys.split(|byte| *byte == b' ');
            keys.any(|one| !one.is_empty() && key.is_match(one))
        })
    }
}

/// The line of a parser's text that says what is wrong; the lines before it draw the place.
fn last_line(text: &str) -> String {
    let line = text.lines().last().unwrap_or_default();
    line.trim_start_matches("error: ").to_owned()
}
