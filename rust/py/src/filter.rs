//! Converts Python's filter arguments.

use std::collections::HashMap;
use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use mq_format::bloom::BloomFilter;
use mq_format::filter::Sql;
use mq_store::MessageFilter;

/// Messages with one of these tag codes, or whose properties satisfy the expression.
///
/// `retried`: the expression for each topic that messages of a retry topic may come from.
pub(super) fn filter(
    tag_codes: Option<Vec<i32>>,
    sql: Option<&str>,
    retried: Option<HashMap<String, String>>,
) -> PyResult<MessageFilter> {
    if let Some(retried) = retried {
        let known = retried.into_iter();
        let by_topic = known.map(|(topic, text)| Ok((topic, Arc::new(compile(&text)?))));
        return Ok(MessageFilter::Retried(Arc::new(
            by_topic.collect::<PyResult<_>>()?,
        )));
    }
    match (tag_codes, sql) {
        (_, Some(text)) => compile(text).map(|sql| MessageFilter::Sql(Arc::new(sql))),
        (Some(codes), None) => Ok(MessageFilter::Codes(codes.into())),
        (None, None) => Ok(MessageFilter::All),
    }
}

fn compile(text: &str) -> PyResult<Sql> {
    Sql::compile(text).map_err(|error| PyValueError::new_err(error.to_string()))
}

/// The bits of a group's filter for a topic: the size of the bit map, and the positions.
#[pyfunction]
pub(super) fn bloom_bits(
    group: &str,
    topic: &str,
    error_percent: u32,
    group_count: u32,
) -> PyResult<(u32, Vec<u32>)> {
    let shape = BloomFilter::of(error_percent, group_count).ok_or_else(|| {
        let what = "error_percent: 1 to 99, group_count: at least 1";
        PyValueError::new_err(format!("({error_percent}, {group_count}): {what}"))
    })?;
    Ok((shape.bit_count(), shape.positions(group, topic)))
}

/// Compiles an expression to report its errors.
#[pyfunction]
pub(super) fn check_sql(text: &str) -> PyResult<()> {
    compile(text).map(drop)
}
