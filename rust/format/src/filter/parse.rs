//! RocketMQ's grammar of expressions.
//!
//! RocketMQ's parser stops when an expression is complete. It ignores all words after that, unless
//! the first of them is invalid. AND binds tighter than OR; NOT binds tighter than a comparison.

use std::ops::Range;

use logos::{Lexer, Logos};

use super::error::{SqlError, Symbol};
use super::evaluate::constants_in_order;
use super::expression::{Comparison, Constant, Expression};
use super::token::Token;

/// Largest nesting depth. Java fails at some thousands, when its stack is full.
const DEPTH_MAX: usize = 310;
const CLOSE: &str = "\")\"";

type Parsed = Result<Expression, SqlError>;

pub(super) struct Parser<'a> {
    lexer: Lexer<'a, Token<'a>>,
    next: Option<Result<Token<'a>, ()>>,
    depth: usize,
}

impl<'a> Parser<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        let mut lexer = Token::lexer(text);
        let next = lexer.next();
        Self {
            lexer,
            next,
            depth: 0,
        }
    }

    /// Parses the whole expression.
    pub(super) fn parse(mut self) -> Parsed {
        self.boolean(Self::or)
    }

    fn or(&mut self) -> Parsed {
        self.chain(Token::Or, Self::and, Expression::Or)
    }

    fn and(&mut self) -> Parsed {
        self.chain(Token::And, Self::equality, Expression::And)
    }

    /// Parses one operand, or several between `separator`s, which must all be truth values.
    fn chain(
        &mut self,
        separator: Token<'_>,
        operand: fn(&mut Self) -> Parsed,
        join: impl FnOnce(Vec<Expression>) -> Expression,
    ) -> Parsed {
        let begin = self.span();
        let first = operand(self)?;
        if self.peek()? != Some(separator) {
            return Ok(first);
        }
        let mut parts = vec![self.at(begin, first.into_boolean())?];
        while self.take_if(separator)? {
            parts.push(self.boolean(operand)?);
        }
        Ok(join(parts))
    }

    /// Parses an operand that must be a truth value.
    fn boolean(&mut self, operand: fn(&mut Self) -> Parsed) -> Parsed {
        let begin = self.span();
        let expression = operand(self)?;
        self.at(begin, expression.into_boolean())
    }

    fn equality(&mut self) -> Parsed {
        let mut left = self.comparison()?;
        let depth = self.depth;
        loop {
            let operator = self.span();
            left = match self.peek()? {
                Some(Token::Equal) => {
                    self.advance();
                    let right = self.comparison()?;
                    self.at(operator, left.equal(right))?
                }
                Some(Token::NotEqual) => {
                    self.advance();
                    let right = self.comparison()?;
                    self.at(operator, left.equal(right))?.not()?
                }
                Some(Token::Is) => {
                    self.advance();
                    let is_not = self.take_if(Token::Not)?;
                    self.expect(Token::Null, "\"NULL\"")?;
                    let is_null = left.equal_null();
                    if is_not { is_null.not()? } else { is_null }
                }
                _ => {
                    self.depth = depth;
                    return Ok(left);
                }
            };
            self.deeper()?;
        }
    }

    fn comparison(&mut self) -> Parsed {
        let mut left = self.unary()?;
        let depth = self.depth;
        loop {
            let token = self.peek()?;
            let operator = self.span();
            let comparison = match token {
                Some(Token::Greater) => Some(Comparison::Greater),
                Some(Token::GreaterEqual) => Some(Comparison::GreaterEqual),
                Some(Token::Less) => Some(Comparison::Less),
                Some(Token::LessEqual) => Some(Comparison::LessEqual),
                Some(Token::Between | Token::In | Token::Not) => None,
                _ => {
                    self.depth = depth;
                    return Ok(left);
                }
            };
            left = match comparison {
                Some(how) => {
                    self.advance();
                    let right = self.unary()?;
                    self.at(operator, left.compare(how, right))?
                }
                None => self.range(left)?,
            };
            self.deeper()?;
        }
    }

    /// `[NOT] BETWEEN low AND high` or `[NOT] IN ('text', ...)`.
    fn range(&mut self, left: Expression) -> Parsed {
        let is_not = self.take_if(Token::Not)?;
        let operator = self.span();
        if self.take_if(Token::Between)? {
            let low = self.unary()?;
            self.expect(Token::And, "\"AND\"")?;
            let high = self.unary()?;
            let range = match is_not {
                true => left.not_between(low, high),
                false => in_order(&low, &high).and_then(|()| left.between(low, high)),
            };
            return self.at(operator, range);
        }
        self.expect(Token::In, "\"BETWEEN\" or \"IN\"")?;
        self.expect(Token::Open, "\"(\"")?;
        let mut texts = vec![self.text()?];
        while self.take_if(Token::Comma)? {
            texts.push(self.text()?);
        }
        self.expect(Token::Close, CLOSE)?;
        let within = self.at(operator, left.within(texts))?;
        if is_not { within.not() } else { Ok(within) }
    }

    fn unary(&mut self) -> Parsed {
        self.deeper()?;
        let expression = match self.peek()? {
            Some(Token::Plus) => {
                self.advance();
                self.unary()
            }
            Some(Token::Minus) => {
                self.advance();
                Ok(Expression::Negate(Box::new(self.unary()?)))
            }
            Some(Token::Not) => {
                self.advance();
                self.boolean(Self::unary)?.not()
            }
            _ => self.primary(),
        };
        self.depth -= 1;
        expression
    }

    fn primary(&mut self) -> Parsed {
        let token = self.peek()?;
        if let Some(Token::Text(_)) = token {
            return Ok(Expression::Constant(Constant::Text(self.text()?)));
        }
        let begin = self.span();
        self.advance();
        match token {
            Some(Token::Open) => {
                let inner = self.or()?;
                self.expect(Token::Close, CLOSE)?;
                Ok(inner)
            }
            Some(Token::Name(name)) => Ok(Expression::property(name)),
            Some(Token::True) => Ok(Expression::Constant(Constant::Bool(true))),
            Some(Token::False) => Ok(Expression::Constant(Constant::Bool(false))),
            Some(Token::Null) => Ok(Expression::Constant(Constant::Null)),
            Some(Token::Whole(digits)) => self.at(begin, whole(digits)),
            Some(Token::Float(digits)) => self.at(begin, float(digits)),
            _ => self.at(begin, Err(missing("a value"))),
        }
    }

    fn text(&mut self) -> Result<Box<str>, SqlError> {
        match self.peek()? {
            Some(Token::Text(quoted)) => {
                self.advance();
                Ok(quoted[1..quoted.len() - 1].replace("''", "'").into())
            }
            _ => self.at(self.span(), Err(missing("a text in single quotes"))),
        }
    }

    fn deeper(&mut self) -> Result<(), SqlError> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            let error = SqlError::new(format!("nested more than {DEPTH_MAX} deep"));
            return self.at(self.span(), Err(error));
        }
        Ok(())
    }

    fn peek(&self) -> Result<Option<Token<'a>>, SqlError> {
        match self.next {
            None => Ok(None),
            Some(Ok(token)) => Ok(Some(token)),
            Some(Err(())) => {
                let reason = match self.lexer.slice().starts_with('\'') {
                    true => "a text without its closing quote",
                    false => "unknown symbol",
                };
                self.at(self.span(), Err(SqlError::new(reason)))
            }
        }
    }

    /// Position of the next symbol, in bytes.
    fn span(&self) -> Range<usize> {
        self.lexer.span()
    }

    /// Adds the symbol to an error that has none.
    fn at<T>(&self, symbol: Range<usize>, result: Result<T, SqlError>) -> Result<T, SqlError> {
        result.map_err(|error| error.at(Symbol::of(self.lexer.source(), symbol)))
    }

    fn advance(&mut self) {
        self.next = self.lexer.next();
    }

    fn take_if(&mut self, token: Token<'_>) -> Result<bool, SqlError> {
        let is_it = self.peek()? == Some(token);
        if is_it {
            self.advance();
        }
        Ok(is_it)
    }

    /// `symbol`: name of the token in the error.
    fn expect(&mut self, token: Token<'_>, symbol: &str) -> Result<(), SqlError> {
        match self.take_if(token)? {
            true => Ok(()),
            false => self.at(self.span(), Err(missing(symbol))),
        }
    }
}

fn missing(symbol: &str) -> SqlError {
    SqlError::new(format!("{symbol} is missing"))
}

fn whole(digits: &str) -> Parsed {
    let number: i64 = digits
        .trim_end_matches(['l', 'L'])
        .parse()
        .map_err(|_| SqlError::new(format!("the number is above {}", i64::MAX)))?;
    let constant = i32::try_from(number).map_or(Constant::Long(number), Constant::Int);
    Ok(Expression::Constant(constant))
}

fn float(digits: &str) -> Parsed {
    match digits.parse::<f64>() {
        Ok(number) if number > 0.0 && number.is_finite() => {
            Ok(Expression::Constant(Constant::Double(number)))
        }
        _ => Err(SqlError::new("the number is 0 or too large for a double")),
    }
}

/// Refuses BETWEEN with the larger number first.
fn in_order(low: &Expression, high: &Expression) -> Result<(), SqlError> {
    match (low, high) {
        (Expression::Constant(low), Expression::Constant(high))
            if constants_in_order(low, high) == Some(false) =>
        {
            Err(SqlError::new("BETWEEN needs the smaller number first"))
        }
        _ => Ok(()),
    }
}
