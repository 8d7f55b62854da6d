//! RocketMQ's grammar of expressions.
//!
//! Its parser stops where an expression is complete: words that follow are ignored, unless the
//! first of them is none. AND binds tighter than OR; NOT binds tighter than a comparison.

use logos::{Lexer, Logos};

use super::expression::{Comparison, Constant, Expression, SqlError};
use super::token::Token;

/// Deepest nesting. Java fails at some thousand, when its stack is full.
const DEPTH_MAX: usize = 310;

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

    /// The whole expression.
    pub(super) fn parse(mut self) -> Parsed {
        self.or()?.into_boolean()
    }

    fn or(&mut self) -> Parsed {
        let first = self.and()?;
        self.chain(first, Token::Or, Self::and, Expression::Or)
    }

    fn and(&mut self) -> Parsed {
        let first = self.equality()?;
        self.chain(first, Token::And, Self::equality, Expression::And)
    }

    /// `first` and what follows it between `separator`s.
    fn chain(
        &mut self,
        first: Expression,
        separator: Token<'_>,
        mut operand: impl FnMut(&mut Self) -> Parsed,
        join: impl FnOnce(Vec<Expression>) -> Expression,
    ) -> Parsed {
        if self.peek()? != Some(separator) {
            return Ok(first);
        }
        let mut parts = vec![first.into_boolean()?];
        while self.take_if(separator)? {
            parts.push(operand(self)?.into_boolean()?);
        }
        Ok(join(parts))
    }

    fn equality(&mut self) -> Parsed {
        let mut left = self.comparison()?;
        let depth = self.depth;
        loop {
            left = match self.peek()? {
                Some(Token::Equal) => {
                    self.advance();
                    left.equal(self.comparison()?)?
                }
                Some(Token::NotEqual) => {
                    self.advance();
                    left.equal(self.comparison()?)?.not()?
                }
                Some(Token::Is) => {
                    self.advance();
                    let is_not = self.take_if(Token::Not)?;
                    self.expect(Token::Null)?;
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
                    left.compare(how, self.unary()?)?
                }
                None => self.range(left)?,
            };
            self.deeper()?;
        }
    }

    /// `[NOT] BETWEEN low AND high` or `[NOT] IN ('text', ...)`.
    fn range(&mut self, left: Expression) -> Parsed {
        let is_not = self.take_if(Token::Not)?;
        if self.take_if(Token::Between)? {
            let low = self.unary()?;
            self.expect(Token::And)?;
            let high = self.unary()?;
            return match is_not {
                true => left.not_between(low, high),
                false => left.between(low, high),
            };
        }
        self.expect(Token::In)?;
        self.expect(Token::Open)?;
        let mut texts = vec![self.text()?];
        while self.take_if(Token::Comma)? {
            texts.push(self.text()?);
        }
        self.expect(Token::Close)?;
        let within = left.within(texts)?;
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
                self.unary()?.not()
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
        self.advance();
        match token {
            Some(Token::Open) => {
                let inner = self.or()?;
                self.expect(Token::Close)?;
                Ok(inner)
            }
            Some(Token::Name(name)) => Ok(Expression::property(name)),
            Some(Token::True) => Ok(Expression::Constant(Constant::Bool(true))),
            Some(Token::False) => Ok(Expression::Constant(Constant::Bool(false))),
            Some(Token::Null) => Ok(Expression::Constant(Constant::Null)),
            Some(Token::Whole(digits)) => whole(digits).map(Expression::Constant),
            Some(Token::Float(digits)) => float(digits).map(Expression::Constant),
            other => Err(unexpected(other)),
        }
    }

    fn text(&mut self) -> Result<Box<str>, SqlError> {
        match self.peek()? {
            Some(Token::Text(quoted)) => {
                self.advance();
                Ok(quoted[1..quoted.len() - 1].replace("''", "'").into())
            }
            other => Err(unexpected(other)),
        }
    }

    fn deeper(&mut self) -> Result<(), SqlError> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(SqlError(format!("nested more than {DEPTH_MAX} deep")));
        }
        Ok(())
    }

    fn peek(&self) -> Result<Option<Token<'a>>, SqlError> {
        match self.next {
            None => Ok(None),
            Some(Ok(token)) => Ok(Some(token)),
            Some(Err(())) => Err(SqlError(format!("no word: {:?}", self.lexer.slice()))),
        }
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

    fn expect(&mut self, token: Token<'_>) -> Result<(), SqlError> {
        match self.take_if(token)? {
            true => Ok(()),
            false => Err(unexpected(self.peek()?)),
        }
    }
}

fn unexpected(token: Option<Token<'_>>) -> SqlError {
    SqlError(token.map_or("it ends too early".into(), |token| {
        format!("{token:?} does not belong there")
    }))
}

fn whole(digits: &str) -> Result<Constant, SqlError> {
    let number: i64 = digits
        .trim_end_matches(['l', 'L'])
        .parse()
        .map_err(|_| SqlError(format!("{digits} is above 9223372036854775807")))?;
    Ok(i32::try_from(number).map_or(Constant::Long(number), Constant::Int))
}

fn float(digits: &str) -> Result<Constant, SqlError> {
    match digits.parse::<f64>() {
        Ok(number) if number > 0.0 && number.is_finite() => Ok(Constant::Double(number)),
        _ => Err(SqlError(format!("{digits} is 0 or no double"))),
    }
}
