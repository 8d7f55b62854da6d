//! A condition on JSON bodies, in the words of RFC 9535.

use serde_json::Value;
use serde_json_path::JsonPath;

use super::wanted::ConditionError;

/// A path, or a condition on the whole body.
#[derive(Debug, Clone)]
pub(super) struct JsonCondition {
    path: JsonPath,
    /// Whether the path selects from a list that holds the body alone.
    is_of_list: bool,
}

impl JsonCondition {
    /// Parses a path such as `$.items[?@.price > 100]`, or what a filter has inside such as
    /// `@.order == 17`. RFC 9535 has no filter for the root, so the body becomes the only item of
    /// a list.
    pub fn parse(text: &str) -> Result<Self, ConditionError> {
        let is_of_list = !text.trim_start().starts_with('$');
        let whole = if is_of_list {
            format!("$[?{text}]")
        } else {
            text.trim().to_owned()
        };
        let path = JsonPath::parse(&whole).map_err(|error| ConditionError::Json {
            text: text.to_owned(),
            error: error.to_string(),
        })?;
        Ok(Self { path, is_of_list })
    }

    /// Whether the path selects a value of the body; None if the body is not JSON.
    pub fn matches(&self, body: &[u8]) -> Option<bool> {
        let mut value: Value = serde_json::from_slice(body).ok()?;
        if self.is_of_list {
            value = Value::Array(vec![value]);
        }
        Some(!self.path.query(&value).is_empty())
    }
}
