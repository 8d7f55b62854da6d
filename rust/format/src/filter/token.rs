//! The words of an expression.

use logos::Logos;

/// A word. Spaces and comments separate words; keywords are case-insensitive.
///
/// A line comment must end with the end of a line, as in RocketMQ; otherwise its dashes are minus
/// signs.
#[derive(Logos, Debug, Clone, Copy, PartialEq, Eq)]
#[logos(skip r"[ \t\n\r\x0C]+")]
#[logos(skip(r"--[^\n\r]*[\n\r]", allow_greedy = true))]
#[logos(skip r"/\*[^*]*\*(\*|[^*/][^*]*\*)*/")]
pub(super) enum Token<'a> {
    #[token("not", ignore(case))]
    Not,
    #[token("and", ignore(case))]
    And,
    #[token("or", ignore(case))]
    Or,
    #[token("between", ignore(case))]
    Between,
    #[token("in", ignore(case))]
    In,
    #[token("is", ignore(case))]
    Is,
    #[token("true", ignore(case))]
    True,
    #[token("false", ignore(case))]
    False,
    #[token("null", ignore(case))]
    Null,
    #[token("=")]
    Equal,
    #[token("<>")]
    NotEqual,
    #[token(">")]
    Greater,
    #[token(">=")]
    GreaterEqual,
    #[token("<")]
    Less,
    #[token("<=")]
    LessEqual,
    #[token("(")]
    Open,
    #[token(")")]
    Close,
    #[token(",")]
    Comma,
    #[token("+")]
    Plus,
    #[token("-")]
    Minus,
    /// A whole number with an optional `L` suffix.
    #[regex(r"0|[1-9][0-9]*[lL]?")]
    Whole(&'a str),
    /// A number with a point or an exponent.
    #[regex(r"[0-9]+\.[0-9]*([eE][+-]?[0-9]+)?")]
    #[regex(r"\.[0-9]+([eE][+-]?[0-9]+)?")]
    #[regex(r"[0-9]+[eE][+-]?[0-9]+")]
    Float(&'a str),
    /// Text in single quotes, including the quotes; two quotes inside mean one.
    #[regex(r"'([^']|'')*'")]
    Text(&'a str),
    /// The name of a property.
    #[regex(r"[A-Za-z_$][A-Za-z0-9_$]*")]
    Name(&'a str),
}
