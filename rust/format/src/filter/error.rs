//! Errors of expressions that do not compile, with the position.

use std::fmt;

use thiserror::Error;

/// Start of RocketMQ's error text for every expression that it cannot compile
/// (`SelectorParser.parse`).
const PREFIX: &str = "Invalid MessageSelector. ";
/// A symbol may be of any length; the message shows only its beginning.
const SHOWN_CHARACTERS_MAX: usize = 40;

/// An expression that RocketMQ would not compile either.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub struct SqlError {
    reason: String,
    symbol: Option<Symbol>,
}

impl SqlError {
    /// Creates an error without a position; `at` adds it.
    pub(super) fn new(reason: impl Into<String>) -> Self {
        Self {
            reason: reason.into(),
            symbol: None,
        }
    }

    /// Adds the position of a symbol, unless the error has one.
    pub(super) fn at(mut self, symbol: Symbol) -> Self {
        self.symbol.get_or_insert(symbol);
        self
    }

    /// Returns the unexpected symbol; None for an error of the whole expression.
    pub fn symbol(&self) -> Option<&Symbol> {
        self.symbol.as_ref()
    }
}

impl fmt::Display for SqlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{}", self.reason)?;
        match &self.symbol {
            Some(symbol) => write!(f, ": {symbol}"),
            None => Ok(()),
        }
    }
}

/// A symbol of an expression and its position, both counted from 1 in characters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Symbol {
    /// Beginning of the symbol; empty for the end of the expression.
    pub text: String,
    pub line: usize,
    pub column: usize,
}

impl Symbol {
    /// Returns the symbol in `text` at `bytes`.
    pub(super) fn of(text: &str, bytes: std::ops::Range<usize>) -> Self {
        let before = &text[..bytes.start];
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let mut shown = text[bytes].chars();
        let mut beginning: String = shown.by_ref().take(SHOWN_CHARACTERS_MAX).collect();
        if shown.next().is_some() {
            beginning.push_str("...");
        }
        Self {
            text: beginning,
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
        }
    }
}

impl fmt::Display for Symbol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { text, line, column } = self;
        match text.is_empty() {
            true => write!(f, "the expression ends"),
            false => write!(f, "{text:?}"),
        }?;
        write!(f, " at line {line}, column {column}")
    }
}
