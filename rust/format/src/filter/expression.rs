//! The tree of an expression, and the checks that RocketMQ makes when it compiles one.

use std::cmp::Ordering;

use super::error::SqlError;
use crate::properties::Wanted;

const NO_ORDER: &str = "only numbers and properties have an order";

/// A constant. The types are Java's: an `Int` is compared with text in another way than a `Long`.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Constant {
    Null,
    Bool(bool),
    Int(i32),
    Long(i64),
    Double(f64),
    Text(Box<str>),
}

/// Kinds of comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Comparison {
    Greater,
    GreaterEqual,
    Less,
    LessEqual,
}

impl Comparison {
    /// Whether values in this order satisfy the comparison.
    pub(super) fn holds(self, ordering: Ordering) -> bool {
        match self {
            Self::Greater => ordering.is_gt(),
            Self::GreaterEqual => ordering.is_ge(),
            Self::Less => ordering.is_lt(),
            Self::LessEqual => ordering.is_le(),
        }
    }
}

#[derive(Debug, PartialEq)]
pub(super) enum Expression {
    Constant(Constant),
    Property(Box<Wanted>),
    Negate(Box<Expression>),
    Equal(Box<Expression>, Box<Expression>),
    Compare(Comparison, Box<Expression>, Box<Expression>),
    In(Box<Wanted>, Vec<Box<str>>),
    Not(Box<Expression>),
    And(Vec<Expression>),
    Or(Vec<Expression>),
    /// A property as a truth value; text is never true.
    Cast(Box<Wanted>),
}

impl Expression {
    /// The value of a property.
    pub(super) fn property(name: &str) -> Self {
        Self::Property(Box::new(name.into()))
    }

    /// Whether the expression is true or false by its form.
    fn is_boolean(&self) -> bool {
        match self {
            Self::Constant(constant) => matches!(constant, Constant::Null | Constant::Bool(_)),
            Self::Property(_) | Self::Negate(_) => false,
            _ => true,
        }
    }

    /// Returns the expression, where only a truth value is allowed.
    pub(super) fn into_boolean(self) -> Result<Self, SqlError> {
        match self {
            Self::Property(name) => Ok(Self::Cast(name)),
            other if other.is_boolean() => Ok(other),
            _ => Err(SqlError::new("a number or text is neither true nor false")),
        }
    }

    pub(super) fn not(self) -> Result<Self, SqlError> {
        Ok(Self::Not(Box::new(self.into_boolean()?)))
    }

    pub(super) fn equal_null(self) -> Self {
        Self::Equal(Box::new(self), Box::new(Self::Constant(Constant::Null)))
    }

    pub(super) fn equal(self, right: Self) -> Result<Self, SqlError> {
        if let (Self::Constant(Constant::Null), _) | (_, Self::Constant(Constant::Null)) =
            (&self, &right)
        {
            return Err(SqlError::new("NULL cannot be compared; use IS NULL"));
        }
        if let (Self::Constant(Constant::Bool(_)), Self::Constant(constant)) = (&self, &right)
            && !matches!(constant, Constant::Bool(_))
        {
            return Err(SqlError::new(
                "a truth value cannot be compared with another value",
            ));
        }
        Ok(Self::Equal(Box::new(self), Box::new(right)))
    }

    /// Only numbers, and values that may be numbers, have an order.
    pub(super) fn compare(self, how: Comparison, right: Self) -> Result<Self, SqlError> {
        for operand in [&self, &right] {
            let is_number = matches!(
                operand,
                Self::Constant(Constant::Int(_) | Constant::Long(_) | Constant::Double(_))
            );
            let is_constant = matches!(operand, Self::Constant(_));
            if operand.is_boolean() || (is_constant && !is_number) {
                return Err(SqlError::new(NO_ORDER));
            }
        }
        Ok(Self::Compare(how, Box::new(self), Box::new(right)))
    }

    /// From `low` to `high`, both included.
    pub(super) fn between(self, low: Self, high: Self) -> Result<Self, SqlError> {
        let value = self.duplicate()?;
        let above = self.compare(Comparison::GreaterEqual, low)?;
        Ok(Self::And(vec![
            above,
            value.compare(Comparison::LessEqual, high)?,
        ]))
    }

    pub(super) fn not_between(self, low: Self, high: Self) -> Result<Self, SqlError> {
        let value = self.duplicate()?;
        let below = self.compare(Comparison::Less, low)?;
        Ok(Self::Or(vec![
            below,
            value.compare(Comparison::Greater, high)?,
        ]))
    }

    pub(super) fn within(self, texts: Vec<Box<str>>) -> Result<Self, SqlError> {
        match self {
            Self::Property(name) => Ok(Self::In(name, texts)),
            _ => Err(SqlError::new("IN needs a property on its left")),
        }
    }

    /// Copies an operand that BETWEEN evaluates twice; other operands have no order anyway.
    fn duplicate(&self) -> Result<Self, SqlError> {
        match self {
            Self::Constant(constant) => Ok(Self::Constant(constant.clone())),
            Self::Property(name) => Ok(Self::Property(name.clone())),
            Self::Negate(inner) => Ok(Self::Negate(Box::new(inner.duplicate()?))),
            _ => Err(SqlError::new(NO_ORDER)),
        }
    }
}
