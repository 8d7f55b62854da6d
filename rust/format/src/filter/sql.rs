//! A compiled expression, as other code sees it.

use super::error::SqlError;
use super::evaluate::{self, Get, Truth};
use super::expression::Expression;
use super::parse::Parser;

/// Bytes of the longest expression. The limit exists because each message of a topic is compared
/// with all of it.
pub const TEXT_BYTES_MAX: usize = 64 << 10;

/// A compiled SQL92 expression over the properties of a message.
#[derive(Debug)]
pub struct Sql {
    text: Box<str>,
    expression: Expression,
}

impl Sql {
    /// Compiles an expression of at most `TEXT_BYTES_MAX` bytes.
    ///
    /// # Errors
    /// `SqlError` for a longer expression, and for one that RocketMQ would not compile either.
    pub fn compile(text: &str) -> Result<Self, SqlError> {
        if text.len() > TEXT_BYTES_MAX {
            let length = text.len();
            let why = format!("it has {length} bytes, and at most {TEXT_BYTES_MAX} are taken");
            return Err(SqlError::new(why));
        }
        let expression = Parser::new(text).parse()?;
        Ok(Self {
            text: text.into(),
            expression,
        })
    }

    /// Returns the text that was compiled.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether a message with these properties passes. It does not pass if the expression cannot be
    /// evaluated or its result is unknown.
    pub fn matches(&self, text: &[u8]) -> bool {
        let truth = self.evaluate(&|name| name.get(text).map(String::from_utf8_lossy));
        truth == Ok(Some(true))
    }

    /// Returns true, false or unknown; an error if two values cannot be compared.
    pub(super) fn evaluate<'a>(&'a self, get: &Get<'a, '_>) -> Truth {
        evaluate::truth(&self.expression, get)
    }
}
