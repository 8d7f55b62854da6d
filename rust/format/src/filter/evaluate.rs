//! Evaluates an expression: three-valued logic over text, numbers and truth values.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::str::FromStr;

use super::expression::{Comparison, Constant, Expression};
use super::number;
use crate::properties::Wanted;

/// Looks up a property.
pub(super) type Get<'a, 'g> = dyn Fn(&Wanted) -> Option<Cow<'a, str>> + 'g;
/// True, false, or unknown (None).
pub(super) type Truth = Result<Option<bool>, Incomparable>;

/// Two values that RocketMQ cannot compare: the evaluation ends and the message does not match.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Incomparable;

#[derive(Debug, Clone, PartialEq)]
enum Value<'a> {
    Bool(bool),
    Int(i32),
    Long(i64),
    Double(f64),
    Text(Cow<'a, str>),
}

/// Returns the truth value of an expression that has one by its form.
pub(super) fn truth<'a>(expression: &'a Expression, get: &Get<'a, '_>) -> Truth {
    match expression {
        Expression::Constant(Constant::Bool(value)) => Ok(Some(*value)),
        Expression::Equal(left, right) => equal(value(left, get)?, value(right, get)?),
        Expression::Compare(how, left, right) => {
            let Some(left) = value(left, get)? else {
                return Ok(None);
            };
            let right = value(right, get)?;
            right.map(|right| compare(*how, &left, &right)).transpose()
        }
        Expression::In(name, texts) => {
            let found = get(name);
            Ok(found.map(|found| texts.iter().any(|text| **text == *found)))
        }
        Expression::Not(inner) => Ok(truth(inner, get)?.map(|value| !value)),
        Expression::And(parts) => all(parts, false, get),
        Expression::Or(parts) => all(parts, true, get),
        Expression::Cast(name) => Ok(get(name).map(|_| false)),
        Expression::Constant(_) | Expression::Property(_) | Expression::Negate(_) => Ok(None),
    }
}

/// Evaluates the parts in order: `decisive` decides the result, and an unknown part makes it
/// unknown.
fn all<'a>(parts: &'a [Expression], decisive: bool, get: &Get<'a, '_>) -> Truth {
    let mut result = Some(!decisive);
    for part in parts {
        match truth(part, get)? {
            Some(value) if value == decisive => return Ok(Some(decisive)),
            Some(_) => {}
            None => result = None,
        }
    }
    Ok(result)
}

fn value<'a>(
    expression: &'a Expression,
    get: &Get<'a, '_>,
) -> Result<Option<Value<'a>>, Incomparable> {
    match expression {
        Expression::Constant(constant) => Ok(constant_value(constant)),
        Expression::Property(name) => Ok(get(name).map(Value::Text)),
        Expression::Negate(inner) => Ok(value(inner, get)?.and_then(negate)),
        boolean => Ok(truth(boolean, get)?.map(Value::Bool)),
    }
}

fn constant_value(constant: &Constant) -> Option<Value<'_>> {
    match constant {
        Constant::Null => None,
        Constant::Bool(value) => Some(Value::Bool(*value)),
        Constant::Int(value) => Some(Value::Int(*value)),
        Constant::Long(value) => Some(Value::Long(*value)),
        Constant::Double(value) => Some(Value::Double(*value)),
        Constant::Text(text) => Some(Value::Text(Cow::Borrowed(text))),
    }
}

/// Text has no negative, even if it is a number.
fn negate(value: Value<'_>) -> Option<Value<'_>> {
    match value {
        Value::Int(number) => Some(Value::Int(number.wrapping_neg())),
        Value::Long(number) => Some(Value::Long(number.wrapping_neg())),
        Value::Double(number) => Some(Value::Double(-number)),
        Value::Bool(_) | Value::Text(_) => None,
    }
}

fn equal(left: Option<Value<'_>>, right: Option<Value<'_>>) -> Truth {
    match (left, right) {
        (None, None) => Ok(Some(true)),
        (None, Some(_)) => Ok(None),
        (Some(_), None) => Ok(Some(false)),
        (Some(left), Some(right)) => Ok(Some(order(&left, &right)? == Some(Ordering::Equal))),
    }
}

fn compare(how: Comparison, left: &Value<'_>, right: &Value<'_>) -> Result<bool, Incomparable> {
    let ordering = match (left, right) {
        (Value::Text(left), Value::Text(right)) => {
            Some(double_order(double(left)?, double(right)?))
        }
        _ => order(left, right)?,
    };
    // RocketMQ treats values of types that do not match as "less".
    Ok(how.holds(ordering.unwrap_or(Ordering::Less)))
}

/// Returns the order of two values, after converting text to the type of the other one. None if the
/// types do not match.
fn order(left: &Value<'_>, right: &Value<'_>) -> Result<Option<Ordering>, Incomparable> {
    use Value::{Bool, Double, Int, Long, Text};
    Ok(Some(match (left, right) {
        (Bool(left), Bool(right)) => left.cmp(right),
        (Text(left), Text(right)) => left.cmp(right),
        (Int(left), Int(right)) => left.cmp(right),
        (Bool(_), Text(_)) => return Err(Incomparable),
        (Text(left), Bool(right)) => left.eq_ignore_ascii_case("true").cmp(right),
        (Int(left), Text(right)) => left.cmp(&whole(right)?),
        (Text(left), Int(right)) => whole::<i32>(left)?.cmp(right),
        (Long(left), Text(right)) => left.cmp(&whole(right)?),
        (Text(left), Long(right)) => whole::<i64>(left)?.cmp(right),
        (Double(left), Text(right)) => double_order(*left, double(right)?),
        (Text(left), Double(right)) => double_order(double(left)?, *right),
        (left, right) => return Ok(number_order(left, right)),
    }))
}

fn number_order(left: &Value<'_>, right: &Value<'_>) -> Option<Ordering> {
    let whole = |value: &Value<'_>| match value {
        Value::Int(number) => Some(i64::from(*number)),
        Value::Long(number) => Some(*number),
        _ => None,
    };
    #[expect(
        clippy::cast_precision_loss,
        reason = "Java compares such numbers as doubles"
    )]
    let any = |value: &Value<'_>| match value {
        Value::Double(number) => Some(*number),
        other => whole(other).map(|number| number as f64),
    };
    match (whole(left), whole(right)) {
        (Some(left), Some(right)) => Some(left.cmp(&right)),
        _ => Some(double_order(any(left)?, any(right)?)),
    }
}

/// Like `Double.compare`: NaN is above everything and equal to itself, -0.0 is below 0.0.
fn double_order(left: f64, right: f64) -> Ordering {
    match (left.is_nan(), right.is_nan()) {
        (false, false) => left.total_cmp(&right),
        (left, right) => left.cmp(&right),
    }
}

fn whole<N: FromStr>(text: &str) -> Result<N, Incomparable> {
    text.parse().map_err(|_| Incomparable)
}

fn double(text: &str) -> Result<f64, Incomparable> {
    number::double(text).ok_or(Incomparable)
}

/// Whether the first number is not above the second; None if one is not a number.
pub(super) fn constants_in_order(from: &Constant, to: &Constant) -> Option<bool> {
    let (from, to) = (constant_value(from)?, constant_value(to)?);
    number_order(&from, &to).map(Ordering::is_le)
}
