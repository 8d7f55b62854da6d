//! What a search looks for, as the user says it.

use std::collections::HashSet;

use thiserror::Error;

/// Decompresses a body with the codec in the system flag; the error says why that failed.
pub type Decompress<'a> = dyn FnMut(&[u8], i32) -> Result<Vec<u8>, String> + 'a;

/// Which messages a search wants, as the user says it; a message must meet every condition.
#[derive(Debug, Clone, Default)]
pub struct Wanted {
    /// One of these tags.
    pub tags: Option<HashSet<String>>,
    /// A key that this regular expression matches somewhere.
    pub key: Option<String>,
    /// A body with this text.
    pub body: Option<String>,
    /// A JSON body from which this path selects a value, or for which this condition holds.
    pub json: Option<String>,
}

/// Why conditions cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ConditionError {
    /// The regular expression for keys.
    #[error("{text:?} is not a regular expression: {error}")]
    Key {
        /// The expression.
        text: String,
        /// What is wrong with it.
        error: String,
    },
    /// The condition on JSON.
    #[error(
        "{text:?} is not JSONPath (RFC 9535): {error}; give a path like $.items[?@.price > 100], \
         or a condition on the whole body like @.order == 17"
    )]
    Json {
        /// The path or condition.
        text: String,
        /// What is wrong with it.
        error: String,
    },
}
