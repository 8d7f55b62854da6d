//! What a reader wants, from Python's words.

use std::sync::Arc;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::filter::Sql;
use crate::store::TagFilter;

/// Messages with one of these tag codes, or whose properties satisfy the expression.
pub(super) fn filter(tag_codes: Option<Vec<i32>>, sql: Option<&str>) -> PyResult<TagFilter> {
    match (tag_codes, sql) {
        (_, Some(text)) => compile(text).map(|sql| TagFilter::Sql(Arc::new(sql))),
        (Some(codes), None) => Ok(TagFilter::Codes(codes.into())),
        (None, None) => Ok(TagFilter::All),
    }
}

fn compile(text: &str) -> PyResult<Sql> {
    Sql::compile(text).map_err(|error| PyValueError::new_err(error.to_string()))
}

/// Compiles an expression only to say what is wrong with it.
#[pyfunction]
pub(super) fn check_sql(text: &str) -> PyResult<()> {
    compile(text).map(drop)
}
